"""Loads a version of a store's partition: the newest usable snapshot at or before it, then every delta after it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from itertools import groupby
from types import MappingProxyType
from typing import TypeVar

from pyarrow.fs import FileSystem

from hdfsstore._cext.key_set import KeySet
from hdfsstore.codecs.records import RecordFormat, Window
from hdfsstore.errors import BatchNotAvailableError
from hdfsstore.fs import Input
from hdfsstore.state.files import Chain, StateFiles, VersionId
from hdfsstore.state.version_files import (
    LineageFiles,
    ListedFiles,
    VersionFiles,
    read_version,
    warn_of_empty,
    with_listing,
)

T = TypeVar("T")


class PartitionLoader:
    """Reads versions of one partition of a store.

    Args:
        fs: the filesystem of the checkpoint.
        folder: the store's folder in the partition: `state/<operator>/<partition>[/<store name>]`.
        file_format: how the store's files are written.
        unique_ids: of the versions that were written with one.
    """

    def __init__(
        self,
        fs: FileSystem,
        folder: str,
        file_format: RecordFormat,
        unique_ids: Mapping[int, str] = MappingProxyType({}),
    ) -> None:
        self._fs = fs
        self._folder = folder
        self._format = file_format
        self._unique_ids = unique_ids

    def load(self, version: int, convert: Callable[[Window], T]) -> list[T]:
        """The state at `version`, each key once, as `convert` of one window of records after the other.

        A damaged snapshot is passed over with a warning, where an older one and the deltas after it are there.

        Raises:
            BatchNotAvailableError, MissingFileError: the files that make up the version are not there.
            CorruptFileError: a delta is damaged, or every snapshot is.
        """

        def read(files: VersionFiles, chain: Chain) -> list[T]:
            with ExitStack() as stack:
                return [convert(window) for window in self._windows(files, chain, stack)]

        return self._read(version, read)

    def stream(self, version: int, convert: Callable[[Window], T]) -> Iterator[T]:
        """The same as `load` in bounded memory: a snapshot is read through once before its first record is handed on.

        Memory: a window, and the keys of the deltas since the snapshot.
        """
        with ExitStack() as stack:

            def read(files: VersionFiles, chain: Chain) -> Iterator[Window]:
                if chain.snapshot is not None:
                    verify(files, chain.snapshot)
                return self._windows(files, chain, stack)

            yield from map(convert, self._read(version, read))

    def changes(self, versions: Sequence[int], convert: Callable[[int, Window], T]) -> list[T]:
        """Every record of the deltas of `versions`, in their order, as `convert` of a version and its windows."""
        return [
            item
            for with_ids, group in groupby(versions, lambda version: version in self._unique_ids)
            for item in (self._changes_with_ids if with_ids else self._changes_listed)(list(group), convert)
        ]

    def _changes_listed(self, versions: Sequence[int], convert: Callable[[int, Window], T]) -> list[T]:
        def read(listing: StateFiles) -> list[T]:
            if listing.empty:
                warn_of_empty(self._folder)
                return []
            found: list[T] = []
            for version in versions:
                if (version, None) not in listing.deltas:
                    listing.chain(version)  # Says why: not written yet, or removed by retention.
                    raise BatchNotAvailableError(
                        f"there is no delta of version {version}, only a snapshot",
                        self._folder,
                        remedy="Read its state",
                    )
                found += _changes(ListedFiles(self._fs, listing, self._format, (version, None)), convert)
            return found

        return with_listing(self._fs, self._folder, versions[-1], read)

    def _changes_with_ids(self, versions: Sequence[int], convert: Callable[[int, Window], T]) -> list[T]:
        ids = [(version, self._unique_ids[version]) for version in versions]
        opened = (LineageFiles(self._fs, self._folder, self._format, version_id) for version_id in ids)
        return [item for files in opened for item in _changes(files, convert)]

    def _read(self, version: int, read: Callable[[VersionFiles, Chain], T]) -> T:
        version_id = version, self._unique_ids.get(version)
        return read_version(self._fs, self._folder, self._format, version_id, read, empty_folder=True)

    def _windows(self, files: VersionFiles, chain: Chain, stack: ExitStack) -> Iterator[Window]:
        """Each key's newest record: the deltas from the newest back, then what the snapshot has besides.

        All files are open, or small ones read, before this returns, so none of them can vanish later.
        """
        deltas = [(delta, stack.enter_context(closing(files.open(delta, "delta")))) for delta in reversed(chain.deltas)]
        base = None
        if chain.snapshot is not None:
            base = chain.snapshot, stack.enter_context(closing(files.open(chain.snapshot, "snapshot")))
        return self._decided(files, deltas, base)

    def _decided(
        self, files: VersionFiles, deltas: list[tuple[VersionId, Input]], base: tuple[VersionId, Input] | None
    ) -> Iterator[Window]:
        decided = KeySet()
        for version_id, source in deltas:
            yield from _decided_by_delta(decided, files, version_id, source)
        if base is not None:
            snapshot, source = base
            for window in files.windows(source, snapshot, "snapshot"):
                kept = decided.keep_absent(window.data, window.keys, window.values)
                if kept:
                    yield window.first(kept)
            source.finish()


def verify(files: VersionFiles, snapshot: VersionId) -> None:
    """Reads a snapshot to its end, and raises CorruptFileError where it is damaged."""
    with closing(files.open(snapshot, "snapshot")) as source:
        for _ in files.windows(source, snapshot, "snapshot"):
            pass
        source.finish()


def _decided_by_delta(decided: KeySet, files: VersionFiles, version_id: VersionId, source: Input) -> Iterator[Window]:
    records = 0
    only: Window | None = None  # the delta's one window, where reading on has not used its buffers again
    for window in files.windows(source, version_id, "delta"):
        decided.note(window.data, window.keys, records)
        only = window if window.last and not records else None
        records += len(window)
    source.finish()
    windows: Iterable[Window] = (only,) if only else ()
    if records and not only:
        source.rewind()
        windows = files.windows(source, version_id, "delta")
    records = 0
    for window in windows:
        kept = decided.keep_noted(window.data, window.keys, window.values, records)
        records += len(window)
        if kept:
            yield window.first(kept)
    decided.settle()


def _changes(files: VersionFiles, convert: Callable[[int, Window], T]) -> list[T]:
    version_id = files.version_id
    with closing(files.open(version_id, "delta")) as source:
        converted = [convert(version_id[0], window) for window in files.windows(source, version_id, "delta")]
        source.finish()
        return converted
