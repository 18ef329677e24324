"""Loads a version of a store's partition: the newest usable snapshot at or before it, then every delta after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TypeVar

from hdfsstore._cext.key_set import KeySet
from hdfsstore.codecs.records import RecordChunk
from hdfsstore.fs.kept_input import KeptInput, kept
from hdfsstore.fs.reading import Input
from hdfsstore.state.base.key_part import ALL_PARTS, KeyPart, parts_for
from hdfsstore.state.base.partition_reader import BasePartitionReader, Opened
from hdfsstore.state.hdfs.newest_records import NewestRecords
from hdfsstore.state.protocols import ALL_KEYS, KeyRange
from hdfsstore.state.versions.chain import VersionFiles
from hdfsstore.state.versions.files import Chain, VersionId

T = TypeVar("T")

# A key of so many tells how many there are.
_SAMPLE = 128
# What a KeySet takes for a key beside its bytes, while its table grows (cext/key_set.pyx).
_KEY_BYTES = 72


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
                loaded: list[T] = []
                for delta in deltas:
                    if delta is deltas[-1]:  # earlier it would take places ahead from the deltas
                        for _, source in base:
                            source.fetch_ahead()
                    loaded += newest.by_delta_at_once(*delta, convert)
                return loaded + [convert(chunk) for snapshot in base for chunk in newest.rest(*snapshot)]

        return self._read(version, read)

    def stream(
        self,
        version: int,
        convert: Callable[[RecordChunk], T],
        keys: KeyRange = ALL_KEYS,  # noqa: ARG002 - files are not sorted
        memory: int | None = None,
    ) -> Iterator[T]:
        """The same as `load` in bounded memory: a snapshot is read through once before its first record is handed on.

        Memory: a chunk, and the keys of the deltas since the snapshot. Where these take more than `memory`, all files
        are read once for each part of the keys that fits. A snapshot of a remote storage is kept for the second read
        (kept_input.py).
        """
        with ExitStack() as stack:

            def read(files: VersionFiles, chain: Chain) -> Iterator[RecordChunk]:
                base = (
                    [] if chain.snapshot is None else [(chain.snapshot, self._verified(files, chain.snapshot, stack))]
                )
                deltas, _ = self._opened(files, Chain(None, chain.deltas), stack)
                return _chunks(files, deltas, base, _parts(files, deltas, memory))

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


def _parts(files: VersionFiles, deltas: list[Opened], memory: int | None) -> list[KeyPart]:
    """Parts of the keys of which those in deltas fit into the memory, by how many there are in a sample."""
    if memory is None:
        return [ALL_PARTS]
    part = KeyPart(0, _SAMPLE)
    sample = KeySet()
    records = size = 0
    for version_id, source in deltas:
        for chunk in map(part.of, files.chunks(source, version_id, "delta")):
            sample.note(chunk.data, chunk.keys, chunk.values)
            records += len(chunk)
            size += chunk.sizes()[0]
        source.finish()
        source.rewind()
        sample.settle()
    mean = size / records if records else 0
    return parts_for(int(_SAMPLE * len(sample) * (mean + _KEY_BYTES)), memory)


def _chunks(
    files: VersionFiles, deltas: list[Opened], base: list[tuple[VersionId, Input | KeptInput]], parts: list[KeyPart]
) -> Iterator[RecordChunk]:
    for part in parts:
        newest = NewestRecords(files, part)
        if part.number:
            for _, source in [*deltas, *base]:
                source.rewind()
        for delta in deltas:
            yield from newest.by_delta(*delta)
        for snapshot in base:
            yield from newest.rest(*snapshot)
