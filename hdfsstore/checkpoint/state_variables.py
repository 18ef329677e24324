"""The state variables and timers of transformWithState, in the columns of Spark's `statestore` source.

    ValueState            key | value
    ListState             key | list_element, a row for each element; not flattened: key | list_value
    MapState              key | user_map_key | user_map_value, a row for each entry; not flattened: key | map_value
    registered timers     key | expiration_timestamp_ms

Each has a column family of its name; timers have <timers>_keyToTimestamp. The key of a map or timer in its family is a
struct of the grouping key and of the user key or time. With a time to live, values are structs of value and
ttlExpirationMs. partition_id follows (SchemaUtil.scala in Spark).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hdfsstore.checkpoint.operators import Operator
from hdfsstore.checkpoint.row_converter import APPEND, Convert, Key, PartitionIds, RowConverter, key_array
from hdfsstore.codecs.records import RecordChunk
from hdfsstore.codecs.rocksdb_keys import PrefixKeys, after
from hdfsstore.codecs.unsafe_row import RowCodec
from hdfsstore.errors import CheckpointNotFoundError, StateStoreError
from hdfsstore.state.protocols import KeyRange

VALUE, LIST, MAP, TIMER = "ValueState", "ListState", "MapState", "TimerState"
_TIMERS = {"EventTime": "$eventTimers_keyToTimestamp", "ProcessingTime": "$procTimers_keyToTimestamp"}


@dataclass(frozen=True, slots=True)
class StateVariable:
    """A state variable: the name of its column family, and VALUE, LIST, MAP or TIMER."""

    name: str
    kind: str


def state_variables(operator: Operator) -> dict[str, str]:
    """The kind of each state variable of transformWithState, by name, without timers; empty for other operators."""
    known = {each["stateName"]: each["stateVariableType"] for each in operator.properties.get("stateVariables", [])}
    return {name: kind for name, kind in known.items() if kind != TIMER}


def has_timers(operator: Operator) -> bool:
    """Whether a transformWithState may have registered timers."""
    return operator.properties.get("timeMode", "") in _TIMERS


def state_variable(operator: Operator, name: str | None, batch_id: int, path: str, *, timers: bool) -> StateVariable:
    """The variable of that name, or the registered timers.

    Args:
        batch_id, path: of the operator and of its schemas, for messages: a query may have other variables after a
            restart.

    Raises:
        CheckpointNotFoundError: there is none of that name; the message lists those that there are.
        StateStoreError: no variable is named, or there are no timers.
    """
    named = state_variables(operator)
    has = f"Its state variables are {', '.join(sorted(named))}" if named else "It has no state variables"
    if operator.name is None:
        has = (
            "The checkpoint has no metadata of the operator, which would name its state variables: restore "
            f"state/{operator.operator_id}/_metadata"
        )
    who = f"operator {operator.operator_id}"
    if timers:
        if name is not None:
            raise StateStoreError("timers are no state variable", remedy="Give state_var or read_registered_timers")
        family = _TIMERS.get(operator.properties.get("timeMode", ""))
        if family is None:
            raise StateStoreError(f"{who} has no timers at batch {batch_id}", path, remedy=has)
        return StateVariable(family, TIMER)
    if name is None:
        remedy = f"{has}: give state_var" if named else has
        raise StateStoreError(f"the state of {who} is in state variables", path, remedy=remedy)
    if name not in named:
        raise CheckpointNotFoundError(f"{who} has no state variable {name!r} at batch {batch_id}", path, remedy=has)
    return StateVariable(name, named[name])


Columns = Callable[[pa.StructArray, Any], list[pa.Array]]


class VariableConverter:
    """Turns chunks of a variable's family into its columns.

    Args:
        rows: decodes the family.
        variable: the variable.
        flatten: whether elements of lists and entries of maps have rows of their own.
    """

    def __init__(self, rows: RowConverter, variable: StateVariable, *, flatten: bool) -> None:
        self._rows = rows
        self.key_type = rows.key_type
        self.joins_rows = variable.kind == MAP and not flatten
        key, value = pa.field("key", rows.key_arrow_type), pa.field("value", rows.value_arrow_type)
        self._columns: Columns = _as_they_are
        fields = [key, value]
        if variable.kind == LIST and flatten:
            self._columns, fields = _elements, [key, value.with_name("list_element")]
        elif variable.kind == LIST:
            fields = [key, value.with_name("list_value").with_type(pa.list_(pa.field("element", value.type)))]
        elif variable.kind in (MAP, TIMER):
            key, user_key = rows.key_arrow_type
            self._grouping_key = RowCodec(rows.key_type.fields[0].type)  # type: ignore[arg-type]
            self._columns, fields = _entries, [key, user_key.with_name("user_map_key"), value]
            fields[2] = value.with_name("user_map_value")
            if variable.kind == TIMER:
                self._columns, fields = _times, [key, user_key.with_name("expiration_timestamp_ms")]
        self.flat_schema = _nullable([*fields, pa.field("partition_id", pa.int32())])
        self.schema = self.flat_schema
        if self.joins_rows:
            map_type = pa.map_(pa.field("key", fields[1].type, False), pa.field("value", fields[2].type))
            self.schema = _nullable([key, pa.field("map_value", map_type), self.flat_schema.field(3)])

    def of_partition(self, partition_id: int) -> Convert:
        """Converts the chunks of one partition."""
        ids = PartitionIds(partition_id)

        def convert(chunk: RecordChunk) -> pa.RecordBatch:
            columns = self._columns(*self._rows.decode(chunk))
            return pa.RecordBatch.from_arrays([*columns, ids.array(len(columns[0]))], schema=self.flat_schema)

        return convert

    def key_range(self, key: Key) -> KeyRange:
        """The stored keys of one key: a map has one for each entry. SchemaMismatchError: it is no such key."""
        if not isinstance(self._rows.keys, PrefixKeys):
            stored = self._rows.stored_key(key)
            return KeyRange(stored, stored + b"\0")
        grouping = self._rows.key_arrow_type[0]
        columns = pa.StructArray.from_arrays([key_array(key, grouping.type)], fields=[grouping])
        prefix: bytes = self._rows.keys.prefix(columns)[0].as_py()
        return KeyRange(prefix, after(prefix))

    def finish(self, batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        """What becomes of the batches of one partition, in their order: the entries of a map are joined."""
        return self._grouped(batches) if self.joins_rows else batches

    def changes(self, chunk: RecordChunk, types: pa.StringArray) -> tuple[pa.StringArray, list[pa.Array]]:
        """The change types and the columns of a changelog's records, flattened.

        Of a list that is put, the first element is an update, and the others are appended to it.
        """
        keys, values = self._rows.decode(chunk)
        if self._columns is not _elements:
            return types, self._columns(keys, values)
        parents, elements = _parents(values)
        is_first = _begins(parents)
        return pc.if_else(is_first, types.take(parents), APPEND), [keys.take(parents), elements]

    def _grouped(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One row for each run of rows with the same key; the last run of a batch may go on in the next one."""
        rest: list[pa.RecordBatch] = []
        for batch in batches:
            if not len(batch):
                continue
            (whole,) = pa.Table.from_batches([*rest, batch]).combine_chunks().to_batches()
            starts = self._starts(whole)
            last = starts[-1].as_py()
            if last:
                yield self._maps(whole.slice(0, last), starts[:-1])
            rest = [whole.slice(last)]
        for whole in rest:
            yield self._maps(whole, pa.array([0], pa.int32()))

    def _starts(self, batch: pa.RecordBatch) -> pa.Int32Array:
        keys = self._grouping_key.encode(batch.column(0))
        return pc.indices_nonzero(_begins(keys)).cast(pa.int32())

    def _maps(self, batch: pa.RecordBatch, starts: pa.Int32Array) -> pa.RecordBatch:
        keys, user_keys, values, partition_ids = (pa.concat_arrays([column]) for column in batch.columns)
        arrow = self.schema.field("map_value").type
        entries = pa.StructArray.from_arrays([user_keys, values], fields=[arrow.key_field, arrow.item_field])
        offsets = pa.concat_arrays([starts, pa.array([len(batch)], pa.int32())]).buffers()[1]
        maps = pa.Array.from_buffers(arrow, len(starts), [None, offsets], 0, children=[entries])
        return pa.RecordBatch.from_arrays([keys.take(starts), maps, partition_ids.take(starts)], schema=self.schema)


