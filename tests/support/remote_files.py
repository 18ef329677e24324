"""A local folder as a storage whose requests are counted, and may wait for each other."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyarrow.fs import FileInfo

from hdfsstore.errors import FileChangedError
from hdfsstore.fs.file_manager import OpenFile
from hdfsstore.fs.local_files import LocalFileManager
from hdfsstore.fs.request_metrics import RequestMetrics

if TYPE_CHECKING:
    from typing_extensions import Buffer

_WAIT_SECONDS = 60


class RemoteFiles:
    """A FileManager. Each call is a request."""

    identity = "remote:"
    promises = LocalFileManager.promises

    def __init__(self) -> None:
        self.requests = RequestMetrics()
        self._local = LocalFileManager()
        self._held: tuple[re.Pattern[str], threading.Barrier] | None = None
        self._changing: re.Pattern[str] | None = None

    def replace_while_read(self, names: str) -> None:
        """The next file whose name matches is replaced when its first byte is read."""
        self._changing = re.compile(names)

    @property
    def is_replaced(self) -> bool:
        """Whether that has happened."""
        return self._changing is None

    @contextmanager
    def opened_together(self, names: str, number: int) -> Iterator[None]:
        """While each open of a file whose name matches waits for so many of them to be on their way."""
        self._held = re.compile(names), threading.Barrier(number)
        try:
            yield
        finally:
            self._held = None

    def list_folder(self, folder: str) -> list[FileInfo]:
        self.requests.request("LIST", 0.001)
        return self._local.list_folder(folder)

    def file_infos(self, paths: Sequence[str]) -> list[FileInfo]:
        for _ in paths:
            self.requests.request("HEAD", 0.001)
        return self._local.file_infos(paths)

    def open_file(self, path: str, size: int | None = None) -> OpenFile:
        self.requests.request("GET", 0.001)
        if self._held is not None and self._held[0].search(path.rpartition("/")[2]):
            self._held[1].wait(_WAIT_SECONDS)
        file = self._local.open_file(path, size)
        self.requests.read(file.size or 0)
        if self._changing is not None and self._changing.search(path.rpartition("/")[2]):
            self._changing = None
            return _Replaced(file, path)
        return file

    def create(self, path: str, content: Iterable[Buffer]) -> None:
        self._local.create(path, self._sent(content))

    def replace(self, path: str, content: Iterable[Buffer]) -> None:
        self._local.replace(path, self._sent(content))

    def write_unique(self, path: str, content: Iterable[Buffer]) -> None:
        self._local.write_unique(path, self._sent(content))

    def delete(self, paths: Sequence[str]) -> None:
        self.requests.request("DELETE", 0.001)
        self._local.delete(paths)

    def abort_unfinished(self, folder: str, grace_ns: int) -> int:
        return self._local.abort_unfinished(folder, grace_ns)

    def now_ns(self, folder: str) -> int:
        return self._local.now_ns(folder)

    def _sent(self, content: Iterable[Buffer]) -> list[Buffer]:
        pieces = list(content)
        self.requests.request("PUT", 0.001)
        self.requests.written(sum(memoryview(piece).nbytes for piece in pieces))
        return pieces


class _Replaced:
    """An open file that can no longer be read."""

    def __init__(self, file: OpenFile, path: str) -> None:
        self.size = file.size
        self.rewind = file.rewind
        self.close = file.close
        self._path = path

    def readinto(self, _: bytearray | memoryview, /) -> int:
        raise FileChangedError("it was replaced", self._path)
