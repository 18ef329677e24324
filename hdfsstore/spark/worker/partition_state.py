"""Read and change the state of one partition in one batch, for the engines of the user's functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hdfsstore.codecs.murmur3 import partition_ids
from hdfsstore.errors import StateStoreError
from hdfsstore.spark.spec import (
    GROUP_STATE,
    NO_TIMEOUT,
    NO_TIMESTAMP,
    BatchSpec,
    QuerySpec,
)
from hdfsstore.state.rows import BatchCodec, BinaryRows

# At most so many bytes of rows are decoded at a time, or one row. An Arrow array has room for 2 GiB, and states that
# were read together are written together, when each may have grown.
PART_BYTES = 1 << 28


class TimeoutStore(Protocol):
    """The methods of a store that the state of a partition needs."""

    def get_many(self, keys: BinaryRows) -> BinaryRows: ...

    def put_many(self, keys: BinaryRows, values: BinaryRows) -> None: ...

    def remove_many(self, keys: BinaryRows) -> None: ...

    def expired(self, before: int, max_rows: int) -> Iterator[tuple[BinaryRows, BinaryRows]]:
        """Keys, and their values, whose timeout is less than `before` and not -1, each once."""

    def next_expiry(self) -> int | None:
        """The least timeout, or a number below it; None if there is none."""


class PartitionState:
    """Keys and their states as Arrow structs, with Spark's value rows underneath.

    Attributes:
        key_type: Arrow struct of the key columns.
        state_type: Arrow struct of the user's state columns.
        timeout_conf, watermark_ms, processing_time_ms, partition_id, batch_id: as the driver says.
        no_rows: an empty table of the data columns, for calls with expired keys.
        shown: how messages show keys and values.
    """

    def __init__(
        self, query: QuerySpec, batch: BatchSpec, partition_id: int, store: TimeoutStore, no_rows: pa.Table
    ) -> None:
        self._query = query
        self._batch = batch
        self._store = store
        self._keys = BatchCodec("key", query.key_schema)
        self._values = BatchCodec("value", query.value_schema)
        self.key_type: Any = self._keys.arrow_type
        self.state_type: Any = self._values.arrow_type.field(GROUP_STATE).type
        self.timeout_conf = query.timeout_conf
        self.watermark_ms = batch.watermark_ms
        self.processing_time_ms = batch.processing_time_ms
        self.batch_id = batch.batch_id
        self.partition_id = partition_id
        self.no_rows = no_rows
        self.shown = query.shown

    def encode_keys(self, keys: pa.StructArray) -> BinaryRows:
        """Encodes each key as an UnsafeRow."""
        return self._keys.encode_structs(keys)

    def decode_keys(self, key_rows: BinaryRows) -> pa.StructArray:
        return self._keys.decode(key_rows)

    def check_keys(self, keys: pa.StructArray) -> None:
        """Checks that all keys are of this partition. StateStoreError: one is not."""
        wrong = pc.not_equal(partition_ids(keys, self._query.key_schema, self._query.num_partitions), self.partition_id)
        if pc.any(wrong).as_py():
            index = pc.index(wrong, True).as_py()
            raise StateStoreError(
                f"the key {self.shown.key(keys.slice(index, 1))} is not one of partition {self.partition_id} of "
                f"{self._query.num_partitions}, by Spark's hash",
                remedy="Use the keys of the rows that the function is called with, and of state.expired()",
            )

    def get(self, key_rows: BinaryRows) -> pa.StructArray:
        """The keys' states, aligned, null where there is none."""
        return self._states(self._store.get_many(key_rows))

    def read(self, key_rows: BinaryRows) -> Iterator[tuple[BinaryRows, pa.StructArray]]:
        """Yields the keys with their states, null where there is none; large states come in several parts."""
        return self._parts(key_rows, self._store.get_many(key_rows))

    def put(self, key_rows: BinaryRows, states: pa.StructArray, timeouts_ms: pa.Int64Array | None = None) -> None:
        """Sets the states of the keys, null for none, and their timeouts, -1 for none; None is -1 for all."""
        columns: list[pa.Array[Any]] = [states]
        if self.timeout_conf != NO_TIMEOUT:
            columns.append(_repeat(NO_TIMESTAMP, len(states)) if timeouts_ms is None else timeouts_ms)
        fields = list(self._values.arrow_type)
        rows = pa.StructArray.from_arrays(columns, fields=fields)
        self._store.put_many(key_rows, self._values.encode_structs(rows))

    def remove(self, key_rows: BinaryRows) -> None:
        self._store.remove_many(key_rows)

    def expired(self, max_rows: int) -> Iterator[tuple[BinaryRows, pa.StructArray]]:
        """Yields the expired keys, each once, with their states; at most max_rows at a time.

        As in Spark, a key stays expired, also in later batches, until its state is put or removed.
        """
        for key_rows, value_rows in self._expired(max_rows):
            yield from self._parts(key_rows, value_rows)

    def expired_keys(self, max_rows: int) -> Iterator[pa.StructArray]:
        """Yields the expired keys without their states."""
        for key_rows, _ in self._expired(max_rows):
            for begin, end in _spans(key_rows):
                yield self.decode_keys(key_rows[begin:end])

    @property
    def next_timeout_ms(self) -> int | None:
        """No key expires before this time; None if none will."""
        return None if self.timeout_conf == NO_TIMEOUT else self._store.next_expiry()

    def _expired(self, max_rows: int) -> Iterator[tuple[BinaryRows, BinaryRows]]:
        if self.timeout_conf == NO_TIMEOUT:
            return iter(())
        return self._store.expired(self._batch.expiry_ms(self.timeout_conf), max_rows)

    def _parts(self, key_rows: BinaryRows, value_rows: BinaryRows) -> Iterator[tuple[BinaryRows, pa.StructArray]]:
        """Yields keys and their states; if it is one part, the same array of keys, which a store recognizes."""
        for begin, end in _spans(value_rows):
            keys = key_rows if end - begin == len(key_rows) else key_rows[begin:end]
            yield keys, self._states(value_rows[begin:end])

    def _states(self, value_rows: BinaryRows) -> pa.StructArray:
        values = self._values.decode(value_rows)
        return cast(pa.StructArray, values.flatten()[values.type.get_field_index(GROUP_STATE)])


def _spans(rows: BinaryRows) -> Iterator[tuple[int, int]]:
    """Yields the begin and end of each part of rows."""
    if not len(rows):
        return
    width = np.int64 if pa.types.is_large_binary(rows.type) else np.int32
    offsets = np.frombuffer(rows.buffers()[1], width)[rows.offset : rows.offset + len(rows) + 1]
    begin = 0
    while begin < len(rows):
        most = np.int64(offsets[begin]) + PART_BYTES
        end = max(begin + 1, int(np.searchsorted(offsets, most, "right")) - 1)
        yield begin, end
        begin = end


def _repeat(value: int, length: int) -> pa.Int64Array:
    return cast(pa.Int64Array, pa.repeat(pa.scalar(value, pa.int64()), length))
