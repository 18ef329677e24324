"""HDFS with Kerberos and protected connections: a ticket, a delegation token as in a container of YARN, and what is
seen on the way to the NameNode."""

from __future__ import annotations

import base64
import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hdfsstore.errors import UnsupportedSettingError
from hdfsstore.fs.location import resolve
from hdfsstore.fs.reading import read_file
from tests.services import kdc as kerberos
from tests.services.fixtures import running
from tests.services.hdfs import Hdfs
from tests.services.hdfs_node import write_xml
from tests.services.kdc import Kdc
from tests.spark.support.java import use_java

ROOT = Path(__file__).parents[2]
RPC, DATA = "hadoop.rpc.protection", "dfs.data.transfer.protection"
ANY = "authentication,integrity,privacy"
_FOLDER = "a-folder-whose-name-is-seen-if-it-is-not-encrypted"
# libgssapi keeps what it has found, so each case is a process.
_WORK = """
import json, sys
from hdfsstore.errors import StateStoreError
from hdfsstore.fs.location import resolve
from hdfsstore.fs.reading import read_file
uri, options, large = sys.argv[1], json.loads(sys.argv[2]), b"state;" * 2_000_000
try:
    files, path = resolve(uri, options)
    files.create(f"{path}/small", [b"state"])
    files.replace(f"{path}/large", [large])
    assert read_file(files, f"{path}/small") == b"state"
    assert read_file(files, f"{path}/large") == large
    print("done")
except StateStoreError as error:
    print(type(error).__name__, error)
"""


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    with running(lambda: Kdc(tmp_path_factory.mktemp("kdc"))) as server:
        yield server


