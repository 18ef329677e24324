"""Opens SST files of a checkpoint, and reads them in windows, of which one is ahead where a read is a request.

window      begins at a block; its end may cut a block, with which the next window begins
size        of a look-up it grows from 64 KiB on, so that it reads little; a whole read asks a storage seldom, and the
            windows of several local runs stay in the second-level cache
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from hdfsstore.codecs.sst_table import Table, open_table
from hdfsstore.errors import CorruptFileError, MissingFileError
from hdfsstore.fs.ahead import Ahead
from hdfsstore.fs.file_manager import FileManager, OpenFile
from hdfsstore.fs.local_files import LocalFileManager
from hdfsstore.state.rocksdb.archive import REMEDY
from hdfsstore.state.rocksdb.manifest import LiveFile

if TYPE_CHECKING:
    from typing_extensions import Buffer

_FIRST = 64 << 10
_LOCAL = 256 << 10
_REMOTE = 4 << 20


def open_sst(fs: FileManager, file: LiveFile, path: str, *, whole: bool) -> tuple[SstFile, Table]:
    """Opens a file and reads its end. The table reads the file, until that is closed.

    Args:
        whole: all of it will be read.

    Raises:
        MissingFileError: there is no such file.
        CorruptFileError: it has another size, or its end is damaged.
    """
    try:
        opened = fs.open_file(path)
    except FileNotFoundError as error:
        raise MissingFileError(
            "the SST file is missing, though a zip names it",
            path,
            remedy="Restore it, or read a version whose files are there",
        ) from error
    try:
        sst = SstFile(opened, file, path, is_local=isinstance(fs, LocalFileManager), whole=whole)
        return sst, open_table(path, file.size, opened.read_at, sst.window, file.largest_sequence, file.keys)
    except BaseException:
        opened.close()
        raise


class SstFile:
    """An open SST file, for one thread."""

    def __init__(self, opened: OpenFile, file: LiveFile, path: str, *, is_local: bool, whole: bool) -> None:
        if opened.size != file.size:
            raise CorruptFileError(
                f"the SST file has {opened.size} bytes, and {file.size} by the MANIFEST of its zip", path, None, REMEDY
            )
        self._opened = opened
        self._is_local = is_local
        self._most = _LOCAL if is_local else _REMOTE
        self._next = self._most if whole else _FIRST
        self._size = file.size
        self._start = 0  # of the last window
        self._last = memoryview(b"")
        self._ahead: Ahead[Buffer] | None = None
        self._ahead_size = 0

    def window(self, offset: int, size: int) -> Buffer:
        """Bytes of the file from an offset on, at least so many, if it has them."""
        end = self._start + len(self._last)
        ahead, self._ahead = self._ahead, None
        window: Buffer
        if ahead is not None and self._start <= offset <= end and offset + size <= end + self._ahead_size:
            window = b"".join((self._last[offset - self._start :], ahead.take()))
        else:
            if ahead is not None:
                ahead.drop()
            window = self._opened.read_at(offset, min(max(size, self._next), self._size - offset))
        self._start, self._last = offset, memoryview(window).cast("B")
        self._next = min(2 * self._next, self._most)
        if not self._is_local:
            self._read_ahead()
        return window

    def close(self) -> None:
        """Lets go of the file. It may be closed more than once."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            ahead.drop()
        self._last = memoryview(b"")
        self._opened.close()

    def _read_ahead(self) -> None:
        start = self._start + len(self._last)
        self._ahead_size = min(self._next, self._size - start)
        if self._ahead_size > 0:
            self._ahead = Ahead.begin(partial(self._opened.read_at, start, self._ahead_size))