def _as_they_are(keys: pa.StructArray, values: Any) -> list[pa.Array]:
    return [keys, values]


def _elements(keys: pa.StructArray, values: Any) -> list[pa.Array]:
    parents, elements = _parents(values)
    return [keys.take(parents), elements]


def _parents(values: Any) -> tuple[pa.Int64Array, pa.StructArray]:
    """The number of the list that each element is of, and the elements; a null is a list of one null."""
    parents, elements = pc.list_parent_indices(values), values.flatten()
    if not values.null_count:
        return parents, elements
    nulls = pc.indices_nonzero(values.is_null()).cast(parents.type)
    parents = pa.concat_arrays([parents, nulls])
    order = pc.array_sort_indices(parents)
    return parents.take(order), pa.concat_arrays([elements, pa.nulls(len(nulls), elements.type)]).take(order)


def _begins(values: pa.Array) -> pa.BooleanArray:
    """Where a value differs from the one before."""
    first = pa.array([True] * min(len(values), 1), pa.bool_())
    return pa.concat_arrays([first, pc.not_equal(values[1:], values[:-1])])


def _entries(keys: pa.StructArray, values: Any) -> list[pa.Array]:
    return [*keys.flatten(), values]


def _times(keys: pa.StructArray, _values: Any) -> list[pa.Array]:
    return [*keys.flatten()]


def _nullable(fields: list[Any]) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in fields])
