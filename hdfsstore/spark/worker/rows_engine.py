"""mapWithState: the user's function once a key, on Rows and a GroupState.

A call's rows stay in Arrow. Chunk by chunk they are put in the order of their keys, and the keys' states are looked
up; and in parts of a chunk, small enough for the garbage collector to find only young objects, they become Rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.types import StructType

from hdfsstore.spark.convert.arrow_to_rows import RowReader
from hdfsstore.spark.convert.rows_to_arrow import RowWriter
from hdfsstore.spark.worker.engine import KeyedRows
from hdfsstore.spark.worker.key_calls import PART_ROWS, KeyCalls, UserFunction
from hdfsstore.spark.worker.key_groups import KeyGroups, group
from hdfsstore.spark.worker.key_states import ColumnsCodec, KeyStates, StateCodec
from hdfsstore.spark.worker.partition_state import PartitionState
from hdfsstore.spark.worker.value_codec import ValueCodec, load_msgpack

# Rows, or keys, in a chunk, and rows in a batch of the output; Spark's own batches have as many.
CHUNK_ROWS = 10_000


class RowsEngine:
    """Runs mapWithState.

    Args:
        func: the user's.
        rows: the schema of the data columns.
        keys: the schema of the key columns.
        output: the schema of what the function gives.
        output_arrow: Arrow's for it.
        state: the schema of the state; None: it is any value of Python, kept by VALUE_SCHEMA.

    Raises:
        StateStoreError: msgpack is not installed, which a state without a schema needs.
    """

    def __init__(
        self,
        func: UserFunction,
        rows: StructType,
        keys: StructType,
        output: StructType,
        output_arrow: pa.Schema,
        state: StructType | None,
    ) -> None:
        if state is None:
            load_msgpack()
        self._func = func
        self._rows = rows
        self._keys = keys
        self._output = output
        self._output_arrow = output_arrow
        self._state = state

    def data(self, calls: Iterator[KeyedRows], state: PartitionState) -> Iterator[pa.RecordBatch]:
        return _merged(self._of_data(calls, state))

    def expired(self, state: PartitionState) -> Iterator[pa.RecordBatch]:
        return _merged(self._of_expired(state))

    def _of_data(self, calls: Iterator[KeyedRows], state: PartitionState) -> Iterator[pa.RecordBatch]:
        states, run = self._start(state)
        reader, key_reader = RowReader(self._rows), RowReader(self._keys)
        for call in calls:
            call_key_rows = state.encode_keys(call.keys)
            groups = group(call_key_rows, is_sorted=call.is_sorted)
            # Each chunk would put all chunks together.
            table = call.rows if groups.order is None else call.rows.combine_chunks()
            for start, stop in groups.chunks(CHUNK_ROWS):
                first = start
                for key_rows, found in state.read(call_key_rows.take(groups.first[start:stop])):
                    last = first + len(key_rows)
                    keys = call.keys.take(groups.first[first:last])
                    rows = _Rows(reader, table, groups, first, last)
                    for begin, end in groups.chunks(PART_ROWS, first, last):
                        part = slice(begin - first, end - first)
                        of_keys = states.read(key_rows[part], found[part])
                        yield from run(key_reader.tuples(keys[part]), of_keys, rows.by_key(begin, end))
                    first = last

    def _of_expired(self, state: PartitionState) -> Iterator[pa.RecordBatch]:
        states, run = self._start(state)
        key_reader = RowReader(self._keys)
        for key_rows, found in state.expired(CHUNK_ROWS):
            keys = state.decode_keys(key_rows)
            for begin in range(0, len(key_rows), PART_ROWS):
                part = slice(begin, begin + PART_ROWS)
                no_rows = (iter(()) for _ in range(len(key_rows[part])))
                of_keys = states.read_expired(key_rows[part], found[part])
                yield from run(key_reader.tuples(keys[part]), of_keys, no_rows)

    def _start(self, state: PartitionState) -> tuple[KeyStates, KeyCalls]:
        shown = state.shown
        codec: StateCodec
        codec = ValueCodec(shown) if self._state is None else ColumnsCodec(self._state, state.state_type, shown)
        states = KeyStates(state, codec)
        writer = RowWriter(self._output, list(self._output_arrow), shown)
        return states, KeyCalls(self._func, states, writer, self._output_arrow, state.batch_id)


class _Rows:
    """The rows of a chunk's keys."""

    def __init__(self, reader: RowReader, table: pa.Table, groups: KeyGroups, begin: int, end: int) -> None:
        self._reader = reader
        self._table = table
        self._groups = groups
        self._first, last = groups.starts[[begin, end]].tolist()
        # Only a chunk of one key has more rows.
        self._taken = groups.rows(table, self._first, min(last, self._first + CHUNK_ROWS))

    def by_key(self, begin: int, end: int) -> Iterator[Iterator[Row]]:
        """The rows of each key of a part of the chunk."""
        starts = self._groups.starts[begin : end + 1].tolist()
        first, last = starts[0], starts[-1]
        if last - first > PART_ROWS:  # they are of one key
            yield self._bit_by_bit(first, last)
            return
        rows = self._reader.rows(self._taken.slice(first - self._first, last - first))
        for start, stop in pairwise(starts):
            yield iter(rows[start - first : stop - first])

    def _bit_by_bit(self, first: int, last: int) -> Iterator[Row]:
        for start in range(first, last, PART_ROWS):
            yield from self._reader.rows(self._groups.rows(self._table, start, min(start + PART_ROWS, last)))


def _merged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of small batches in larger ones."""
    held: list[pa.RecordBatch] = []
    num_rows = 0
    for batch in batches:
        held.append(batch)
        num_rows += batch.num_rows
        if num_rows >= CHUNK_ROWS:
            yield from _one(held)
            num_rows = 0
    if held:
        yield from _one(held)


def _one(held: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    table = pa.Table.from_batches(held)
    held.clear()
    batches: list[pa.RecordBatch] = table.combine_chunks().to_batches()
    return batches
