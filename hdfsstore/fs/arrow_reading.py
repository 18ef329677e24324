"""Lists and reads what a pyarrow.fs.FileSystem holds."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow.fs import FileInfo, FileSelector, FileSystem

from hdfsstore.fs import typed_errors
from hdfsstore.fs.arrow_forks import own
from hdfsstore.fs.file_manager import OpenFile

if TYPE_CHECKING:
    from typing_extensions import Buffer

# A file of at most so many bytes is read at once, so that a long chain of small deltas needs no file descriptors.
_SMALL = 1 << 16


class ArrowReader:
    """The methods of a FileManager that read.

    Args:
        fs: the filesystem.
        read_ahead: bytes of a large file that one request fetches. 0: as many as the caller asks for.
    """

    def __init__(self, fs: FileSystem, read_ahead: int) -> None:
        self._filesystem = fs
        self._read_ahead = read_ahead

    @property
    def filesystem(self) -> FileSystem:
        """As given, but in a forked child one with connections of its own."""
        return own(self._filesystem)

    def list_folder(self, folder: str) -> list[FileInfo]:
        with typed_errors.reading(folder):
            infos = self.filesystem.get_file_info(FileSelector(folder, allow_not_found=True))
        return sorted(infos, key=lambda info: info.base_name)

    def file_infos(self, paths: Sequence[str]) -> list[FileInfo]:
        if not paths:
            return []
        with typed_errors.reading(paths[0]):
            infos: list[FileInfo] = self.filesystem.get_file_info(list(paths))
            return infos

    def open_file(self, path: str, size: int | None = None) -> OpenFile:
        with typed_errors.reading(path):
            places = None
            if size is not None and size > _SMALL and self._read_ahead:
                file = self.filesystem.open_input_stream(path, compression=None, buffer_size=self._read_ahead)
            else:
                file = self.filesystem.open_input_file(path)
                size = file.size()
                if size <= _SMALL:
                    with file:
                        file = pa.BufferReader(file.read())
                if size > _SMALL and self._read_ahead:
                    file = pa.BufferedInputStream(file, self._read_ahead)
                else:
                    places = file
            return _ArrowFile(path, file, size, self.filesystem, places)


class _ArrowFile:
    def __init__(self, path: str, file: pa.NativeFile, size: int, fs: FileSystem, places: pa.NativeFile | None) -> None:
        self.size: int | None = size
        self._path = path
        self._file = file
        self._fs = fs
        self._places = places  # the same file, where it can be read at places
        self._is_at_places = places is not None
        self._lock = threading.Lock()
        self._position = 0

    def readinto(self, buffer: bytearray | memoryview, /) -> int:
        view = memoryview(buffer).cast("B")
        filled = 0
        with typed_errors.reading(self._path):
            if self._is_at_places:
                self._file.seek(self._position)
            while filled < len(view) and (n := self._file.readinto(view[filled:])):
                filled += n
        self._position += filled
        return filled

    def rewind(self) -> None:
        self._position = 0
        with typed_errors.reading(self._path):
            if self._file.seekable():
                self._file.seek(0)
            else:
                self._file.close()
                self._file = self._fs.open_input_file(self._path)

    def read_at(self, offset: int, size: int) -> Buffer:
        with typed_errors.reading(self._path):
            with self._lock:
                if self._places is None:
                    self._places = self._fs.open_input_file(self._path)
                places = self._places
            content: Buffer = places.read_at(size, offset)
            return content

    def close(self) -> None:
        self._file.close()
        if self._places is not None:
            self._places.close()
