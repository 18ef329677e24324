"""Loads a version of a store's partition: the newest usable snapshot at or before it, then every delta after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TypeVar

from hdfsstore.codecs.records import RecordChunk
from hdfsstore.fs.kept_input import KeptInput, kept
from hdfsstore.fs.reading import Input
from hdfsstore.state.base.partition_reader import BasePartitionReader, Opened
from hdfsstore.state.hdfs.newest_records import NewestRecords
from hdfsstore.state.protocols import ALL_KEYS, KeyRange
from hdfsstore.state.versions.chain import VersionFiles
from hdfsstore.state.versions.files import Chain, VersionId

T = TypeVar("T")


class HdfsPartitionReader(BasePartitionReader):
    """hdfsstore.state.protocols.PartitionReader on deltas and snapshots."""

    def load(
        self,
        version: int,
        convert: Callable[[RecordChunk], T],
        keys: KeyRange = ALL_KEYS,  # noqa: ARG002 - files are not sorted
    ) -> list[T]:
        """The state at `version`, each key once, as the protocol says.

        A damaged snapshot is passed over with a warning, where an older one and the deltas after it are there.

        Raises:
            BatchNotAvailableError, MissingFileError: the files that make up the version are not there.
            CorruptFileError: a delta is damaged, or every snapshot is.
        """

        def read(files: VersionFiles, chain: Chain) -> list[T]:
            with ExitStack() as stack:
                newest = NewestRecords(files)
                deltas, base = self._opened(files, chain, stack)
                loaded = [item for delta in deltas for item in newest.by_delta_at_once(*delta, convert)]
                return loaded + [convert(chunk) for snapshot in base for chunk in newest.rest(*snapshot)]

        return self._read(version, read)

    def stream(
        self,
        version: int,
        convert: Callable[[RecordChunk], T],
        keys: KeyRange = ALL_KEYS,  # noqa: ARG002 - files are not sorted
    ) -> Iterator[T]:
        """The same as `load` in bounded memory: a snapshot is read through once before its first record is handed on.

        Memory: a chunk, and the keys of the deltas since the snapshot. A snapshot of a remote storage is kept for the
        second read (kept_input.py).
        """
        with ExitStack() as stack:

            def read(files: VersionFiles, chain: Chain) -> Iterator[RecordChunk]:
                base = (
                    [] if chain.snapshot is None else [(chain.snapshot, self._verified(files, chain.snapshot, stack))]
                )
                deltas, _ = self._opened(files, Chain(None, chain.deltas), stack)
                return _chunks(NewestRecords(files), deltas, base)

            yield from map(convert, self._read(version, read))

    def _verified(self, files: VersionFiles, snapshot: VersionId, stack: ExitStack) -> Input | KeptInput:
        """The snapshot at its start. It was read to its end: CorruptFileError where it is damaged."""
        source = kept(self._fs, files.open(snapshot, "snapshot"))
        try:
            for _ in files.chunks(source, snapshot, "snapshot"):
                pass
            source.finish()
            source.rewind()
        except BaseException:
            source.close()
            raise
        stack.callback(source.close)
        return source


def _chunks(
    newest: NewestRecords, deltas: list[Opened], base: list[tuple[VersionId, Input | KeptInput]]
) -> Iterator[RecordChunk]:
    for delta in deltas:
        yield from newest.by_delta(*delta)
    for snapshot in base:
        yield from newest.rest(*snapshot)
