"""What HdfsFileManager promises, on a real HDFS and with both clients."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import hdfs_native
import pytest
from pyarrow.fs import FileType

from hdfsstore.errors import FileChangedError, FileSystemTimeoutError, StateStoreError
from hdfsstore.fs.hdfs.hdfs_files import HdfsFileManager
from hdfsstore.fs.hdfs.ranges import Ranges
from hdfsstore.fs.hdfs.settings import ClientName, HdfsSettings
from hdfsstore.fs.range_reader import BLOCK
from tests.integration.hdfs_managers import content, manager
from tests.integration.name_node_proxy import NameNodeProxy
from tests.services.hdfs import Hdfs
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from typing_extensions import Buffer

MB = 1 << 20


def names(files: HdfsFileManager, folder: str) -> list[str]:
    return [info.base_name for info in files.list_folder(folder)]


@pytest.fixture
def folder(request: pytest.FixtureRequest) -> str:
    return f"/{request.node.name}".replace("[", "-").replace("]", "")


@pytest.fixture
def files(hdfs: Hdfs) -> HdfsFileManager:
    return manager(hdfs)


@pytest.fixture
def proxy(hdfs: Hdfs) -> Iterator[NameNodeProxy]:
    proxy = NameNodeProxy(hdfs.rpc_ports[0])
    yield proxy
    proxy.close()


@pytest.fixture
def behind_proxy(hdfs: Hdfs, proxy: NameNodeProxy, client: ClientName) -> Callable[[float], HdfsFileManager]:
    """Gives the files as they are reached over the proxy, by the timeout."""

    def reached(timeout_s: float) -> HdfsFileManager:
        authority = f"127.0.0.1:{proxy.port}"
        return HdfsFileManager(HdfsSettings.of(authority, hdfs.client_conf, client=client, timeout_s=timeout_s))

    reached(60).list_folder("/")  # a JVM takes its time to start
    return reached


def test_a_file_appears_whole_and_is_replaced(files: HdfsFileManager, folder: str) -> None:
    path = f"{folder}/new/folders/file"
    files.create(path, [b"one", memoryview(b" two")])
    assert content(files, path) == b"one two"
    files.replace(path, [b"three"])
    assert content(files, path) == b"three"
    files.write_unique(path, [])
    assert content(files, path) == b""
    assert names(files, f"{folder}/new/folders") == ["file"]


def test_a_large_file_is_written_and_read_in_parts(files: HdfsFileManager, folder: str) -> None:
    pieces = [os.urandom(3 << 20) for _ in range(9)]
    files.create(f"{folder}/file", iter(pieces))
    assert content(files, f"{folder}/file") == b"".join(pieces)
    counts = files.requests.snapshot()
    assert counts.requests["write"] == 4
    assert counts.requests["read"] == 4
    assert counts.bytes_read == counts.bytes_written == 27 << 20
    file = files.open_file(f"{folder}/file", 27 << 20)
    start = bytearray(10)
    file.readinto(start)
    file.rewind()
    assert file.readinto(start) == 10
    assert start == pieces[0][:10]


@pytest.mark.parametrize("size", [10, 20 << 20])
def test_content_that_fails_leaves_the_old_file_and_no_other(files: HdfsFileManager, folder: str, size: int) -> None:
    def half() -> Iterator[bytes]:
        yield bytes(size)
        raise KeyError("the content")

    files.create(f"{folder}/old", [b"old"])
    with pytest.raises(KeyError):
        files.replace(f"{folder}/old", half())
    with pytest.raises(KeyError):
        files.create(f"{folder}/new", half())
    assert names(files, folder) == ["old"]
    assert content(files, f"{folder}/old") == b"old"


@pytest.mark.parametrize("name", ["old", "new"])
def test_a_long_file_that_is_deleted_while_it_is_written_is_a_typed_error(
    hdfs: Hdfs, client: ClientName, folder: str, name: str
) -> None:
    """FileNotFoundError would say that there is no such file as the one that was to be written."""
    files = manager(hdfs, client=client)
    of_hadoop = hdfs_native.Client(hdfs.uri(""), hdfs.client_conf)
    files.create(f"{folder}/old", [b"old"])

    def content_that_is_deleted() -> Iterator[bytes]:
        yield bytes(20 * MB)
        [temporary] = {*names(files, folder)} - {"old"}
        assert of_hadoop.delete(f"{folder}/{temporary}")

    with pytest.raises(StateStoreError, match="FileNotFound"):
        files.replace(f"{folder}/{name}", content_that_is_deleted())
    assert names(files, folder) == ["old"]
    assert content(files, f"{folder}/old") == b"old"


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_rename_whose_answer_is_lost_has_been_carried_out(
    files: HdfsFileManager,
    behind_proxy: Callable[[float], HdfsFileManager],
    proxy: NameNodeProxy,
    folder: str,
    overwrite: bool,
) -> None:
    through = behind_proxy(60)
    through.create(f"{folder}/other", [b""])
    write = through.replace if overwrite else through.create
    proxy.lose_answer("rename2")
    write(f"{folder}/file", [b"mine"])
    assert proxy.carried_out.is_set()
    assert names(files, folder) == ["file", "other"]
    assert content(files, f"{folder}/file") == b"mine"


def test_a_lost_race_is_known_even_if_the_answer_is_lost(
    files: HdfsFileManager, behind_proxy: Callable[[float], HdfsFileManager], proxy: NameNodeProxy, folder: str
) -> None:
    files.create(f"{folder}/file", [b"theirs"])
    proxy.lose_answer("rename2")
    with pytest.raises(FileExistsError):
        behind_proxy(60).create(f"{folder}/file", [b"mine"])
    assert proxy.carried_out.is_set()
    assert names(files, folder) == ["file"]
    assert content(files, f"{folder}/file") == b"theirs"


def test_nothing_is_written_over_a_rename_that_is_still_under_way(
    files: HdfsFileManager, behind_proxy: Callable[[float], HdfsFileManager], proxy: NameNodeProxy, folder: str
) -> None:
    hasty = behind_proxy(2)
    hasty.create(f"{folder}/file", [b"old"])
    with proxy.holding("rename2"):
        with pytest.raises(FileSystemTimeoutError):
            hasty.replace(f"{folder}/file", [b"late"])
        writes = hasty.requests.snapshot().requests["write"]
        with pytest.raises(FileSystemTimeoutError):  # Java's one connection is held back with the rename
            hasty.replace(f"{folder}/file", [b"newer"])
        assert hasty.requests.snapshot().requests["write"] == writes
        assert content(files, f"{folder}/file") == b"old"
    deadline = time.monotonic() + 60
    while True:
        try:
            hasty.replace(f"{folder}/file", [b"newest"])
            break
        except FileSystemTimeoutError:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    assert content(files, f"{folder}/file") == b"newest"


def test_nothing_is_written_over_a_rename_whose_connection_was_lost_and_that_may_land_later(
    files: HdfsFileManager, behind_proxy: Callable[[float], HdfsFileManager], proxy: NameNodeProxy, folder: str
) -> None:
    hasty = behind_proxy(20)
    hasty.replace(f"{folder}/file", [b"old"])
    proxy.carried_out.clear()
    with proxy.holding("rename2", cut=True):
        with pytest.raises(FileSystemTimeoutError, match="`rename`"):
            hasty.replace(f"{folder}/file", [b"late"])
        with pytest.raises(FileSystemTimeoutError, match="may still take effect") as raised:
            hasty.replace(f"{folder}/file", [b"newer"])
        assert raised.value.tries == 0
        with pytest.raises(FileSystemTimeoutError, match="may still take effect"):
            hasty.create(f"{folder}/file", [b"newer"])
        assert content(files, f"{folder}/file") == b"old"
    assert proxy.carried_out.wait(60)
    wait_until(lambda: content(files, f"{folder}/file") == b"late")
    hasty.replace(f"{folder}/file", [b"newest"])
    assert content(files, f"{folder}/file") == b"newest"


def blocks_of(hdfs: Hdfs, mark: bytes) -> list[Path]:
    """Those on the DataNodes' disks that begin with the mark, and that somebody may read.

    Where a DataNode is so slow that a writer goes on without it, its part of the block stays for hours (rbw).
    """
    found = []
    for folder in hdfs.data_folders:
        for block in folder.rglob("finalized/**/blk_*"):
            with suppress(FileNotFoundError), block.open("rb") as file:  # it moves when it is whole
                found += [block] if file.read(len(mark)) == mark else []
    return found


def test_a_file_that_is_replaced_while_it_is_read_is_never_mixed(hdfs: Hdfs, client: ClientName, folder: str) -> None:
    """By one that is as long, a millisecond later. Of itself Java knows the first ten blocks of an open file."""
    path, mark, now_ms = f"{folder}/file", uuid.uuid4().bytes, 1_700_000_000_000
    conf = {**hdfs.client_conf, "dfs.blocksize": str(MB)}
    files = HdfsFileManager(HdfsSettings.of(hdfs.authority, conf, client=client))
    of_hadoop = hdfs_native.Client(hdfs.uri(""), hdfs.client_conf)
    files.create(path, [mark * (12 * MB // len(mark))])
    of_hadoop.set_times(path, now_ms, now_ms)
    assert len(blocks_of(hdfs, mark)) >= 12
    file = files.open_file(path)
    files.replace(path, [bytes(12 * MB)])
    of_hadoop.set_times(path, now_ms + 1, now_ms)
    wait_until(lambda: not blocks_of(hdfs, mark))
    for offset in (10 * MB, 0):
        with pytest.raises(FileChangedError):
            file.read_at(offset, MB)
    assert content(files, path) == bytes(12 * MB)


def test_a_file_that_is_deleted_while_it_is_read_is_one_that_has_changed(
    hdfs: Hdfs, client: ClientName, folder: str
) -> None:
    path, mark = f"{folder}/file", uuid.uuid4().bytes
    files = manager(hdfs, client=client)
    files.create(path, [mark * (12 * MB // len(mark))])
    file = files.open_file(path)
    files.delete([path])
    wait_until(lambda: not blocks_of(hdfs, mark))
    with pytest.raises(FileChangedError):
        file.read_at(10 * MB, MB)


def test_ranges_are_read_at_the_same_time(
    hdfs: Hdfs, client: ClientName, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = manager(hdfs, client=client)
    content = os.urandom(5 * BLOCK)
    files.create(f"{folder}/file", [content])
    together = threading.Barrier(4)
    one_by_one = Ranges.read

    def read(ranges: Ranges, offset: int, size: int) -> Buffer:
        if offset:  # the first range is what the reader waits for
            together.wait(60)  # fails if one of the four waits for another one
        return one_by_one(ranges, offset, size)

    monkeypatch.setattr(Ranges, "read", read)
    found = bytearray(len(content) + 1)
    assert files.open_file(f"{folder}/file").readinto(found) == len(content)
    assert found[:-1] == content


def test_missing_files(files: HdfsFileManager, folder: str) -> None:
    with pytest.raises(FileNotFoundError):
        files.open_file(f"{folder}/file")
    assert files.list_folder(folder) == []
    assert [info.type for info in files.file_infos([folder, f"{folder}/file", "/"])] == [
        FileType.NotFound,
        FileType.NotFound,
        FileType.Directory,
    ]
    files.delete([f"{folder}/file", f"{folder}/other"])


def test_many_files_are_listed_and_deleted(files: HdfsFileManager, folder: str) -> None:
    paths = [f"{folder}/{number:04}" for number in range(1100)]  # the NameNode lists a thousand at once
    before = files.now_ns("/")
    for path in paths:
        files.write_unique(path, [])
    listed = files.list_folder(folder)
    assert [info.path for info in listed] == paths
    assert all(before <= info.mtime_ns <= files.now_ns(folder) for info in (listed[0], listed[-1]))
    files.delete(paths)
    assert files.list_folder(folder) == []


def test_what_cannot_be_deleted_is_named_and_the_others_are_gone(files: HdfsFileManager, folder: str) -> None:
    files.create(f"{folder}/1", [b""])
    files.create(f"{folder}/full/2", [b""])
    files.create(f"{folder}/3", [b""])
    with pytest.raises(StateStoreError, match=f"{folder}/full"):
        files.delete([f"{folder}/1", f"{folder}/full", f"{folder}/3"])
    assert names(files, folder) == ["full"]


def test_a_name_below_a_file_is_an_error(files: HdfsFileManager, folder: str) -> None:
    files.create(f"{folder}/file", [b""])
    with pytest.raises(StateStoreError, match="not a directory"):
        files.create(f"{folder}/file/below", [b""])
    with pytest.raises(StateStoreError, match="not a folder"):
        files.list_folder(f"{folder}/file")


def test_a_forked_child_gets_a_client_of_its_own(files: HdfsFileManager, folder: str) -> None:
    files.create(f"{folder}/parent", [b"p"])
    pid = os.fork()
    if pid == 0:
        try:
            files.create(f"{folder}/child", [content(files, f"{folder}/parent")])
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0
    assert content(files, f"{folder}/child") == b"p"
    assert names(files, folder) == ["child", "parent"]


def in_new_process(hdfs: Hdfs, code: str, **environment: str) -> str:
    script = f"""
