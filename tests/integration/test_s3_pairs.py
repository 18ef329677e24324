"""S3 through a pair (pyarrow's S3FileSystem, path): what fails leaves the old object, or none."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from pyarrow.fs import FileSystem, FileType

from hdfsstore.errors import StateStoreError
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.location import resolve
from hdfsstore.fs.reading import read_file
from tests.services.fault_proxy import Fault, FaultProxy
from tests.services.minio import Minio
from tests.services.places import BUCKET

LARGE = 12 << 20


@pytest.fixture
def pair(minio: Minio, proxy: FaultProxy) -> tuple[FileManager, str]:
    """The files behind the proxy, and a folder."""
    files, folder = resolve(FileSystem.from_uri(minio.uri(f"{BUCKET}/{uuid.uuid4()}", proxy.port)))
    assert files.promises.atomic_replace
    return files, folder


@pytest.mark.parametrize(("size", "target"), [(3, "/file"), (LARGE, "partNumber=")], ids=["one PUT", "parts"])
def test_a_write_without_space_leaves_the_old_object_or_none(
    pair: tuple[FileManager, str], proxy: FaultProxy, size: int, target: str
) -> None:
    files, folder = pair
    files.create(f"{folder}/file", [b"old"])
    [full] = proxy.plan(Fault("answer", "PUT", target, times=99, status=507, code="InsufficientStorage"))
    for write, path in ((files.replace, f"{folder}/file"), (files.create, f"{folder}/file-2")):
        met = full.met
        with pytest.raises(StateStoreError, match="507"):
            write(path, [bytes(size)])
        assert full.met > met
    proxy.plan()
    assert read_file(files, f"{folder}/file") == b"old"
    assert [info.base_name for info in files.list_folder(folder)] == ["file"]
    files.replace(f"{folder}/file", [bytes(size)])
    assert read_file(files, f"{folder}/file") == bytes(size)


def test_content_that_fails_leaves_the_old_object_and_deleted_ones_are_gone(pair: tuple[FileManager, str]) -> None:
    files, folder = pair

    def half() -> Iterator[bytes]:
        yield bytes(LARGE)
        raise KeyError("the content")

    files.create(f"{folder}/file", [b"old"])
    with pytest.raises(KeyError):
        files.replace(f"{folder}/file", half())
    assert read_file(files, f"{folder}/file") == b"old"
    files.delete([f"{folder}/file", f"{folder}/missing"])
    assert files.file_infos([f"{folder}/file"])[0].type == FileType.NotFound
