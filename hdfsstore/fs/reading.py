"""Reads files with their checksums. publish.py writes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from functools import partial
from types import TracebackType
from typing import TypeAlias

import pyarrow as pa
from pyarrow.fs import FileType

from hdfsstore.errors import FileChangedError
from hdfsstore.fs import checksum_files
from hdfsstore.fs.file_manager import FileManager, OpenFile
from hdfsstore.fs.in_order import both, in_order
from hdfsstore.fs.local_files import LocalFileManager

_BLOCK = 1 << 16
# A small file is read so often if it is replaced meanwhile.
_TRIES = 3


def file_types(fs: FileManager, paths: Sequence[str]) -> list[FileType]:
    """The type of each path; FileType.NotFound if it does not exist."""
    return [info.type for info in fs.file_infos(paths)]


def modified_at(fs: FileManager, path: str) -> int:
    """The file's time in nanoseconds since 1970; 0 if there is no file, or the filesystem does not say."""
    return fs.file_infos([path])[0].mtime_ns or 0


def open_input(fs: FileManager, path: str, siblings: Collection[str] | None = None, size: int | None = None) -> Input:
    """Opens a file for reading from its start. Reads are checked against `.name.crc` and `name.crc` if they exist.

    Args:
        siblings: the names in the file's folder, if the caller has listed it; None: both are looked for.
        size: the file's size, if the caller has listed it; None: the filesystem is asked. A small file is read into
            memory and not kept open.

    Raises:
        FileNotFoundError: there is no such file.
        CorruptFileError: a checksum file makes no sense (readinto and finish raise it for the file itself).
        StateStoreError: any other error of the filesystem.
    """
    names = [name for name in _checksum_names(path) if siblings is None or name in siblings]
    if not names:
        return Input(path, fs.open_file(path, size), [])
    checksums, file = both(fs, partial(_checksum_files, fs, path, names), partial(fs.open_file, path, size))
    return Input(path, file, checksums)


def read_file(fs: FileManager, path: str, siblings: Collection[str] | None = None) -> bytes:
    """Reads the whole file, with the checks of open_input."""
    for tries in itertools.count(1):
        try:
            with open_input(fs, path, siblings) as source:
                return read_whole(source)
        except FileChangedError:
            if tries == _TRIES:
                raise
    raise AssertionError("it is read, or an error is raised")


def siblings_beside_hadoops(fs: FileManager) -> Collection[str] | None:
    """`siblings` of a file that only Hadoop may have given a checksum file, which it does on local disks alone."""
    return None if isinstance(fs, LocalFileManager) else ()


class Input:
    """A file that is read from start to end, and again after rewind(), and checked against its checksum files.

    Each read goes into the caller's buffer and is a request to the filesystem, so use large buffers. A chunk is checked
    when its last byte was read, and the whole file at its end.
    """

    def __init__(self, path: str, file: OpenFile, checksums: list[_ChecksumFile]) -> None:
        self.path = path
        self._checksums = checksums
        self._file = file
        self._ended = False
        self._checks = self._new_checks()

    def fetch_ahead(self) -> None:
        """Lets the first bytes of a remote file come while the caller reads other files."""
        self._file.readinto(bytearray())  # any read begins the requests for what follows

    def readinto(self, buffer: bytearray | memoryview | pa.Buffer) -> int:
        """Fills the buffer with the next bytes. Returns their number, which is smaller only at the file's end.

        Raises:
            CorruptFileError: a checksum does not match; offset is the start of the damaged chunk.
            StateStoreError: the filesystem fails.
        """
        view = memoryview(buffer).cast("B")
        filled = 0 if self._ended else self._file.readinto(view)
        self._ended = self._ended or filled < len(view)
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
        self._file.rewind()
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

    def _new_checks(self) -> list[checksum_files.Check]:
        made = [make(self.path, checksum_path, content) for make, checksum_path, content in self._checksums]
        return [check for check in made if check is not None]

    def _finish_checks(self) -> None:
        checks, self._checks = self._checks, []
        for check in checks:
            check.finish()


_ChecksumFile: TypeAlias = tuple[Callable[[str, str, bytes], checksum_files.Check | None], str, bytes]


_MAKERS = (
    (checksum_files.hadoop_name, checksum_files.hadoop_check),
    (checksum_files.spark_name, checksum_files.spark_check),
)


def _checksum_names(path: str) -> list[str]:
    """The names that checksum files of this file have."""
    return [name_of(path.rpartition("/")[2]) for name_of, _ in _MAKERS]


def _checksum_files(fs: FileManager, path: str, names: Collection[str]) -> list[_ChecksumFile]:
    """Those of these checksum files that exist. A listed one may be deleted by now, with its file."""
    folder, slash, _ = path.rpartition("/")
    wanted = [
        (make, folder + slash + name)
        for name, (_, make) in zip(_checksum_names(path), _MAKERS, strict=True)
        if name in names
    ]
    with in_order(fs, [partial(_content, fs, checksum_path) for _, checksum_path in wanted]) as contents:
        return [(*each, content) for each, content in zip(wanted, contents, strict=True) if content is not None]


def _content(fs: FileManager, path: str) -> bytes | None:
    try:
        with closing(fs.open_file(path)) as file:
            return read_whole(file)
    except FileNotFoundError:
        return None


def read_whole(file: Input | OpenFile) -> bytes:
    """The rest of an open file."""
    content = bytearray()
    block = bytearray(_BLOCK)
    while n := file.readinto(block):
        content += memoryview(block)[:n]
    return bytes(content)