from hdfsstore.fs.hdfs.hdfs_files import HdfsFileManager
from hdfsstore.fs.hdfs.settings import HdfsSettings
files = HdfsFileManager(HdfsSettings.of({hdfs.authority!r}, {hdfs.client_conf!r}))
{code}
"""
    done = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, **environment}, capture_output=True, text=True, timeout=120
    )
    return done.stdout


def test_a_user_without_rights_is_told(hdfs: Hdfs, files: HdfsFileManager, folder: str) -> None:
    files.create(f"{folder}/file", [b"old"])
    code = f"""
from hdfsstore.errors import StateStoreError
for work in (files.create, files.replace):
    try:
        work("{folder}/file", [b""])
    except StateStoreError as error:
        print(error)
"""
    first, second = in_new_process(hdfs, code, HADOOP_USER_NAME="mallory").splitlines()
    for line in (first, second):
        assert "AccessControlException: Permission denied: user=mallory" in line
        assert "HADOOP_USER_NAME" in line
    assert content(files, f"{folder}/file") == b"old"


def test_permissions_follow_the_umask_of_hadoop(hdfs: Hdfs, folder: str) -> None:
    conf = {**hdfs.client_conf, "fs.permissions.umask-mode": "077", "dfs.replication": "1", "dfs.blocksize": "8k"}
    files = HdfsFileManager(HdfsSettings.of(hdfs.authority, conf, client="hdfs-native"))
    files.create(f"{folder}/file", [bytes(20_000)])
    assert content(files, f"{folder}/file") == bytes(20_000)
    assert hdfs.active.run("fs", "-stat", "%a %r %o", f"hdfs://{hdfs.authority}{folder}/file") == "600 1 8192"


def test_hdfs_without_the_package_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "hdfs_native.py").write_text("raise ImportError('none here')")
    code = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
from hdfsstore.fs.hdfs.hdfs_files import HdfsFileManager
from hdfsstore.fs.hdfs.settings import HdfsSettings
try:
    HdfsFileManager(HdfsSettings.of("nn:8020", {{}}, client="hdfs-native"))
except Exception as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install 'hdfsstore[hdfs]'" in done.stdout
