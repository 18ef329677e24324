"""Run mapWithState: call the user's function once for each key, with Rows and a GroupState.

The input stays in Arrow. Chunk by chunk its rows are sorted by key, and the states of the keys are looked up. Parts of
a chunk become Rows. The parts are small, so that the garbage collector finds only young objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.state import GroupState
from pyspark.sql.types import StructType

from hdfsstore.spark.convert.arrow_to_rows import RowReader
from hdfsstore.spark.convert.output_rows import OutputRows
from hdfsstore.spark.convert.rows_to_arrow import RowWriter
from hdfsstore.spark.worker.engine import KeyedRows
from hdfsstore.spark.worker.key_calls import Key, KeyCalls
from hdfsstore.spark.worker.key_groups import KeyGroups, group
from hdfsstore.spark.worker.key_states import ColumnsCodec, KeyStates, StateCodec
from hdfsstore.spark.worker.partition_state import PartitionState
from hdfsstore.spark.worker.value_codec import ValueCodec, load_msgpack

UserFunction: TypeAlias = "Callable[[Key, Iterator[Row], GroupState], Iterable[Any] | None]"

# Rows, or keys, in a chunk, and rows in a batch of the output; Spark's own batches have as many.
CHUNK_ROWS = 10_000
# Rows of the input, and of the output, that are Python objects at a time. Fewer cost more in Arrow. More get old before
# they are freed, and then Python's garbage collector looks through the whole process.
PART_ROWS = 1_000


class RowsEngine:
    """Runs mapWithState.

    Args:
        func: the user's.
        rows: the schema of the data columns.
        keys: the schema of the key columns.
        output: the schema of what the function returns.
        output_arrow: Arrow's for it.
        state: the schema of the state; None: it is any Python value, stored under VALUE_SCHEMA.

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

    def data(self, keyed_rows: Iterator[KeyedRows], state: PartitionState) -> Iterator[pa.RecordBatch]:
        return _merged(self._of_data(keyed_rows, state))

    def expired(self, state: PartitionState) -> Iterator[pa.RecordBatch]:
        return _merged(self._of_expired(state))

    def _of_data(self, keyed_rows: Iterator[KeyedRows], state: PartitionState) -> Iterator[pa.RecordBatch]:
        states, call_keys = self._start(state)
        reader, key_reader = RowReader(self._rows), RowReader(self._keys)
        for keyed in keyed_rows:
            all_key_rows = state.encode_keys(keyed.keys)
            groups = group(all_key_rows, is_sorted=keyed.is_sorted)
            # Once, because `take` would do it again for each chunk.
            table = keyed.rows if groups.order is None else keyed.rows.combine_chunks()
            for start, stop in groups.chunks(CHUNK_ROWS):
                first = start
                for key_rows, found in state.read(all_key_rows.take(groups.first[start:stop])):
                    last = first + len(key_rows)
                    keys = keyed.keys.take(groups.first[first:last])
                    rows = _Rows(reader, table, groups, first, last)
                    for begin, end in groups.chunks(PART_ROWS, first, last):
                        part = slice(begin - first, end - first)
                        of_keys = states.read(key_rows[part], found[part])
                        yield from call_keys(key_reader.tuples(keys[part]), rows.by_key(begin, end), of_keys)
                    first = last

    def _of_expired(self, state: PartitionState) -> Iterator[pa.RecordBatch]:
        states, call_keys = self._start(state)
        key_reader = RowReader(self._keys)
        for key_rows, found in state.expired(CHUNK_ROWS):
            keys = state.decode_keys(key_rows)
            for begin in range(0, len(key_rows), PART_ROWS):
                part = slice(begin, begin + PART_ROWS)
                no_rows = (iter(()) for _ in range(len(key_rows[part])))
                of_keys = states.read_expired(key_rows[part], found[part])
                yield from call_keys(key_reader.tuples(keys[part]), no_rows, of_keys)

    def _start(self, state: PartitionState) -> tuple[KeyStates, KeyCalls]:
        shown = state.shown
        codec: StateCodec
        codec = ValueCodec(shown) if self._state is None else ColumnsCodec(self._state, state.state_type, shown)
        states = KeyStates(state, codec)
        writer = RowWriter(self._output, list(self._output_arrow), shown)
        output = OutputRows(writer, self._output_arrow, PART_ROWS)
        return states, KeyCalls("mapWithState", self._func, states, output, state.batch_id)


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
        if last - first > PART_ROWS:  # all of one key
            yield self._bit_by_bit(first, last)
            return
        rows = self._reader.rows(self._taken.slice(first - self._first, last - first))
        for start, stop in pairwise(starts):
            yield iter(rows[start - first : stop - first])

    def _bit_by_bit(self, first: int, last: int) -> Iterator[Row]:
        for start in range(first, last, PART_ROWS):
            yield from self._reader.rows(self._groups.rows(self._table, start, min(start + PART_ROWS, last)))


def _merged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Joins small batches to larger ones."""
    small: list[pa.RecordBatch] = []
    num_rows = 0
    for batch in batches:
        small.append(batch)
        num_rows += batch.num_rows
        if num_rows >= CHUNK_ROWS:
            yield from _joined(small)
            num_rows = 0
    if small:
        yield from _joined(small)


def _joined(small: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    table = pa.Table.from_batches(small)
    small.clear()
    batches: list[pa.RecordBatch] = table.combine_chunks().to_batches()
    return batches
