"""Reads files of HDFS."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from pyarrow.fs import FileInfo

from hdfsstore.errors import FileChangedError
from hdfsstore.fs.hdfs.client import HdfsClient, HdfsError, ReadableFile
from hdfsstore.fs.range_reader import BLOCK
from hdfsstore.fs.request_metrics import RequestMetrics

if TYPE_CHECKING:
    from typing_extensions import Buffer

T = TypeVar("T")


class Call(Protocol):
    """Makes a request (HdfsFileManager)."""

    def __call__(self, kind: str, path: str, work: Callable[[HdfsClient], T], /) -> T: ...


class Ranges:
    """Reads ranges of one version of a file.

    Args:
        info: of the file when it was opened, or before.
    """

    def __init__(self, call: Call, requests: RequestMetrics, path: str, file: ReadableFile, info: FileInfo) -> None:
        self._call = call
        self._requests = requests
        self._path = path
        self._file = file
        self._info = info

    def read(self, offset: int, size: int) -> Buffer:
        content: Buffer = self._call("read", self._path, lambda client: self._read(client, offset, size))
        self._requests.read(size)
        return content

    def _read(self, client: HdfsClient, offset: int, size: int) -> Buffer:
        file = self._file
        try:
            return file.read_range(offset, size)
        except FileNotFoundError:  # Java asks for the blocks anew, by the name
            raise self._changed() from None
        except HdfsError:
            self._file = self._opened_anew(client)
            raise

    def _opened_anew(self, client: HdfsClient) -> ReadableFile:
        try:
            now = client.info(self._path)
            file = client.open(self._path)
        except FileNotFoundError:
            raise self._changed() from None
        then = self._info
        if (now.size, now.mtime_ns, file.size) != (then.size, then.mtime_ns, then.size):
            raise self._changed()
        return file

    def _changed(self) -> FileChangedError:
        return FileChangedError("the file was replaced or deleted while it was read", self._path, remedy="Read it anew")


def open_small(client: HdfsClient, path: str) -> tuple[ReadableFile, bytes]:
    """Opens a file, and reads it if it is small."""
    file = client.open(path)
    return file, bytes(file.read_range(0, file.size)) if 0 < file.size <= BLOCK else b""
