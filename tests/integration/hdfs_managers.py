"""HdfsFileManagers of the HDFS of the tests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hdfsstore.errors import StateStoreError
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.hdfs.hdfs_files import HdfsFileManager
from hdfsstore.fs.hdfs.settings import ClientName, HdfsSettings
from tests.services.hdfs import Hdfs


def manager(hdfs: Hdfs, *, client: ClientName = "hdfs-native", timeout_s: float = 90.0) -> HdfsFileManager:
    """One of its own for each test: what an earlier one has left hanging does not count."""
    return HdfsFileManager(HdfsSettings.of(hdfs.authority, hdfs.client_conf, client=client, timeout_s=timeout_s))


def check_is_refused(pair: FileManager, folder: str) -> None:
    """Each call of a pair that a forked child has from its parent is a typed error, and no hang."""
    path = f"{folder}/file"
    calls: list[Callable[[], object]] = [
        lambda: pair.list_folder(folder),
        lambda: pair.file_infos([path]),
        lambda: pair.open_file(path),
        lambda: pair.create(path, [b""]),
        lambda: pair.replace(path, [b""]),
        lambda: pair.delete([path]),
    ]
    for call in calls:
        with pytest.raises(StateStoreError, match="forked from one that has used this filesystem"):
            call()


def content(files: HdfsFileManager, path: str) -> bytes:
    """All of a file."""
    file = files.open_file(path)
    assert file.size is not None
    buffer = bytearray(file.size + 1)
    return bytes(buffer[: file.readinto(buffer)])
