"""Reads one column family of a partition: its keys begin with its number, which the zip of a version tells."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

import pyarrow as pa

from hdfsstore._cext import rocksdb_rows
from hdfsstore.codecs.records import RecordChunk
from hdfsstore.codecs.rocksdb_keys import after, family_prefix
from hdfsstore.errors import StateStoreError
from hdfsstore.state.protocols import ALL_KEYS, KeyRange
from hdfsstore.state.rocksdb.partition_reader import Families, RocksDbPartitionReader

T = TypeVar("T")


class FamilyReader:
    """hdfsstore.state.protocols.PartitionReader of one family. The spans of keys leave the family's number out.

    Args:
        reader: of the partition.
        name: of the family. A version that does not have it yet has no rows of it.
    """

    def __init__(self, reader: RocksDbPartitionReader, name: str) -> None:
        self._reader = reader
        self._name = name

    def load(self, version: int, convert: Callable[[RecordChunk], T], keys: KeyRange = ALL_KEYS) -> list[T]:
        """The family at `version`, as the protocol says; the range is of keys without the number."""
        return list(self.stream(version, convert, keys))

    def stream(
        self,
        version: int,
        convert: Callable[[RecordChunk], T],
        keys: KeyRange = ALL_KEYS,
        memory: int | None = None,
    ) -> Iterator[T]:
        """The same in bounded memory.

        Raises:
            CorruptFileError, MissingFileError: changelogs have keys of families that no zip numbers which can be read.
        """
        prefix = b""

        def within(families: Families) -> KeyRange | None:
            nonlocal prefix
            number = families.number(self._name)
            if number is None:
                return None
            prefix = family_prefix(number)
            return KeyRange(prefix + (keys.first or b""), after(prefix) if keys.end is None else prefix + keys.end)

        return self._reader.stream_within(version, within, lambda chunk: convert(_stripped(chunk, prefix)), memory)

    def changes(self, versions: Sequence[int], convert: Callable[[int, RecordChunk], T]) -> list[T]:
        """All records in the changelogs of `versions` of the family that the last of them has, as Spark reads them.

        A family that was removed and made again has another number.

        Raises:
            CorruptFileError, MissingFileError: as `stream`, or a newer zip that cannot be read may have the family.
        """
        numbers = self._reader.numbers(versions[-1])
        if self._name not in numbers.families and numbers.damage is not None:
            raise numbers.damage

        def of_family(version: int, chunk: RecordChunk) -> T | None:
            found = {name: _begin_with(chunk, number) for name, number in numbers.families.items()}
            if version > numbers.since and sum(map(len, found.values())) < len(chunk):
                raise numbers.unnumbered
            own = found.get(self._name)
            if not own:
                return None
            return convert(version, _stripped(chunk.take(own), family_prefix(numbers.families[self._name])))

        return [item for item in self._reader.changes(versions, of_family) if item is not None]


def _stripped(chunk: RecordChunk, prefix: bytes) -> RecordChunk:
    try:
        return replace(chunk, keys=rocksdb_rows.strip(pa.py_buffer(chunk.data), chunk.keys, prefix))
    except StateStoreError as error:
        raise chunk.locate(error) from None


def _begin_with(chunk: RecordChunk, number: int) -> pa.Int64Array:
    """Which records are of the family with the number."""
    found = rocksdb_rows.begin_with(pa.py_buffer(chunk.data), chunk.keys, family_prefix(number))
    return pa.Array.from_buffers(pa.int64(), found.size // 8, [None, found])
