"""Reads one side of a stream-stream join, as Spark's `statestore` source does with `joinSide`.

A side has two stores (SymmetricHashJoinStateManager, state formats 1 and 2):

    <side>-keyToNumValues        join keys -> how many rows there are for them
    <side>-keyWithIndexToValue   join keys, index -> input row (format 2: and `matched`: the row has found a partner)

Its rows are (join keys, input row), for each index below the number. In state format 3 these are column families of one
store. In state format 4 a side has two families:

    <side>-keyWithTsToValues     join keys, event time -> input rows and `matched`
    <side>-tsWithKey             event time, join keys -> as many nulls
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from hdfsstore._cext.key_set import KeySet
from hdfsstore.checkpoint.operators import DEFAULT_STORE, Operator
from hdfsstore.checkpoint.row_converter import Convert, Key, PartitionIds, RowConverter, key_array
from hdfsstore.codecs.records import RecordChunk
from hdfsstore.codecs.rocksdb_keys import PlainKeys, TimestampKeys, after
from hdfsstore.codecs.types import BooleanType, StructType
from hdfsstore.errors import CorruptFileError, StateStoreError
from hdfsstore.state.protocols import ALL_KEYS, KeyRange, PartitionReader

SIDES = ("left", "right")


def side_stores(side: str, operator: Operator) -> tuple[str, str]:
    """Names of the two stores of a join's side: the numbers of rows, and the rows.

    Raises:
        StateStoreError: there is no such side, or the operator is no stream-stream join.
    """
    _check_side(side)
    names = f"{side}-keyToNumValues", f"{side}-keyWithIndexToValue"
    stores = [store.name for store in operator.stores]
    if not set(names) <= set(stores):
        remedy = "Read it without the side of a join"
        if operator.name is None and stores == [DEFAULT_STORE]:
            folder = f"state/{operator.operator_id}"
            remedy += f". A join of state format 3 or 4 has lost {folder}/_metadata and {folder}/_stateSchema"
        raise StateStoreError(
            f"operator {operator.operator_id} is no stream-stream join; its stores are {', '.join(stores)}",
            remedy=remedy,
        )
    return names


def side_families(side: str) -> tuple[str, str, str]:
    """Names of the column families of a join's side: those of state format 3, as side_stores has them, and of 4."""
    _check_side(side)
    return f"{side}-keyToNumValues", f"{side}-keyWithIndexToValue", f"{side}-keyWithTsToValues"


