"""Split the rows of a partition by key, on the local disk if they do not fit the limit of memory.

The parts lie in a file without a name in one of Spark's local folders; it is gone with the process. Four bits of the
key's hash choose the part of a row. A part that is too large is split by the next four bits, until it is of one key.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc

from hdfsstore.codecs import types as t
from hdfsstore.codecs.murmur3 import hash_rows
from hdfsstore.errors import StateStoreError
from hdfsstore.spark.worker.local_dirs import temporary_dir

# Not the seed of Spark's partitions: keys of one partition have some bits of that hash in common.
_SEED = 7
_BITS = 4


@dataclass(slots=True)
class _Part:
    """Rows of a part.

    Attributes:
        in_memory: rows that are not written yet.
        written: the offset and length of each batch in the file.
        nbytes: of all rows.
        hashes: the least and the largest hash of a key.
    """

    in_memory: list[pa.RecordBatch] = field(default_factory=list)
    written: list[tuple[int, int]] = field(default_factory=list)
    nbytes: int = 0
    hashes: tuple[int, int] = (1 << 31, -1 << 31)


class Parts:
    """Takes rows, and then yields them in parts.

    A part has all rows of its keys, and fits the limit unless it is of one key.

    Args:
        keys: the key of each row.
        key_schema: of the keys.
        limit: the bytes of a part; while rows are taken, half of it stays in memory.
    """

    def __init__(
        self,
        keys: Callable[[pa.RecordBatch], pa.StructArray],
        key_schema: t.StructType,
        limit: int,
        level: int = 0,
    ) -> None:
        self._keys = keys
        self._key_schema = key_schema
        self._limit = limit
        self._level = level
        self._parts = [_Part() for _ in range(1 << _BITS)]
        self._memory_bytes = 0
        self._schema: pa.Schema | None = None
        self._folder = temporary_dir()
        self._file: IO[bytes] | None = None

    def add(self, rows: pa.RecordBatch) -> None:
        """Takes rows, of one schema.

        Raises:
            StateStoreError: the disk is full, or cannot be written.
        """
        self._schema = rows.schema
        hashes = hash_rows(self._keys(rows), self._key_schema, _SEED)
        numbers = pc.bit_wise_and(pc.shift_right(hashes, _BITS * self._level), (1 << _BITS) - 1)
        for number in pc.unique(numbers).to_pylist():
            is_of_it = pc.equal(numbers, number)
            part, taken = self._parts[number], rows.filter(is_of_it)
            seen = pc.min_max(hashes.filter(is_of_it)).as_py()
            part.hashes = min(part.hashes[0], seen["min"]), max(part.hashes[1], seen["max"])
            part.in_memory.append(taken)
            part.nbytes += taken.nbytes
            self._memory_bytes += taken.nbytes
        if self._memory_bytes > self._limit // 2:
            self._write()

    def __iter__(self) -> Iterator[list[pa.RecordBatch]]:
        try:
            for number, part in enumerate(self._parts):
                self._parts[number] = _Part()  # only the part that is yielded stays in memory
                yield from self._parted(part)
        finally:
            if self._file is not None:
                self._file.close()

    def _parted(self, part: _Part) -> Iterator[list[pa.RecordBatch]]:
        if part.nbytes <= self._limit or part.hashes[0] == part.hashes[1]:
            if part.nbytes:
                yield list(self._rows(part))
            return
        inner = Parts(self._keys, self._key_schema, self._limit, self._level + 1)
        for rows in self._rows(part):
            inner.add(rows)
        yield from inner

    def _rows(self, part: _Part) -> Iterator[pa.RecordBatch]:
        for offset, length in part.written:
            assert self._file is not None
            self._file.seek(offset)
            yield pa.ipc.read_record_batch(pa.py_buffer(self._file.read(length)), self._schema)
        yield from part.in_memory

    def _write(self) -> None:
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115 - closed after the last part
            for part in self._parts:
                if not part.in_memory:
                    continue
                for joined in pa.Table.from_batches(part.in_memory).combine_chunks().to_batches():
                    buffer = joined.serialize()
                    part.written.append((self._file.tell(), len(buffer)))
                    self._file.write(buffer)
                part.in_memory.clear()
        except OSError as error:
            raise StateStoreError(
                f"rows of a large partition could not be written: {error}",
                self._folder,
                remedy="Free space there, or raise hdfsstore.maxBytesPerCall, so that more rows stay in memory",
            ) from error
        self._memory_bytes = 0
