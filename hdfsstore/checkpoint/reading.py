"""Reads the rows of a store at a version, or its changes over a range of versions, into Arrow.

Columns are those of Spark's `statestore` source: key struct, value struct, partition_id int32; with changes, batch_id
int64 and change_type ("update" or "delete") come first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import pyarrow as pa

from hdfsstore.codecs.records import RecordChunk
from hdfsstore.codecs.types import StructType
from hdfsstore.codecs.unsafe_row import RowCodec
from hdfsstore.errors import SchemaMismatchError, StateStoreError
from hdfsstore.state.parallel import run_all, stream_all
from hdfsstore.state.protocols import PartitionReader

Convert = Callable[[RecordChunk], pa.RecordBatch]

UPDATE, DELETE = "update", "delete"


@dataclass(frozen=True, slots=True)
class StorePartition:
    """One partition of a store: its number and what reads its versions."""

    partition_id: int
    reader: PartitionReader


class Converter(Protocol):
    """Turns the chunks of a partition into record batches of one schema."""

    schema: pa.Schema

    def at(self, partition: StorePartition, version: int) -> Convert:
        """What converts the chunks of one partition at one version."""


class RowConverter:
    """Turns chunks of records into record batches of (key, value, partition_id)."""

    def __init__(self, key_type: StructType, value_type: StructType) -> None:
        self.key_type = key_type
        self.value_type = value_type
        self.keys = RowCodec(key_type)
        self.values = RowCodec(value_type)
        self.schema = pa.schema(
            [
                pa.field("key", self.keys.arrow_type),
                pa.field("value", self.values.arrow_type),
                pa.field("partition_id", pa.int32()),
            ]
        )

    def at(self, partition: StorePartition, version: int) -> Convert:  # noqa: ARG002 - only a join side needs it
        """What converts the chunks of one partition."""
        ids = _Constant(pa.scalar(partition.partition_id, pa.int32()))

        def convert(chunk: RecordChunk) -> pa.RecordBatch:
            keys, values = self.decode(chunk)
            return pa.RecordBatch.from_arrays([keys, values, ids.array(len(chunk))], schema=self.schema)

        return convert

    def decode(self, chunk: RecordChunk) -> tuple[pa.StructArray, pa.StructArray]:
        """Keys and values of a chunk; a tombstone's value is null."""
        return (
            _decode(self.keys, "key", chunk, chunk.keys),
            _decode(self.values, "value", chunk, chunk.values),
        )


def _decode(codec: RowCodec, part: str, chunk: RecordChunk, spans: pa.Buffer) -> pa.StructArray:
    try:
        return codec.decode(chunk.data, spans)
    except SchemaMismatchError as error:
        error = SchemaMismatchError(
            f"the {part} schema does not fit: {error.message} ({describe_rows(spans)})",
            offset=error.offset,
            remedy=f"If the schema is wrong, give the right one: {part}_schema=pyarrow.schema([...])",
        )
        raise chunk.locate(error) from None
    except StateStoreError as error:
        raise chunk.locate(error) from None


def describe_rows(spans: pa.Buffer) -> str:
    """What the sizes of rows tell of their schema: 8 bytes of null bits for each 64 fields, and 8 bytes a field."""
    sizes = [size & ~7 for size in memoryview(spans).cast("i").tolist()[1::2] if size >= 0]
    if not sizes:
        return "no rows"
    low, high = min(sizes), max(sizes)
    most = next(n for n in range(low // 8, -1, -1) if 8 * ((n + 63) // 64) + 8 * n <= low)
    if low < high:
        return f"{len(sizes)} rows of {low} to {high} bytes: at most {most} fields, some of variable length"
    return f"{len(sizes)} rows of {low} bytes: {most} fields if all have a fixed width, else fewer"


class _Constant:
    """One value as arrays of any length, sharing memory."""

    def __init__(self, value: pa.Scalar) -> None:
        self._value = value
        self._array = pa.repeat(value, 0)

    def array(self, length: int) -> pa.Array:
        if length > len(self._array):
            self._array = pa.repeat(self._value, max(length, 2 * len(self._array)))
        return self._array.slice(0, length)


def read_table(partitions: Sequence[StorePartition], converter: Converter, version: int, threads: int) -> pa.Table:
    """The state at `version` as a table."""
    loads = [partial(_load, partition, converter, version) for partition in partitions]
    batches = [batch for loaded in run_all(loads, threads) for batch in loaded]
    return pa.Table.from_batches(batches, schema=converter.schema)


def open_reader(
    partitions: Sequence[StorePartition], converter: Converter, version: int, threads: int
) -> pa.RecordBatchReader:
    """The state at `version` as a stream of record batches, in bounded memory; partitions come interleaved."""
    streams = [partial(_stream, partition, converter, version) for partition in partitions]
    return pa.RecordBatchReader.from_batches(converter.schema, stream_all(streams, threads))


def _load(partition: StorePartition, converter: Converter, version: int) -> list[pa.RecordBatch]:
    return partition.reader.load(version, converter.at(partition, version))


def _stream(partition: StorePartition, converter: Converter, version: int) -> Iterator[pa.RecordBatch]:
    return partition.reader.stream(version, converter.at(partition, version))


def read_changes(
    partitions: Sequence[StorePartition], converter: RowConverter, versions: range, threads: int
) -> pa.Table:
    """Every record of the deltas of `versions`, partition by partition, in their order."""
    schema = pa.schema([pa.field("batch_id", pa.int64()), pa.field("change_type", pa.string()), *converter.schema])

    def read(partition: StorePartition) -> list[pa.RecordBatch]:
        ids = _Constant(pa.scalar(partition.partition_id, pa.int32()))

        def convert(version: int, chunk: RecordChunk) -> pa.RecordBatch:
            keys, values = converter.decode(chunk)
            batch_ids = pa.repeat(pa.scalar(version - 1, pa.int64()), len(chunk))
            kinds = pa.array([UPDATE, DELETE]).take(values.is_null().cast(pa.int8()))
            columns = [batch_ids, kinds, keys, values, ids.array(len(chunk))]
            return pa.RecordBatch.from_arrays(columns, schema=schema)

        return partition.reader.changes(versions, convert)

    changed = run_all([partial(read, partition) for partition in partitions], threads)
    return pa.Table.from_batches([batch for batches in changed for batch in batches], schema=schema)