@pytest.fixture(scope="module", params=["privacy", "authentication"])
def cluster(request: pytest.FixtureRequest, kdc: Kdc, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    """An HDFS whose connections are protected so, with a folder that everybody may write to."""
    folder = tmp_path_factory.mktemp(request.param)
    with running(lambda: Hdfs(folder / "hdfs", conf=kdc.hdfs_conf(request.param), jvm=kdc.jvm)) as hdfs:
        hdfs.active.run("fs", "-mkdir", hdfs.uri(_FOLDER))
        hdfs.active.run("fs", "-chmod", "777", hdfs.uri(_FOLDER))
        hdfs.protection = request.param  # type: ignore[attr-defined]
        yield hdfs


def outcome(uri: str, hdfs: Hdfs, environment: dict[str, str], **settings: str) -> str:
    """What a process says that writes and reads there with a client that takes any protection, unless settings say."""
    conf = {**hdfs.client_conf, **kerberos.client_conf(), RPC: ANY, DATA: ANY, "client": "hdfs-native", "timeout": "20"}
    names = {"rpc": RPC, "data": DATA}
    options = conf | {names[name]: value for name, value in settings.items()}
    done = subprocess.run(
        [sys.executable, "-c", _WORK, uri, json.dumps(options)],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout.strip()


def test_with_a_ticket(cluster: Hdfs, kdc: Kdc) -> None:
    uri = cluster.uri(f"{_FOLDER}/ticket")
    assert outcome(uri, cluster, kdc.environment(ticket=True)) == "done"
    listed = cluster.active.run("fs", "-ls", uri)
    assert listed.count(f" {kerberos.USER} ") == 2


def test_with_a_delegation_token_and_nothing_else(cluster: Hdfs, kdc: Kdc, tmp_path: Path) -> None:
    uri = cluster.uri(f"{_FOLDER}/token")
    token = tmp_path / "token"
    cluster.active.run("token", str(token))
    environment = kdc.environment(ticket=False)
    assert "kinit" in outcome(uri, cluster, environment)
    assert outcome(uri, cluster, {**environment, "HADOOP_TOKEN_FILE_LOCATION": str(token)}) == "done"


def test_a_token_is_shown_nowhere(cluster: Hdfs, kdc: Kdc, tmp_path: Path) -> None:
    """Neither a token nor one that the NameNode refuses is in a file, log or message of a store's life."""
    token = tmp_path / "token"
    cluster.active.run("token", str(token))
    content = token.read_bytes()
    # Writable: ..., password (its size in a byte), kind (likewise), service
    end = content.index(b"\x15HDFS_DELEGATION_TOKEN")
    password = content[end - 20 : end]
    assert content[end - 21] == len(password)
    wrong = bytes(byte ^ 1 for byte in password)
    (tmp_path / "wrong").write_bytes(content.replace(password, wrong))
    options = {**cluster.client_conf, **kerberos.client_conf(), RPC: ANY, DATA: ANY, "client": "hdfs-native"}
    uri, local, temporary = cluster.uri(f"{_FOLDER}/secret"), tmp_path / "local", tmp_path / "temporary"
    temporary.mkdir()

    def life(token_file: str, **more: str) -> str:
        environment = {"HADOOP_TOKEN_FILE_LOCATION": str(tmp_path / token_file), "TMPDIR": str(temporary)}
        call = [sys.executable, "-m", "tests.integration.token_user", uri, json.dumps({**options, **more}), str(local)]
        environment = {**os.environ, **kdc.environment(ticket=False), **environment}
        done = subprocess.run(call, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
        return done.stdout + done.stderr

    said = life("token")
    assert "done" in said.splitlines()
    refused = life("wrong", timeout="5")
    assert "done" not in refused.splitlines()
    assert "HDFS has failed" in refused
    cluster.active.run("fs", "-get", uri, str(tmp_path / "there"))
    files = [path for folder in (local, temporary, tmp_path / "there") for path in folder.rglob("*") if path.is_file()]
    assert {"store.json"} <= {path.name for path in files}
    assert [path for path in files if path.suffix == ".delta"]
    found = said.encode() + refused.encode() + b"".join(path.read_bytes() for path in files)
    for secret in (password, wrong):
        shown = (secret, secret.hex().encode(), base64.b64encode(secret), repr(secret)[2:-1].encode())
        assert not [each for each in shown if each in found]


def test_what_is_seen_on_the_way_is_as_the_servers_ask(cluster: Hdfs, kdc: Kdc) -> None:
    with Listener(cluster.rpc_ports[0]) as listener:
        uri = cluster.uri(f"{_FOLDER}/seen", listener.port)
        assert outcome(uri, cluster, kdc.environment(ticket=True)) == "done"
    assert listener.seen
    is_private = cluster.protection == "privacy"  # type: ignore[attr-defined]
    assert (_FOLDER.encode() in listener.seen) is not is_private


@pytest.mark.spark
def test_a_query_of_spark_insists_on_protection_as_hadoops_client_does(
    cluster: Hdfs, kdc: Kdc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf = tmp_path / "conf"
    conf.mkdir()
    settings = {**cluster.client_conf, **kerberos.client_conf(), RPC: "privacy", DATA: "privacy"}
    del settings["fs.defaultFS"]  # the input is on a local disk
    settings["ipc.client.connect.max.retries.on.sasl"] = "0"  # else Hadoop's client asks six times
    write_xml(conf / "core-site.xml", settings)
    use_java(monkeypatch)
    uri = cluster.uri(f"{_FOLDER}/query")
    command = [sys.executable, "-m", "tests.integration.kerberos_driver", uri, str(tmp_path)]
    ran = subprocess.run(
        [*command, str(kdc.keytab_of_user), str(kdc.krb5_conf)],
        cwd=ROOT,
        env={
            **os.environ,
            **kdc.environment(ticket=True),
            "HADOOP_CONF_DIR": str(conf),
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT),
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    said = ran.stdout.strip()
    written = cluster.active.run("fs", "-ls", "-R", cluster.uri(_FOLDER))
    if cluster.protection == "privacy":  # type: ignore[attr-defined]
        assert said == "done", said + ran.stderr[-3000:]
        assert re.search(r"/query/hdfsstore/state/.*\.delta$", written, re.MULTILINE)
    else:
        assert re.match("refused: .*No common protection layer", said), said + ran.stderr[-3000:]
        assert "/query" not in written


@pytest.mark.parametrize("name", ["rpc", "data"])
def test_a_protection_that_cannot_be_insisted_on_is_refused_by_name(cluster: Hdfs, kdc: Kdc, name: str) -> None:
    said = outcome(cluster.uri(f"{_FOLDER}/refused"), cluster, kdc.environment(ticket=True), **{name: "privacy"})
    assert said.startswith(UnsupportedSettingError.__name__)
    assert {"rpc": RPC, "data": DATA}[name] in said


def test_encrypted_transfer_of_data_is_as_the_name_node_asks(tmp_path: Path) -> None:
    conf = {"dfs.encrypt.data.transfer": "true", "dfs.block.access.token.enable": "true"}
    content = b"state;" * 2_000_000
    with running(lambda: Hdfs(tmp_path / "hdfs", conf=conf)) as hdfs:
        files, path = resolve(hdfs.uri("encrypted"), {**hdfs.client_conf, "client": "hdfs-native"})
        for number, each in enumerate((content[:6], content)):
            files.create(f"{path}/{number}", [each])
            assert read_file(files, f"{path}/{number}") == each


class Listener:
    """Stands before a NameNode, and keeps what goes through."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.seen = bytearray()

    def __enter__(self) -> Listener:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # which ends `accept`
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # closed
                return
            server = socket.create_connection(("127.0.0.1", self._target))
            for source, target in ((client, server), (server, client)):
                threading.Thread(target=self._pass_on, args=(source, target), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while block := source.recv(1 << 16):
                self.seen += block
                target.sendall(block)
            target.shutdown(socket.SHUT_WR)
        except OSError:  # the other end has gone
            target.close()
