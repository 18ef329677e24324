"""Lists folders, and reads files with their checksums. publish.py writes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TypeAlias

import pyarrow as pa
from pyarrow.fs import FileInfo, FileSelector, FileSystem, FileType, LocalFileSystem

from hdfsstore.errors import StateStoreError
from hdfsstore.fs import checksum_files

# Each read from an object store is a request, so this much is read ahead.
_REMOTE_READ_AHEAD = 8 << 20
_BLOCK = 1 << 16
# A file of at most so many bytes is read at once, so that a long chain of small deltas needs no file descriptors.
_SMALL = 1 << 16


def list_folder(fs: FileSystem, path: str) -> list[FileInfo]:
    """The folder's entries, sorted by name; none if the folder does not exist."""
    with _typed_errors(path):
        return sorted(fs.get_file_info(FileSelector(path, allow_not_found=True)), key=lambda info: info.base_name)


def file_types(fs: FileSystem, paths: list[str]) -> list[FileType]:
    """The type of each path; FileType.NotFound if it does not exist."""
    with _typed_errors(paths[0]):
        return [info.type for info in fs.get_file_info(paths)]


def file_info(fs: FileSystem, path: str) -> FileInfo:
    """The filesystem's information about a path; its type is FileType.NotFound if the path does not exist."""
    with _typed_errors(path):
        return fs.get_file_info([path])[0]


def modified_at(fs: FileSystem, path: str) -> int:
    """The file's time in nanoseconds since 1970; 0 if there is no file, or the filesystem does not say."""
    return file_info(fs, path).mtime_ns or 0


def open_input(fs: FileSystem, path: str, siblings: Collection[str] | None = None, size: int | None = None) -> Input:
    """Opens a file for reading from its start. Reads are checked against `.name.crc` and `name.crc` if they exist.

    Args:
        siblings: the names in the file's folder, if the caller has listed it; None: the filesystem is asked.
        size: the file's size, if the caller has listed it; None: the filesystem is asked. A small file is read into
            memory and not kept open.

    Raises:
        FileNotFoundError: there is no such file.
        CorruptFileError: a checksum file makes no sense (readinto and finish raise it for the file itself).
        StateStoreError: any other error of the filesystem.
    """
    return Input(fs, path, _checksum_files_of(fs, path, siblings), size)


def read_file(fs: FileSystem, path: str, siblings: Collection[str] | None = None) -> bytes:
    """Reads the whole file, with the checks of open_input."""
    content = bytearray()
    block = bytearray(_BLOCK)
    with open_input(fs, path, siblings) as source:
        while n := source.readinto(block):
            content += memoryview(block)[:n]
    return bytes(content)


class Input:
    """A file that is read from start to end, and again after rewind(), and checked against its checksum files.

    Each read goes into the caller's buffer and is a request to the filesystem, so use large buffers. A chunk is checked
    when its last byte was read, and the whole file at its end.
    """

    def __init__(self, fs: FileSystem, path: str, checksums: list[_ChecksumFile], size: int | None = None) -> None:
        self.path = path
        self._fs = fs
        self._checksums = checksums
        self._size = size
        self._file = self._open()
        self._ended = False
        self._checks = self._new_checks()

    def readinto(self, buffer: bytearray | memoryview | pa.Buffer) -> int:
        """Fills the buffer with the next bytes. Returns their number, which is smaller only at the file's end.

        Raises:
            CorruptFileError: a checksum does not match; offset is the start of the damaged chunk.
            StateStoreError: the filesystem fails.
        """
        view = memoryview(buffer).cast("B")
        filled = 0
        with _typed_errors(self.path):
            while filled < len(view) and not self._ended:
                n = self._file.readinto(view[filled:])
                self._ended = n == 0
                filled += n
        for check in self._checks:
            check.update(view[:filled])
        if self._ended:
            self._finish_checks()
        return filled

    def finish(self) -> None:
        """Reads the rest, so that every check is made, if the caller's content has ended before the file."""
        if self._ended or not self._checks:
            return
        block = bytearray(_BLOCK)
        while self.readinto(block):
            pass

    def rewind(self) -> None:
        """Goes back to the start. The bytes are checked again."""
        with _typed_errors(self.path):
            if self._file.seekable():
                self._file.seek(0)
            else:
                self._file.close()
                self._file = self._open()
        self._ended = False
        self._checks = self._new_checks()

    def close(self) -> None:
        """Closes the file without further checks."""
        self._file.close()

    def __enter__(self) -> Input:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open(self) -> pa.NativeFile:
        with _typed_errors(self.path):
            if self._size is not None and self._size > _SMALL and not isinstance(self._fs, LocalFileSystem):
                return self._fs.open_input_stream(self.path, compression=None, buffer_size=_REMOTE_READ_AHEAD)
            file = self._fs.open_input_file(self.path)
            if file.size() <= _SMALL:
                with file:
                    return pa.BufferReader(file.read())
            if isinstance(self._fs, LocalFileSystem):
                return file
            return pa.BufferedInputStream(file, _REMOTE_READ_AHEAD)

    def _new_checks(self) -> list[checksum_files.Check]:
        made = [make(self.path, checksum_path, content) for make, checksum_path, content in self._checksums]
        return [check for check in made if check is not None]

    def _finish_checks(self) -> None:
        checks, self._checks = self._checks, []
        for check in checks:
            check.finish()


_ChecksumFile: TypeAlias = tuple[Callable[[str, str, bytes], checksum_files.Check | None], str, bytes]


def _checksum_files_of(fs: FileSystem, path: str, siblings: Collection[str] | None) -> list[_ChecksumFile]:
    folder, slash, name = path.rpartition("/")
    kinds = (
        (checksum_files.hadoop_name(name), checksum_files.hadoop_check),
        (checksum_files.spark_name(name), checksum_files.spark_check),
    )
    if siblings is None:
        with _typed_errors(path):
            infos = fs.get_file_info([folder + slash + checksum_name for checksum_name, _ in kinds])
        siblings = {info.base_name for info in infos if info.type != FileType.NotFound}
    found: list[_ChecksumFile] = []
    for checksum_name, check in kinds:
        if checksum_name not in siblings:
            continue
        checksum_path = folder + slash + checksum_name
        try:
            content = _read_checksum_file(fs, checksum_path)
        except FileNotFoundError:  # deleted, with its file, since the folder was listed
            continue
        found.append((check, checksum_path, content))
    return found


def _read_checksum_file(fs: FileSystem, path: str) -> bytes:
    with _typed_errors(path), fs.open_input_stream(path, compression=None) as source:
        content: bytes = source.read()
    return content


@contextmanager
def _typed_errors(path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException) as error:
        raise StateStoreError(
            f"the filesystem failed: {error}", path, remedy="Check that it can be reached, and the rights to read there"
        ) from error
