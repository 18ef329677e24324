"""Run mapInArrowWithState: call the user's function once for many keys of a partition."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias, cast

import pyarrow as pa
import pyarrow.compute as pc

from hdfsstore.errors import StateStoreError, UserFunctionError
from hdfsstore.spark.redaction import is_raised_here
from hdfsstore.spark.spec import EVENT_TIME_TIMEOUT, NO_TIMEOUT, NO_TIMESTAMP, Columns
from hdfsstore.spark.worker.engine import KeyedRows
from hdfsstore.spark.worker.partition_state import PartitionState
from hdfsstore.state.rows import BinaryRows

Rows: TypeAlias = "pa.Table | pa.RecordBatch | pa.StructArray | pa.Array[Any] | pa.ChunkedArray[Any]"
UserFunction: TypeAlias = "Callable[[pa.Table, ArrowState], pa.Table | pa.RecordBatch | None]"

# Rows in a batch of the output; Spark reads each batch at once.
_OUTPUT_ROWS = 1 << 16
# Expired keys in a call.
_EXPIRED_ROWS = 1 << 20


class _Got(NamedTuple):
    """The keys that `get` was called with, and their encoded rows."""

    keys: Rows
    rows: BinaryRows


class ArrowState:
    """The state of a partition's keys, as the function of mapInArrowWithState reads and changes it.

    Keys are a table or record batch that has the key columns by name, perhaps among others; a struct of them; or, if
    there is one key column, an array of it. They are keys of the rows and of `expired`: each method raises
    StateStoreError for a key of another partition, because its state is not here. States are tables, record batches or
    structs of the state's columns.

    Attributes:
        watermark_ms: the event-time watermark of the batch, milliseconds since 1970; -1 where there is none.
        processing_time_ms: when the batch was planned, milliseconds since 1970.
    """

    def __init__(self, state: PartitionState, expired: pa.StructArray | None = None) -> None:
        self._state = state
        self._expired = _table_of(cast(pa.StructArray, pa.array([], state.key_type)) if expired is None else expired)
        self.watermark_ms = state.watermark_ms
        self.processing_time_ms = state.processing_time_ms
        self._got: _Got | None = None

    def get(self, keys: Rows) -> pa.Table:
        """The states of the keys, aligned; every column is null where a key has none."""
        structs = self._keys(keys)
        rows = self._state.encode_keys(structs)
        states = self._state.get(rows)
        if states.null_count:  # a key that has a state is of this partition
            all_new = states.null_count == len(states)
            self._state.check_keys(structs if all_new else structs.filter(states.is_null()))
        self._got = _Got(keys, rows)
        return _table_of(states)

    def put(self, keys: Rows, values: Rows, timeout_ms: Any = None) -> None:
        """Sets the states of the keys; if a key is there twice, its last state counts.

        Args:
            keys: as the rows and `expired` give them.
            values: the states, aligned with the keys.
            timeout_ms: None: the keys have no timeout. Under ProcessingTimeTimeout how long from now, under
                EventTimeTimeout a timestamp that is not before the watermark: milliseconds, a timedelta or datetime, or
                an array of int64, duration or timestamp, in which a null is no timeout.
        """
        rows = self._encoded(keys)
        states = _structs(values, self._state.state_type, "state")
        if len(states) != len(rows):
            raise ValueError(f"there are {len(rows)} keys and {len(states)} states")
        timeouts = None if timeout_ms is None else self._timeouts(timeout_ms, len(rows))
        self._state.put(rows, states, timeouts)

    def remove(self, keys: Rows) -> None:
        """Removes the states of the keys, and their timeouts."""
        self._state.remove(self._encoded(keys))

    def expired(self) -> pa.Table:
        """The keys that have expired, in the calls that are made for them; empty in other calls.

        As with Spark's own functions, such a key comes again in the next batch unless its state is put or removed.
        """
        return self._expired

    def _encoded(self, keys: Rows) -> BinaryRows:
        """Encodes keys and checks that they are of this partition.

        Keys of the last `get` are checked already, and the store recognizes their rows.
        """
        if self._got is not None and self._got.keys is keys:
            return self._got.rows
        structs = self._keys(keys)
        self._state.check_keys(structs)
        return self._state.encode_keys(structs)

    def _keys(self, keys: Rows) -> pa.StructArray:
        key_type = self._state.key_type
        if isinstance(keys, pa.Array | pa.ChunkedArray) and not pa.types.is_struct(keys.type):
            if key_type.num_fields != 1:
                raise TypeError(f"an array is no key: the key columns are {', '.join(f.name for f in key_type)}")
            keys = pa.table([keys], names=[key_type.field(0).name])
        return _structs(keys, key_type, "key")

    def _timeouts(self, given: Any, length: int) -> pa.Int64Array:
        conf = self._state.timeout_conf
        if conf == NO_TIMEOUT:
            raise ValueError("there are no timeouts under NoTimeout: give timeoutConf to mapInArrowWithState")
        is_event = conf == EVENT_TIME_TIMEOUT
        times: Any = given
        if isinstance(times, pa.ChunkedArray):
            times = times.combine_chunks()
        if not isinstance(times, pa.Array):
            times = pa.repeat(pa.scalar(_milliseconds(times, is_event), pa.int64()), length)
        if len(times) != length:
            raise ValueError(f"there are {length} keys and {len(times)} timeouts")
        if pa.types.is_timestamp(times.type) and is_event:
            times = pc.cast(times, pa.timestamp("ms", times.type.tz), safe=False).cast(pa.int64())
        elif pa.types.is_duration(times.type) and not is_event:
            times = pc.cast(times, pa.duration("ms"), safe=False).cast(pa.int64())
        elif pa.types.is_integer(times.type) or pa.types.is_null(times.type):
            times = times.cast(pa.int64())
        else:
            raise TypeError(f"timeouts of the Arrow type {times.type} do not fit {conf}")
        if not is_event:
            if pc.any(pc.less_equal(times, 0)).as_py():
                raise ValueError("a timeout's duration is positive")
            times = pc.add(times, self.processing_time_ms)
        elif pc.any(pc.or_(pc.less_equal(times, 0), pc.less(times, self.watermark_ms))).as_py():
            raise ValueError(f"a timeout's timestamp is positive and not before the watermark, {self.watermark_ms} ms")
        return cast(pa.Int64Array, pc.fill_null(times, NO_TIMESTAMP))


class ArrowEngine:
    """Runs mapInArrowWithState. Without rows and expired keys, the function is not called.

    Args:
        func: the user's.
        columns: of the rows.
        output: the Arrow schema of what it returns.
    """

    def __init__(self, func: UserFunction, columns: Columns, output: pa.Schema) -> None:
        self._func = func
        self._columns = columns
        self._output = output

    def data(self, keyed_rows: Iterator[KeyedRows], state: PartitionState) -> Iterator[pa.RecordBatch]:
        for keyed in keyed_rows:
            yield from self._call(self._with_keys(keyed.rows, keyed.keys), ArrowState(state), state)

    def expired(self, state: PartitionState) -> Iterator[pa.RecordBatch]:
        no_rows = self._with_keys(state.no_rows, cast(pa.StructArray, pa.array([], state.key_type)))
        for keys in state.expired_keys(_EXPIRED_ROWS):
            yield from self._call(no_rows, ArrowState(state, keys), state)

    def _with_keys(self, rows: pa.Table, keys: pa.StructArray) -> pa.Table:
        """Adds the key columns that are computed, not columns of the data; each replaces a data column of its name."""
        for i, position in enumerate(self._columns.key_positions):
            if position >= len(self._columns.data_names):
                name = self._columns.key_names[i]
                at = rows.schema.get_all_field_indices(name)
                column = keys.field(i)
                rows = rows.set_column(at[0], name, column) if at else rows.append_column(name, column)
        return rows

    def _call(self, rows: pa.Table, arrow_state: ArrowState, state: PartitionState) -> Iterator[pa.RecordBatch]:
        try:
            output = self._func(rows, arrow_state)
            if output is None:
                return
            table = self._in_schema(output)
        except BaseException as error:
            if isinstance(error, StateStoreError) and is_raised_here(error):  # of the state
                raise
            raise UserFunctionError(
                f"the function of mapInArrowWithState failed in partition {state.partition_id} of batch "
                f"{state.batch_id}: {state.shown.error(error)}",
                remedy="The state is as before the batch",
            ) from error
        yield from table.to_batches(max_chunksize=_OUTPUT_ROWS)

    def _in_schema(self, output: Any) -> pa.Table:
        """Converts what the function returned to the declared columns. TypeError, ValueError: it does not fit."""
        if isinstance(output, pa.RecordBatch):
            output = pa.Table.from_batches([output])
        if not isinstance(output, pa.Table):
            raise TypeError(f"it gave {type(output).__name__}, not a pyarrow.Table")
        return _in_schema(output, self._output)


def _in_schema(table: pa.Table, schema: pa.Schema) -> pa.Table:
    missing = [name for name in schema.names if name not in table.schema.names]
    if missing or table.num_columns != len(schema):
        raise ValueError(
            f"its output has the columns {', '.join(table.schema.names)}; outputStructType has "
            f"{', '.join(schema.names)}"
        )
    table = table.select(schema.names)
    if table.schema.types == schema.types:
        return table
    try:
        return table.cast(schema)
    except (pa.ArrowException, ValueError) as error:
        raise ValueError(f"its output does not fit outputStructType: {error}") from error


def _table_of(structs: pa.StructArray) -> pa.Table:
    """The columns of structs; where a struct is null, all of them are."""
    fields = [field.with_nullable(True) for field in structs.type]
    return pa.Table.from_arrays(structs.flatten(), schema=pa.schema(fields))


def _structs(rows: Rows, wanted: Any, what: str) -> pa.StructArray:
    """Converts rows to structs of the wanted columns, found by name."""
    if isinstance(rows, pa.ChunkedArray):
        rows = rows.combine_chunks()
    if isinstance(rows, pa.StructArray):
        rows = _table_of(rows)
    if not isinstance(rows, pa.Table | pa.RecordBatch):
        raise TypeError(f"{what}s are a pyarrow Table, RecordBatch or StructArray, not {type(rows).__name__}")
    columns = []
    for field in wanted:
        at = rows.schema.get_all_field_indices(field.name)
        if len(at) != 1:
            raise ValueError(f"{what}s have {len(at)} columns {field.name!r}: there are {', '.join(rows.schema.names)}")
        column: Any = rows.column(at[0])
        if isinstance(column, pa.ChunkedArray):
            column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        columns.append(column if column.type == field.type else column.cast(field.type))
    if not columns:
        return cast(pa.StructArray, pa.Array.from_buffers(wanted, rows.num_rows, [None]))
    fields = [field.with_nullable(True) for field in wanted]
    return cast(pa.StructArray, pa.StructArray.from_arrays(columns, fields=fields))


def _milliseconds(given: Any, is_event: bool) -> int | None:
    if isinstance(given, pa.Scalar):
        given = given.as_py()
    if isinstance(given, datetime.timedelta) and not is_event:
        return given // datetime.timedelta(milliseconds=1)
    if isinstance(given, datetime.datetime) and is_event:
        return int(given.timestamp() * 1000)
    if given is None or (isinstance(given, int) and not isinstance(given, bool)):
        return given
    wanted = "milliseconds or a datetime" if is_event else "milliseconds or a timedelta"
    raise TypeError(f"a timeout is {wanted}, not {type(given).__name__}")
