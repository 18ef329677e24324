"""Reads and writes a log with one file a batch, named by the batch's number: the offset log, the commit log."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from pyarrow.fs import FileInfo, FileType

from hdfsstore.errors import BatchAlreadyLoggedError
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.publish import publish, remove, remove_leftovers

T = TypeVar("T")

NUMBER = re.compile(r"0|[1-9]\d{0,17}", re.ASCII)
_READERS = 8

_Key: TypeAlias = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class Listing:
    """One listing of a log's folder: the file of each batch, by number, and the names of all files."""

    files: dict[int, FileInfo]
    names: frozenset[str]


class MetadataLog(Generic[T]):
    """A log. Each file is written once, and read once.

    Files whose name is no number (checksum files, `.4.<uuid>.tmp`) are not batches.

    Args:
        read: reads a file, given the names in its folder.
        only_ours: nobody but this package writes there, so a new entry needs no look for checksum files of an older
            one. On S3 it is one PUT.
    """

    def __init__(
        self,
        fs: FileManager,
        folder: str,
        read: Callable[[FileManager, str, Collection[str]], T],
        *,
        only_ours: bool = False,
    ) -> None:
        self._fs = fs
        self._folder = folder
        self._read = read
        self._only_ours = only_ours
        # The key has size and time too, because a batch that ran again has another file of the same name.
        self._entries: dict[_Key, T] = {}

    def list(self) -> Listing:
        return self._listing(self._fs.list_folder(self._folder))

    def read(self, listing: Listing, batch_id: int) -> T | None:
        """Reads the entry of a batch; None if its file is gone by now (Spark purges old ones)."""
        info = listing.files[batch_id]
        entry = self._entries.get(_key(info))
        if entry is None:
            try:
                entry = self._entries[_key(info)] = self._read(self._fs, info.path, listing.names)
            except FileNotFoundError:
                return None
        return entry

    def read_all(self, listing: Listing, batch_ids: Iterable[int]) -> dict[int, T]:
        """Reads the entries of those batches whose files are still there."""
        wanted = list(batch_ids)
        with ThreadPoolExecutor(_READERS, thread_name_prefix="hdfsstore-log") as pool:
            entries = pool.map(lambda batch_id: self.read(listing, batch_id), wanted)
            return {batch_id: entry for batch_id, entry in zip(wanted, entries, strict=True) if entry is not None}

    def latest(self) -> tuple[int, T] | None:
        """The newest batch and its entry; None in a log without any."""
        listing = self.list()
        for batch_id in reversed(listing.files):
            entry = self.read(listing, batch_id)
            if entry is not None:
                return batch_id, entry
        return None

    def add(self, batch_id: int, content: bytes) -> None:
        """Writes the file of a batch, whole or not at all.

        Raises:
            BatchAlreadyLoggedError: the file exists.
        """
        path = f"{self._folder}/{batch_id}"
        try:
            if self._only_ours:
                self._fs.create(path, [content])
            else:
                publish(self._fs, path, content, overwrite=False)
        except FileExistsError:
            raise BatchAlreadyLoggedError(
                f"this log has an entry of batch {batch_id} already, and entries are never replaced",
                path,
                remedy="Does another run of the query write to the same checkpoint? Only one may",
            ) from None

    def purge(self, before: int) -> None:
        """Deletes the files of all batches before `before`, and what killed writers have left long ago."""
        infos = self._fs.list_folder(self._folder)
        listing = self._listing(infos)
        paths = [info.path for batch_id, info in listing.files.items() if batch_id < before]
        remove(self._fs, paths, listing.names)
        remove_leftovers(self._fs, self._folder, infos)

    def _listing(self, infos: Sequence[FileInfo]) -> Listing:
        files = {int(i.base_name): i for i in infos if i.type == FileType.File and NUMBER.fullmatch(i.base_name)}
        # Entries that the query has purged are dropped here too, else a query of months fills the memory.
        present = {_key(info) for info in files.values()}
        for key in tuple(self._entries):
            if key not in present:
                self._entries.pop(key, None)
        return Listing(dict(sorted(files.items())), frozenset(info.base_name for info in infos))


def _key(info: FileInfo) -> _Key:
    return info.base_name, info.size or 0, info.mtime_ns or 0