class JoinListConverter:
    """Turns chunks of a side's keyWithTsToValues family into (join keys and time, input row, partition_id).

    Args:
        rows: converts the family into lists of rows.
        near: the only key whose rows are wanted; None: all.

    Attributes:
        keys: the stored keys among which those are that are wanted.
    """

    joins_rows = False

    def __init__(self, rows: RowConverter, near: Key | None) -> None:
        self._rows = rows
        self.key_type = rows.key_type
        self.keys = ALL_KEYS
        if near is not None and isinstance(rows.keys, TimestampKeys):
            prefix: bytes = rows.keys.prefix(key_array(near, rows.key_arrow_type))[0].as_py()
            self.keys = KeyRange(prefix, after(prefix))
        fields = list(rows.value_arrow_type)
        self._value_type = pa.struct(fields[: len(fields) - has_matched_column(rows.value_type)])
        ids = pa.field("partition_id", pa.int32())
        self.schema = pa.schema([pa.field("key", rows.key_arrow_type), pa.field("value", self._value_type), ids])

    def finish(self, batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        """The batches as they are."""
        return batches

    def of_partition(self, partition_id: int) -> Convert:
        """Converts the chunks of one partition."""
        ids = PartitionIds(partition_id)

        def convert(chunk: RecordChunk) -> pa.RecordBatch:
            keys, lists = self._rows.decode(chunk)
            fields = list(self._value_type)
            rows = pa.StructArray.from_arrays(lists.flatten().flatten()[: len(fields)], fields=fields)
            keys = keys.take(pc.list_parent_indices(lists))
            return pa.RecordBatch.from_arrays([keys, rows, ids.array(len(rows))], schema=self.schema)

        return convert


class JoinSideConverter:
    """Turns chunks of a side's keyWithIndexToValue store into (join keys, input row, partition_id).

    Args:
        counts: converts the side's keyToNumValues store.
        rows: converts the side's keyWithIndexToValue store.
        count_readers: read the keyToNumValues store, by partition.
        version: the version of both stores.
        near: the only key whose rows are wanted; None: all.

    Attributes:
        keys: the stored keys of rows among which those are that are wanted.
    """

    joins_rows = False

    def __init__(
        self,
        counts: RowConverter,
        rows: RowConverter,
        count_readers: Mapping[int, PartitionReader],
        version: int,
        near: Key | None,
    ) -> None:
        self._counts = counts
        self._rows = rows
        self._count_readers = count_readers
        self._version = version
        self.keys, self._counted_keys = _ranges_near(near, counts, rows)
        fields = list(rows.value_arrow_type)
        self._width = len(fields) - has_matched_column(rows.value_type)
        self._value_type = pa.struct(fields[: self._width])
        self.schema = pa.schema(
            [
                pa.field("key", counts.key_arrow_type),
                pa.field("value", self._value_type),
                pa.field("partition_id", pa.int32()),
            ]
        )

    def finish(self, batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        """The batches as they are."""
        return batches

    def of_partition(self, partition_id: int) -> Convert:
        """Loads the numbers of rows of the partition's keys that are wanted, and converts its chunks by them."""
        # `known` is filled after the load, because a load starts anew where a file is damaged or gone.
        counts = self._count_readers[partition_id].load(self._version, self._count, self._counted_keys)
        known = KeySet()
        for chunk, _ in counts:
            try:
                known.add(chunk.data, chunk.keys)
            except ValueError:
                raise CorruptFileError(
                    "a snapshot holds a key twice", chunk.path, remedy="It is damaged: restore it"
                ) from None
        numbers = pa.concat_arrays([array for _, array in counts]) if counts else pa.array([], pa.int64())
        convert_rows = self._rows.of_partition(partition_id)

        def convert(chunk: RecordChunk) -> pa.RecordBatch:
            rows = convert_rows(chunk)
            key_fields, value_fields = rows.column(0).flatten(), rows.column(1).flatten()
            keys = pa.StructArray.from_arrays(key_fields[:-1], fields=list(self._counts.key_arrow_type))
            positions = known.positions(self._counts.keys.encode(keys))
            kept = pc.less(key_fields[-1], numbers.take(positions))
            values = pa.StructArray.from_arrays(value_fields[: self._width], fields=list(self._value_type))
            batch = pa.RecordBatch.from_arrays([keys, values, rows.column(2)], schema=self.schema)
            return batch.filter(kept)

        return convert

    def _count(self, chunk: RecordChunk) -> tuple[RecordChunk, pa.Array]:
        """The keys of a chunk, and the number of rows of each key."""
        _, values = self._counts.decode(chunk)
        return chunk.copy(), values.field(0)


def _ranges_near(key: Key | None, counts: RowConverter, rows: RowConverter) -> tuple[KeyRange, KeyRange]:
    """The stored keys among which those of the rows of a join's key are, and that of their number; None: all."""
    if key is None or not isinstance(rows.keys, PlainKeys):
        return ALL_KEYS, ALL_KEYS
    counted = counts.stored_key(key)
    columns = key_array(key, counts.key_arrow_type).flatten()
    first = pa.StructArray.from_arrays([*columns, pa.array([0], pa.int64())], fields=list(rows.key_arrow_type))
    prefix = rows.keys.beginning(first, len(columns))
    return KeyRange(prefix, after(prefix)), KeyRange(counted, counted + b"\0")


def _check_side(side: str) -> None:
    if side not in SIDES:
        raise StateStoreError(f"a join has no side {side!r}", remedy=f"Its sides are {' and '.join(SIDES)}")


def has_matched_column(value_type: StructType) -> bool:
    """Whether a side's value rows end with the `matched` column of state format 2."""
    last = value_type.fields[-1]
    return last.name == "matched" and isinstance(last.type, BooleanType)
