"""Reads the rows of a RocksDB from its SST files, as a zip of a checkpoint names them, without RocksDB.

files      the MANIFEST says which are live and in which order; they must be those that the metadata names
reads      the end of each file first (footer, index), then its blocks in windows; some windows and files are ahead
memory     for each file of level 0, and one of each other level: index, window, and one window ahead; and a chunk
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, TypeAlias

from hdfsstore._cext.sst import Merge, Overlay
from hdfsstore.codecs.records import RecordChunk
from hdfsstore.codecs.sst_table import split_key
from hdfsstore.errors import CorruptFileError, SizeLimitError
from hdfsstore.fs.ahead import Ahead
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.in_order import in_order
from hdfsstore.fs.local_files import LocalFileManager
from hdfsstore.state.rocksdb.archive import REMEDY, SST_FOLDER, Archive
from hdfsstore.state.rocksdb.manifest import LiveFile, live_files
from hdfsstore.state.rocksdb.sst_file import SstFile, open_sst

if TYPE_CHECKING:
    from hdfsstore.codecs.sst_table import Table

_Opened: TypeAlias = "tuple[SstFile, Table]"


class Database:
    """A RocksDB that lies in a zip and in the SST files that the zip names. Threads may share it.

    Args:
        fs: the filesystem of the checkpoint.
        folder: of the store, in which SSTs/ is.
        archive: the decoded zip.
        path: of the zip, for messages.

    Raises:
        CorruptFileError: the MANIFEST is damaged, or names other files than the metadata.
        UnsupportedProviderError: the database has what Spark's do not have.
    """

    def __init__(self, fs: FileManager, folder: str, archive: Archive, path: str) -> None:
        self._fs = fs
        self._path = path
        live = live_files(archive.files, path)
        _check_same(live, archive, path)
        remote = {sst.local: f"{folder}/{SST_FOLDER}/{sst.remote}" for sst in archive.ssts}
        self._files = [(file, remote[file.name]) for file in live]

    def chunks(
        self,
        overlay: Overlay | None = None,
        delimiter: bytes = b",",
        first: bytes | None = None,
        end: bytes | None = None,
    ) -> Iterator[RecordChunk]:
        """The rows in the order of their keys, each key once, without deleted ones, in bounded memory.

        Args:
            overlay: updates on top of the files.
            delimiter: what joins merge operands.
            first, end: only keys from `first` on, and before `end`. Only the blocks that these need are read.

        Raises:
            CorruptFileError: a file is damaged.
            MissingFileError: a file is missing.
            UnsupportedProviderError, UnsupportedVersionError: a file is in a format that Spark does not write.
        """
        files = [file for file in self._files if _may_have(file[0], first, end)]
        with ExitStack() as stack:
            runs = _runs(self._fs, files, stack, whole=first is None and end is None)
            merge = Merge(runs, overlay, delimiter=delimiter, first=first, end=end)
            try:
                while (read := merge.read()) is not None:
                    data, keys, values = read
                    yield RecordChunk(memoryview(data), keys, values, self._path, 0)
            except SizeLimitError as error:
                raise SizeLimitError(error.message, error.path or self._path, error.offset, error.remedy) from error


def _check_same(live: Sequence[LiveFile], archive: Archive, path: str) -> None:
    named = {sst.local: sst.size for sst in archive.ssts}
    known = {file.name: file.size for file in live}
    for name in sorted(named.keys() | known.keys()):
        if name not in known or name not in named:
            where, other = ("MANIFEST", "metadata") if name in known else ("metadata", "MANIFEST")
            raise CorruptFileError(f"its {where} names {name}, and its {other} does not", path, None, REMEDY)
        if named[name] != known[name]:
            raise CorruptFileError(
                f"{name} has {named[name]} bytes by its metadata, and {known[name]} by its MANIFEST", path, None, REMEDY
            )


def _may_have(file: LiveFile, first: bytes | None, end: bytes | None) -> bool:
    return (first is None or split_key(file.keys.largest)[0] >= first) and (
        end is None or split_key(file.keys.smallest)[0] < end
    )


def _runs(fs: FileManager, files: Sequence[tuple[LiveFile, str]], stack: ExitStack, *, whole: bool) -> list[_Run]:
    """Runs of files, the newest first. The first file of each is open."""
    runs = []
    for level, group in groupby(files, lambda file: file[0].level):
        run = list(group)
        runs += [run] if level else [[file] for file in run]
    opens = [[partial(open_sst, fs, *file, whole=whole) for file in run] for run in runs]
    begun = []
    with in_order(fs, [run[0] for run in opens]) as opened:
        for first, (_, *rest) in zip(opened, opens, strict=True):
            begun.append(_Run(first, rest, ahead=not isinstance(fs, LocalFileManager)))
            stack.callback(begun[-1].close)
    return begun


class _Run:
    """The tables of a run. Each file is closed when the next one is asked for.

    Args:
        first: the first file. The run closes it.
        rest: open the others.
        ahead: whether to open the next file while one is read.
    """

    def __init__(self, first: _Opened, rest: Sequence[Callable[[], _Opened]], *, ahead: bool) -> None:
        self._file, self._table = first
        self._rest = deque(rest)
        self._opens_ahead = ahead
        self._ahead: Ahead[_Opened] | None = None
        self._begun = False

    def __iter__(self) -> Iterator[Table]:
        return self

    def __next__(self) -> Table:
        if self._begun:
            self._file.close()
            if not self._rest:
                raise StopIteration
            open_next, ahead, self._ahead = self._rest.popleft(), self._ahead, None
            self._file, self._table = ahead.take() if ahead else open_next()
        self._begun = True
        if self._rest and self._opens_ahead:
            self._ahead = Ahead.begin(self._rest[0])
        return self._table

    def close(self) -> None:
        """Lets go of the file at hand and of the next one."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            ahead.drop()
        self._file.close()
