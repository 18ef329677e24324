"""Files in an encryption zone, whose key server hdfs-native does not know: refused, and never written unencrypted."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from hdfsstore.errors import StateStoreError
from hdfsstore.fs.hdfs.hdfs_files import HdfsFileManager
from hdfsstore.fs.hdfs.settings import HdfsSettings
from tests.integration.hdfs_managers import manager
from tests.services import java
from tests.services.fixtures import running
from tests.services.hdfs import Hdfs

_PROVIDER = "hadoop.security.key.provider.path"


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
