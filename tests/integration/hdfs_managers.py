"""HdfsFileManagers of the HDFS of the tests."""

from __future__ import annotations

from hdfsstore.fs.hdfs.hdfs_files import HdfsFileManager
from hdfsstore.fs.hdfs.settings import ClientName, HdfsSettings
from tests.services.hdfs import Hdfs


def manager(hdfs: Hdfs, *, client: ClientName = "hdfs-native", timeout_s: float = 90.0) -> HdfsFileManager:
    """One of its own for each test: what an earlier one has left hanging does not count."""
    return HdfsFileManager(HdfsSettings.of(hdfs.authority, hdfs.client_conf, client=client, timeout_s=timeout_s))


def content(files: HdfsFileManager, path: str) -> bytes:
    """All of a file."""
    file = files.open_file(path)
    assert file.size is not None
    buffer = bytearray(file.size + 1)
    return bytes(buffer[: file.readinto(buffer)])
