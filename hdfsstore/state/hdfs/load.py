"""Loads a version of a store's partition: the newest usable snapshot at or before it, then every delta after it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing
from typing import TypeVar

from pyarrow.fs import FileSystem

from hdfsstore._cext.key_set import KeySet
from hdfsstore.codecs.records import RecordFormat, Window, read_windows
from hdfsstore.errors import BatchNotAvailableError, CorruptFileError, StateStoreError
from hdfsstore.fs import Input, open_input
from hdfsstore.side_files import hadoop_name, spark_name
from hdfsstore.state.hdfs.files import Chain, StateFiles

log = logging.getLogger(__name__)
T = TypeVar("T")

# How often a folder is listed anew when files vanish between listing and opening (a running query's maintenance).
LISTINGS = 3


class PartitionLoader:
    """Reads versions of one partition of a store.

    Args:
        fs: the filesystem of the checkpoint.
        folder: the store's folder in the partition: `state/<operator>/<partition>[/<store name>]`.
        file_format: how the store's files are written.
    """

    def __init__(self, fs: FileSystem, folder: str, file_format: RecordFormat) -> None:
        self._fs = fs
        self._folder = folder
        self._format = file_format

    def load(self, version: int, convert: Callable[[Window], T]) -> list[T]:
        """The state at `version`, each key once, as `convert` of one window of records after the other.

        A damaged snapshot is passed over with a warning, where an older one and the deltas after it are there.

        Raises:
            BatchNotAvailableError, MissingFileError: the files that make up the version are not there.
            CorruptFileError: a delta is damaged, or every snapshot is.
        """
        return self._retry(version, lambda files: self._load(files, version, convert))

    def stream(self, version: int, convert: Callable[[Window], T]) -> Iterator[T]:
        """The same as `load` in bounded memory: a snapshot is read through once before its first record is handed on.

        Memory: a window, and the keys of the deltas since the snapshot.
        """
        with ExitStack() as stack:
            yield from self._retry(version, lambda files: self._open(files, version, convert, stack))

    def changes(self, versions: range, convert: Callable[[int, Window], T]) -> list[T]:
        """Every record of the deltas of `versions`, in their order, as `convert` of a version and its windows."""

        def read(files: StateFiles) -> list[T]:
            return [converted for version in versions for converted in self._changes(files, version, convert)]

        return self._retry(versions[-1], read) if versions else []

    def _changes(self, files: StateFiles, version: int, convert: Callable[[int, Window], T]) -> list[T]:
        if files.empty:
            return []
        if version not in files.deltas:
            files.chain(version)  # Says why: not written yet, or removed by retention.
            raise BatchNotAvailableError(
                f"there is no delta of version {version}, only a snapshot", files.folder, remedy="Read its state"
            )
        with closing(self._input(files, version, "delta")) as raw:
            windows = read_windows(raw, self._format, "delta", files.path(version, "delta"))
            converted = [convert(version, window) for window in windows]
            raw.finish()
            return converted

    def _retry(self, version: int, attempt: Callable[[StateFiles], T]) -> T:
        for _ in range(LISTINGS):
            files = StateFiles.list(self._fs, self._folder)
            if files.empty:
                log.warning("%s: there is no state file, so the partition is read as empty", self._folder)
            try:
                return attempt(files)
            except FileNotFoundError as error:
                log.info("%s vanished while version %d was read: listing %s again", error, version, self._folder)
        raise BatchNotAvailableError(
            f"files of version {version} vanished {LISTINGS} times while it was read: retention passed it",
            self._folder,
            remedy="Read a later batch, or let the query retain more (spark.sql.streaming.minBatchesToRetain)",
        )

    def _load(self, files: StateFiles, version: int, convert: Callable[[Window], T]) -> list[T]:
        chain = files.chain(version)
        while True:
            try:
                with ExitStack() as stack:
                    return [convert(window) for window in self._windows(files, chain, stack)]
            except CorruptFileError as error:
                chain = self._older(files, chain, version, error)

    def _open(self, files: StateFiles, version: int, convert: Callable[[Window], T], stack: ExitStack) -> Iterator[T]:
        chain = files.chain(version)
        while chain.snapshot is not None:
            try:
                self._verify(files, chain.snapshot)
                break
            except CorruptFileError as error:
                chain = self._older(files, chain, version, error)
        return map(convert, self._windows(files, chain, stack))

    def _older(self, files: StateFiles, chain: Chain, version: int, error: CorruptFileError) -> Chain:
        """The chain from the snapshot before, when the snapshot or a side file of it is damaged; else the error."""
        name = f"{chain.snapshot}.snapshot"
        if error.path not in {f"{files.folder}/{own}" for own in (name, hadoop_name(name), spark_name(name))}:
            raise error
        try:
            older = files.chain(version, below=chain.snapshot)
        except StateStoreError as missing:
            raise error from missing
        base = "the empty store" if older.snapshot is None else f"snapshot {older.snapshot}"
        log.warning("%s; going on from %s and the deltas after it", error, base)
        return older

    def _verify(self, files: StateFiles, snapshot: int) -> None:
        path = files.path(snapshot, "snapshot")
        with closing(self._input(files, snapshot, "snapshot")) as raw:
            for _ in read_windows(raw, self._format, "snapshot", path):
                pass
            raw.finish()

    def _windows(self, files: StateFiles, chain: Chain, stack: ExitStack) -> Iterator[Window]:
        """Each key's newest record: the deltas from the newest back, then what the snapshot has besides.

        All files are open, or small ones read, before this returns, so none of them can vanish later.
        """
        inputs = [(v, stack.enter_context(closing(self._input(files, v, "delta")))) for v in reversed(chain.deltas)]
        base = None
        if chain.snapshot is not None:
            base = stack.enter_context(closing(self._input(files, chain.snapshot, "snapshot")))
        return self._decided(files, chain, inputs, base)

    def _decided(
        self, files: StateFiles, chain: Chain, deltas: list[tuple[int, Input]], base: Input | None
    ) -> Iterator[Window]:
        decided = KeySet(seed=hash(files.folder))
        for version, raw in deltas:
            yield from self._decided_by_delta(decided, raw, files.path(version, "delta"))
        if base is not None and chain.snapshot is not None:
            path = files.path(chain.snapshot, "snapshot")
            for window in read_windows(base, self._format, "snapshot", path):
                kept = decided.keep_absent(window.data, window.keys, window.values)
                if kept:
                    yield window.first(kept)
            base.finish()

    def _decided_by_delta(self, decided: KeySet, raw: Input, path: str) -> Iterator[Window]:
        records = 0
        only: Window | None = None  # the delta's one window, where reading on has not used its buffers again
        for window in read_windows(raw, self._format, "delta", path):
            decided.note(window.data, window.keys, records)
            only = window if window.last and not records else None
            records += len(window)
        raw.finish()
        windows: Iterable[Window] = (only,) if only else ()
        if records and not only:
            raw.rewind()
            windows = read_windows(raw, self._format, "delta", path)
        records = 0
        for window in windows:
            kept = decided.keep_noted(window.data, window.keys, window.values, records)
            records += len(window)
            if kept:
                yield window.first(kept)
        decided.settle()

    def _input(self, files: StateFiles, version: int, kind: str) -> Input:
        return open_input(self._fs, files.path(version, kind), files.sizes, files.sizes.get(f"{version}.{kind}"))
