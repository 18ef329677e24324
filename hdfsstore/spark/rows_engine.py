"""mapWithState: the user's function once a key, on Rows and a GroupState."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.types import StructType

from hdfsstore.spark.engine import Call
from hdfsstore.spark.key_calls import WINDOW_ROWS, KeyCalls, UserFunction
from hdfsstore.spark.key_groups import KeyGroups, group
from hdfsstore.spark.key_states import ColumnsCodec, KeyStates, StateCodec
from hdfsstore.spark.partition_state import PartitionState
from hdfsstore.spark.row_columns import RowWriter
from hdfsstore.spark.row_values import RowReader
from hdfsstore.spark.value_codec import ValueCodec


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
            ValueCodec()
        self._func = func
        self._rows = rows
        self._keys = keys
        self._output = output
        self._output_arrow = output_arrow
        self._state = state

    def data(self, calls: Iterator[Call], state: PartitionState) -> Iterator[pa.RecordBatch]:
        states, run = self._start(state)
        reader, key_reader = RowReader(self._rows), RowReader(self._keys)
        for call in calls:
            key_rows = state.encode_keys(call.keys)
            groups = group(key_rows, is_sorted=call.is_sorted)
            # Rows are taken a window at a time, each of which would put all chunks together.
            table = call.rows if groups.order is None else call.rows.combine_chunks()
            for begin, end in groups.windows(WINDOW_ROWS):
                first = groups.first[begin:end]
                keys = key_reader.tuples(call.keys.take(first))
                of_keys = states.read(key_rows.take(first))
                yield from run(keys, of_keys, _rows_by_key(reader, table, groups, begin, end))

    def expired(self, state: PartitionState) -> Iterator[pa.RecordBatch]:
        states, run = self._start(state)
        key_reader = RowReader(self._keys)
        for key_rows, structs in state.due(WINDOW_ROWS):
            keys = key_reader.tuples(state.decode_keys(key_rows))
            yield from run(keys, states.read_expired(key_rows, structs), (iter(()) for _ in keys))

    def _start(self, state: PartitionState) -> tuple[KeyStates, KeyCalls]:
        codec: StateCodec = ValueCodec() if self._state is None else ColumnsCodec(self._state, state.state_type)
        states = KeyStates(state, codec)
        writer = RowWriter(self._output, list(self._output_arrow))
        return states, KeyCalls(self._func, states, writer, self._output_arrow, state.batch_id)


def _rows_by_key(
    reader: RowReader, table: pa.Table, groups: KeyGroups, begin: int, end: int
) -> Iterator[Iterator[Row]]:
    """The rows of each key of a window: those of all are made at once, those of a large key as they are asked for."""
    starts = groups.starts[begin : end + 1].tolist()
    first, last = starts[0], starts[-1]
    if last - first > WINDOW_ROWS:  # only one key has so many
        yield _one_by_one(reader, table, groups, first, last)
        return
    rows = reader.rows(groups.rows(table, first, last))
    for start, stop in pairwise(starts):
        yield iter(rows[start - first : stop - first])


def _one_by_one(reader: RowReader, table: pa.Table, groups: KeyGroups, first: int, last: int) -> Iterator[Any]:
    for start in range(first, last, WINDOW_ROWS):
        yield from reader.rows(groups.rows(table, start, min(start + WINDOW_ROWS, last)))
