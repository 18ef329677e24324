"""libhdfs on a real HDFS. That it keeps the promises is in test_promises.py, what happens in faults in
test_hdfs_faults.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyarrow.fs import FileType

from hdfsstore.errors import StateStoreError
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.hdfs.client import HdfsError
from hdfsstore.fs.hdfs.hdfs_files import HdfsFileManager
from hdfsstore.fs.hdfs.libhdfs_client import LibhdfsClient
from hdfsstore.fs.hdfs.settings import HdfsSettings
from tests.integration.hdfs_managers import manager
from tests.services.hdfs import Hdfs
from tests.services.ports import free_port
from tests.support.truth import DATA, NEWEST
from tests.support.waiting import wait_until

CHECKPOINT = DATA / NEWEST / "aggregation" / "checkpoint"
ROOT = Path(__file__).parents[2]
SOON_S = 20

pytestmark = pytest.mark.usefixtures("libhdfs")


@pytest.fixture
def files(hdfs: Hdfs) -> HdfsFileManager:
    return manager(hdfs, client="libhdfs")


def put(files: FileManager, source: Path, target: str) -> None:
    for file in source.rglob("*"):
        if file.is_file():
            files.create(f"{target}/{file.relative_to(source)}", [file.read_bytes()])


def test_it_is_used_where_it_loads_and_inspect_shows_which_one_is(
    hdfs: Hdfs, files: HdfsFileManager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The classes of Hadoop are those of PySpark: neither CLASSPATH nor HADOOP_HOME is set."""
    put(files, CHECKPOINT, "/of-libhdfs")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(hdfs.conf_dir))

    def inspected(options: str) -> dict[str, Any]:
        file = tmp_path / "options"
        file.write_text(options)
        command = [sys.executable, "-m", "hdfsstore", "inspect", "hdfs:///of-libhdfs", "--json"]
        ran = subprocess.run([*command, "--option-file", str(file)], capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
        report: dict[str, Any] = json.loads(ran.stdout)
        return report

    of_itself, forced = inspected(""), inspected("client=hdfs-native")
    assert of_itself.pop("client").startswith("libhdfs ")
    assert forced.pop("client").startswith("hdfs-native ")
    assert of_itself == forced


def test_a_forked_child_gets_an_error_and_may_use_hdfs_native(hdfs: Hdfs) -> None:
    """In a process of its own, in which no other test has left clients."""
    command = [sys.executable, "-m", "tests.integration.libhdfs_forks", hdfs.uri("fork"), json.dumps(hdfs.client_conf)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (ran.returncode, ran.stdout.strip()) == (0, "[0, 0, 0, 0, 0, 0]"), ran.stderr[-3000:]


@pytest.mark.parametrize("size", [3, 5])
def test_a_file_that_is_replaced_while_it_is_opened_is_of_one_version(
    hdfs: Hdfs, files: HdfsFileManager, size: int
) -> None:
    """The size of an open file is that of the file that has its name now."""
    path = f"/opened/{size}"
    files.create(path, [b"four"])
    client = LibhdfsClient(HdfsSettings.of(hdfs.authority, hdfs.client_conf))

    class ReplacedOnce:
        def __init__(self, inner: Any) -> None:
            self._inner = inner

        def open_input_file(self, opened: str) -> Any:
            file = self._inner.open_input_file(opened)
            client._fs = self._inner
            files.replace(path, [b"newer"[:size]])
            return file

    client._fs = ReplacedOnce(client._fs)
    file = client.open(path)
    assert file.read_range(0, file.size) == b"newer"[:size]


def test_a_file_that_is_given_up_is_closed_and_holds_nothing_up(hdfs: Hdfs) -> None:
    client = LibhdfsClient(HdfsSettings.of(hdfs.authority, hdfs.client_conf))
    file = client.create("/given-up/file", one_replica=False)
    file.write(b"some")
    name_node = hdfs.active.process
    # Another process, for this one would hang with the interpreter's lock.
    thaws = subprocess.Popen(["sh", "-c", f"sleep {SOON_S} && kill -CONT {name_node.pid}"])
    name_node.freeze()
    try:
        del file
        assert thaws.poll() is None
    finally:
        thaws.kill()
        thaws.wait()
        name_node.thaw()
    wait_until(lambda: client.info("/given-up/file").size == len(b"some"))


def test_settings_of_hadoop_count(hdfs: Hdfs) -> None:
    conf = {**hdfs.client_conf, "dfs.replication": "1", "dfs.blocksize": "8192", "fs.permissions.umask-mode": "077"}
    files = HdfsFileManager(HdfsSettings.of(hdfs.authority, conf, client="libhdfs"))
    files.create("/libhdfs-settings/file", [bytes(20_000)])
    uri = hdfs.uri("libhdfs-settings/file")
    assert hdfs.active.run("fs", "-stat", "%a %r %o", uri) == "600 1 8192"


def test_settings_count_that_were_put_right_in_the_same_process(hdfs: Hdfs) -> None:
    def client(port: int) -> LibhdfsClient:
        conf = {
            "dfs.nameservices": "right",
            "dfs.ha.namenodes.right": "one",
            "dfs.namenode.rpc-address.right.one": f"127.0.0.1:{port}",
            "dfs.client.failover.proxy.provider.right": (
                "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
            ),
            "dfs.client.failover.max.attempts": "0",
        }
        return LibhdfsClient(HdfsSettings.of("right", {**hdfs.client_conf, **conf}))

    with pytest.raises(HdfsError, match="ConnectException"):
        client(free_port()).info("/")
    assert client(hdfs.rpc_ports[0]).info("/").type == FileType.Directory


def test_errors_say_what_java_says(files: HdfsFileManager) -> None:
    files.create("/said/file", [b""])
    with pytest.raises(StateStoreError, match=r"ParentNotDirectoryException: /said/file .*is not a directory"):
        files.create("/said/file/below", [b""])


def test_an_error_of_pyarrow_is_not_told_as_what_java_said_before(hdfs: Hdfs, files: HdfsFileManager) -> None:
    """A folder that is a file must not look like one that is missing."""
    files.create("/told/file", [b"content"])
    client = LibhdfsClient(HdfsSettings.of(hdfs.authority, hdfs.client_conf))
    with pytest.raises(FileNotFoundError):
        client.info("/told/missing")
    with pytest.raises(HdfsError, match="'/told/file' is a file"):
        client.list_folder("/told/file")


def test_without_classes_of_hadoop_it_is_an_error_each_time(hdfs: Hdfs, tmp_path: Path) -> None:
    """In a process of its own, which libhdfs would end by a crash when it is asked again."""
    script = tmp_path / "script.py"
    script.write_text(
        "from hdfsstore.errors import StateStoreError\n"
        "from hdfsstore.fs.location import resolve\n"
        f"files, folder = resolve({hdfs.uri('classes')!r}, {{'client': 'libhdfs'}})\n"
        "for _ in range(20):\n"
        "    try:\n"
        "        files.list_folder(folder)\n"
        "    except StateStoreError as error:\n"
        "        print(error)\n"
    )
    environment = {**os.environ, "CLASSPATH": "/nowhere.jar"}
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, env=environment)
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert ran.stdout.count("hadoop classpath") == 20
