"""Files in an encryption zone: with its key server they are read and written, without it they are refused, and never
written unencrypted."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyarrow.fs import FileType

from hdfsstore.errors import StateStoreError
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.hdfs.hdfs_files import HdfsFileManager
from hdfsstore.fs.hdfs.settings import ClientName, HdfsSettings
from hdfsstore.fs.location import resolve
from hdfsstore.fs.reading import read_file
from tests.integration.hdfs_managers import manager
from tests.services import java
from tests.services.fixtures import running
from tests.services.hdfs import Hdfs
from tests.services.kms import Kms

_PROVIDER = "hadoop.security.key.provider.path"
MARK = b"what nobody may read on the disk;"
SMALL, LARGE = MARK, MARK * 400_000  # one call, and several


def with_key(folder: Path, provider: str) -> Hdfs:
    """An HDFS whose NameNode takes its keys from a file."""
    jars = ":".join(map(str, java.spark_jars().glob("*.jar")))
    tool = [java.executable(), "-cp", jars, "org.apache.hadoop.crypto.key.KeyShell"]
    subprocess.run([*tool, "create", "key", "-provider", provider], check=True, capture_output=True)
    return Hdfs(folder / "hdfs", conf={_PROVIDER: provider})


def test_files_of_an_encryption_zone_are_refused_without_its_key_server(tmp_path: Path) -> None:
    provider = f"jceks://file{tmp_path}/keys.jceks"
    with running(lambda: with_key(tmp_path, provider)) as hdfs:
        zone = f"hdfs://{hdfs.authority}/zone"
        hdfs.active.run("fs", "-mkdir", zone)
        hdfs.active.run("crypto", "-createZone", "-keyName", "key", "-path", "/zone")
        (tmp_path / "plain").write_bytes(b"by Hadoop")
        hdfs.active.run("fs", "-put", os.fspath(tmp_path / "plain"), f"{zone}/of-hadoop")
        files = manager(hdfs)
        conf = {**hdfs.client_conf, _PROVIDER: provider}
        with_file = HdfsFileManager(HdfsSettings.of(hdfs.authority, conf, client="hdfs-native"))
        for each in (files, with_file):
            with pytest.raises(StateStoreError, match=_PROVIDER):
                each.create("/zone/ours", [b"state"])
            with pytest.raises(StateStoreError, match=_PROVIDER):
                each.open_file("/zone/of-hadoop")
        assert [info.base_name for info in files.list_folder("/zone")] == [".Trash", "of-hadoop"]


@dataclass(frozen=True)
class Zone:
    """The encryption zone /zone of a running HDFS, and its key server."""

    hdfs: Hdfs
    kms: Kms
    uri: str

    def files(self, client: ClientName, **options: str) -> FileManager:
        conf = {**self.hdfs.client_conf, _PROVIDER: self.kms.uri}
        return resolve(self.uri, {**conf, "client": client, **options})[0]

    def blocks(self) -> tuple[int, int]:
        """How many files with blocks the DataNodes have, and how many of these show the mark."""
        found = []
        for folder in self.hdfs.data_folders:
            for block in folder.rglob("blk_*"):
                with suppress(FileNotFoundError):  # one of a file that is deleted
                    found.append(block.read_bytes())
        return len(found), sum(MARK in block for block in found)


@pytest.fixture(scope="module")
def zone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zone]:
    folder = tmp_path_factory.mktemp("zone")
    with running(lambda: Kms(folder / "kms")) as kms:
        kms.create_key("key")
        with running(lambda: Hdfs(folder / "hdfs", conf={_PROVIDER: kms.uri})) as hdfs:
            uri = hdfs.uri("zone")
            hdfs.active.run("fs", "-mkdir", uri)
            hdfs.active.run("crypto", "-createZone", "-keyName", "key", "-path", "/zone")
            (folder / "plain").write_bytes(SMALL)
            hdfs.active.run("fs", "-put", os.fspath(folder / "plain"), f"{uri}/of-hadoop")
            yield Zone(hdfs, kms, uri)


def test_files_of_an_encryption_zone_with_its_key_server(zone: Zone, client: ClientName, tmp_path: Path) -> None:
    files, folder = zone.files(client), f"/zone/{client}"
    assert read_file(files, "/zone/of-hadoop") == SMALL
    blocks, marked = zone.blocks()
    for number, content in enumerate((SMALL, LARGE)):
        for write in (files.create, files.replace, files.write_unique):
            write(f"{folder}/{write.__name__}-{number}", [content])
            assert read_file(files, f"{folder}/{write.__name__}-{number}") == content
        with pytest.raises(FileExistsError):
            files.create(f"{folder}/create-{number}", [content])
    # Hadoop reads what we write.
    zone.hdfs.active.run("fs", "-get", f"{zone.uri}/{client}/create-1", os.fspath(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == LARGE
    files.write_unique(f"/plain-{client}", [SMALL])
    blocks_now, marked_now = zone.blocks()
    assert blocks_now > blocks + 7 * len(zone.hdfs.datanodes)
    assert marked_now == marked + len(zone.hdfs.datanodes)  # those of /plain


def test_files_of_an_encryption_zone_are_refused_while_its_key_server_is_away(zone: Zone, client: ClientName) -> None:
    files, path = zone.files(client, timeout="2"), f"/zone/later-{client}"
    zone.files(client).list_folder("/zone")  # a JVM takes its time to start
    _, marked = zone.blocks()
    zone.kms.stop()
    try:
        with pytest.raises(StateStoreError):
            files.create(path, [SMALL])
        with pytest.raises(StateStoreError):
            files.open_file("/zone/of-hadoop")
    finally:
        zone.kms.start()
    assert zone.blocks()[1] == marked
    assert zone.files(client).file_infos([path])[0].type == FileType.NotFound
