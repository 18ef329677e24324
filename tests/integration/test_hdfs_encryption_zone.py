"""Files in an encryption zone: with its key server they are read and written, without it they are refused, and never
written unencrypted."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from hdfsstore.errors import StateStoreError
from hdfsstore.fs.hdfs.hdfs_files import HdfsFileManager
from hdfsstore.fs.hdfs.settings import HdfsSettings
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


def test_files_of_an_encryption_zone_with_its_key_server(tmp_path: Path) -> None:
    with running(lambda: Kms(tmp_path / "kms")) as kms:
        kms.create_key("key")
        with running(lambda: Hdfs(tmp_path / "hdfs", conf={_PROVIDER: kms.uri})) as hdfs:
            zone = f"hdfs://{hdfs.authority}/zone"
            hdfs.active.run("fs", "-mkdir", zone)
            hdfs.active.run("crypto", "-createZone", "-keyName", "key", "-path", "/zone")
            (tmp_path / "plain").write_bytes(SMALL)
            hdfs.active.run("fs", "-put", os.fspath(tmp_path / "plain"), f"{zone}/of-hadoop")
            files, path = resolve(zone, {**hdfs.client_conf, _PROVIDER: kms.uri, "client": "hdfs-native"})
            assert read_file(files, f"{path}/of-hadoop") == SMALL
            for number, content in enumerate((SMALL, LARGE)):
                for write in (files.create, files.replace, files.write_unique):
                    write(f"{path}/{write.__name__}-{number}", [content])
                    assert read_file(files, f"{path}/{write.__name__}-{number}") == content
                with pytest.raises(FileExistsError):
                    files.create(f"{path}/create-{number}", [content])
            # Hadoop reads what we write.
            hdfs.active.run("fs", "-get", f"{zone}/create-1", os.fspath(tmp_path / "back"))
            assert (tmp_path / "back").read_bytes() == LARGE
            files.write_unique("/plain", [SMALL])
            blocks = [block.read_bytes() for block in (tmp_path / "hdfs").rglob("blk_*")]
            assert sum(MARK in block for block in blocks) == len(hdfs.datanodes)  # those of /plain
            assert len(blocks) > 7 * len(hdfs.datanodes)
            kms.stop()
            files, path = resolve(zone, {**hdfs.client_conf, _PROVIDER: kms.uri, "timeout": "5"})
            with pytest.raises(StateStoreError):
                files.create(f"{path}/later", [SMALL])
            with pytest.raises(StateStoreError):
                files.open_file(f"{path}/of-hadoop")
