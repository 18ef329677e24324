"""Tells which row of the state after one batch is which one after another, and how they differ.

    rows of                     are the same if they have the same    and tell
    a store, a ValueState       key                                   value
    a map                       key, user_map_key                     user_map_value
    a map, not flattened        key                                   map_value
    a list, not flattened       key                                   list_value
    a list                      key, list_element                     no more
    timers                      key, expiration_timestamp_ms          no more
    a side of a join            key, value                            no more

The last three are only added and removed. There may be several equal rows, which are told apart by their numbers.
Columns are compared by the bytes of Spark's rows of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hdfsstore._cext.key_set import KeySet
from hdfsstore.codecs.arrow_types import cast_array, from_arrow_schema
from hdfsstore.codecs.unsafe_row import RowCodec

ADDED, CHANGED, REMOVED = "added", "changed", "removed"
KINDS = (ADDED, CHANGED, REMOVED)

_MOST_BYTES = 1 << 30
_VALUES = ("value", "user_map_value", "map_value", "list_value")
# Spark's change feed tells them row by row: not those that it joins from several records.
_IN_CHANGES = ("value", "user_map_value", "expiration_timestamp_ms")


@dataclass(frozen=True)
class IdentifiedRows:
    """Rows with what tells them apart.

    Attributes:
        table: the rows.
        ids: equal for the same row of two states.
        values: what is told of it, as bytes; None where that is in the ids.
    """

    table: pa.Table
    ids: pa.LargeBinaryArray
    values: pa.LargeBinaryArray | None

    def filter(self, mask: pa.BooleanArray) -> IdentifiedRows:
        """The rows for which the mask is true."""
        values = None if self.values is None else self.values.filter(mask)
        return IdentifiedRows(self.table.filter(mask), self.ids.filter(mask), values)

    def without(self, ids: pa.LargeBinaryArray) -> IdentifiedRows:
        """All but the rows with these ids."""
        return self.filter(pc.invert(pc.is_in(self.ids, value_set=ids)))


class RowIdentity:
    """What makes two rows the same.

    Args:
        schema: as Checkpoint.read_state has it.
        of_join_side: whether they are rows of a side of a join.

    Attributes:
        schema: without the partition.
        names: the columns in which rows that are the same agree.
        content: the column that is told of a row; it is the last one.
        has_values: whether rows can change, and are not only added and removed.
        in_changes: whether Checkpoint.read_changes tells what becomes of such rows.
    """

    def __init__(self, schema: pa.Schema, *, of_join_side: bool) -> None:
        self.schema = pa.schema([field for field in schema if field.name != "partition_id"])
        self.content: str = self.schema.names[-1]
        self.has_values = self.content in _VALUES and not of_join_side
        self.in_changes = self.content in _IN_CHANGES and not of_join_side
        self._may_repeat = self.content == "list_element" or of_join_side
        self.names: list[str] = self.schema.names[:-1] if self.has_values else self.schema.names

    def of(self, rows: pa.Table) -> IdentifiedRows:
        """Rows of a state, with whatever other columns."""
        rows = self._own(rows)
        ids = _encoded(rows, self.names)
        return self._identified(rows, _numbered(ids) if self._may_repeat else ids)

    def of_written(self, rows: pa.Table, written: WrittenIds) -> tuple[IdentifiedRows, pa.Int32Array]:
        """Those of the rows of a state that were written, and the place of each among the ids.

        Not for rows that may be equal.
        """
        rows = self._own(rows)
        ids = _encoded(rows, self.names)
        places = written.places(ids)
        is_written = places.is_valid()
        return self._identified(rows.filter(is_written), ids.filter(is_written)), places.filter(is_written)

    def of_changes(self, changes: pa.Table) -> tuple[IdentifiedRows, pa.BooleanArray]:
        """The rows that were written, as the last change in the order of time left them, and whether they are there."""
        rows = self._own(changes)
        ids = _encoded(rows, self.names)
        last = _last_of_each(ids)
        exists = pc.not_equal(single(changes["change_type"]).take(last), "delete")
        return self._identified(rows.take(last), ids.take(last)), exists

    def together(self, parts: Sequence[IdentifiedRows]) -> IdentifiedRows:
        """The rows of all parts."""
        tables = [self.schema.empty_table(), *(part.table for part in parts)]
        ids = pa.concat_arrays([pa.array([], pa.large_binary()), *(part.ids for part in parts)])
        return self._identified(pa.concat_tables(tables), ids, [part.values for part in parts])

    def _identified(
        self, rows: pa.Table, ids: pa.LargeBinaryArray, values: Sequence[pa.LargeBinaryArray | None] | None = None
    ) -> IdentifiedRows:
        if not self.has_values:
            return IdentifiedRows(rows, ids, None)
        encoded = [_encoded(rows, [self.content])] if values is None else values
        return IdentifiedRows(rows, ids, pa.concat_arrays([pa.array([], pa.large_binary()), *encoded]))

    def _own(self, rows: pa.Table) -> pa.Table:
        """The columns, in the types that they have in the last of the batches: a schema may have got more fields."""
        columns = [_in_type(single(rows[field.name]), field.type) for field in self.schema]
        return pa.Table.from_arrays(columns, schema=self.schema)


class WrittenIds:
    """Ids of rows that were written, in one table, in which those of other rows are looked up.

    Args:
        ids: each one once.
    """

    def __init__(self, ids: pa.LargeBinaryArray) -> None:
        self._known = KeySet()
        self._count = len(ids)
        self._add(ids)

    def places(self, ids: pa.LargeBinaryArray) -> pa.Int32Array:
        """The place of each id; null: it is not among them."""
        return self._known.positions(ids)

    def rows_at(self, places: pa.Int32Array) -> pa.Int32Array:
        """For each id the number of the row whose place it is; null: it is that of none."""
        return pc.index_in(pa.array(range(self._count), pa.int32()), value_set=places)

    def _add(self, ids: pa.LargeBinaryArray) -> None:
        if ids.nbytes > _MOST_BYTES and len(ids) > 1:  # places of bytes are int32
            self._add(ids.slice(0, len(ids) // 2))
            self._add(ids.slice(len(ids) // 2))
        elif len(ids):
            _, offsets, data = ids.buffers()
            ends = pa.Array.from_buffers(pa.int64(), len(ids) + 1, [None, offsets], 0, ids.offset)
            first, size = ends[0].as_py(), ends[-1].as_py() - ends[0].as_py()
            starts, sizes = pc.subtract(ends[:-1], first), pc.subtract(ends[1:], ends[:-1])
            spans = pc.bit_wise_or(starts, pc.shift_left(sizes, 32))  # a pair of int32 each
            self._known.add(memoryview(data.slice(first, size)).cast("B") if size else b"\0", spans.buffers()[1])


def differences(before: IdentifiedRows, after: IdentifiedRows) -> tuple[pa.Array, pa.Array, pa.BooleanArray]:
    """How the rows of two states differ.

    Returns for each row of `after` ADDED, CHANGED or "", and its place in `before` (null: none); for each row of
    `before` whether it was removed.
    """
    places = pc.index_in(after.ids, value_set=before.ids)
    return kinds_of(before, after, places), places, pc.invert(pc.is_in(before.ids, value_set=after.ids))


def kinds_of(before: IdentifiedRows, after: IdentifiedRows, places: pa.Int32Array) -> pa.StringArray:
    """For each row of `after`, whose place in `before` is known, ADDED, CHANGED or ""."""
    kinds = pc.if_else(places.is_null(), ADDED, "")
    if after.values is None or before.values is None:
        return kinds
    differs = pc.fill_null(pc.not_equal(after.values, before.values.take(places)), False)
    return pc.if_else(differs, CHANGED, kinds)


def single(column: pa.ChunkedArray) -> Any:
    """A column in one piece."""
    return pa.concat_arrays([pa.array([], column.type), *column.chunks])


def _in_type(array: Any, kind: Any) -> Any:
    """Values of an older schema in a newer one, with nulls in the fields that it lacks. Arrow 18 cannot cast so."""
    if array.type == kind:
        return array
    if pa.types.is_struct(kind) and pa.types.is_struct(array.type):
        old = dict(zip((field.name for field in array.type), array.flatten(), strict=True))
        children = [
            _in_type(old[field.name], field.type) if field.name in old else pa.nulls(len(array), field.type)
            for field in kind
        ]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=array.is_null())
    if pa.types.is_list(kind) and pa.types.is_list(array.type):
        return _with_children(array, kind, _in_type(array.values, kind.value_type))
    if pa.types.is_map(kind) and pa.types.is_map(array.type):
        entries = [_in_type(array.keys, kind.key_type), _in_type(array.items, kind.item_type)]
        fields = [kind.key_field, kind.item_field]
        return _with_children(array, kind, pa.StructArray.from_arrays(entries, fields=fields))
    return cast_array(array, kind, "a column of an older batch")


def _with_children(array: Any, kind: pa.DataType, children: pa.Array) -> Any:
    buffers = array.buffers()[:2]
    return pa.Array.from_buffers(kind, len(array), buffers, array.null_count, array.offset, [children])


def _encoded(rows: pa.Table, names: list[str]) -> pa.LargeBinaryArray:
    columns = [single(rows[name]) for name in names]
    if len(columns) == 1 and pa.types.is_struct(columns[0].type):
        (structs,) = columns
    else:
        structs = pa.StructArray.from_arrays(columns, fields=[rows.schema.field(name) for name in names])
    encoded = RowCodec(from_arrow_schema(pa.schema(list(structs.type)))).encode(structs)
    return encoded.cast(pa.large_binary())


def _numbered(ids: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    """Of equal ids the first one with 0, the second one with 1, and so on."""
    order = pc.array_sort_indices(ids)
    sorted_ids, places = ids.take(order), pa.array(range(len(ids)), pa.int64())
    is_first = pa.concat_arrays(
        [pa.array([True] * min(len(ids), 1), pa.bool_()), pc.not_equal(sorted_ids[1:], sorted_ids[:-1])]
    )
    firsts = pc.cumulative_max(pc.if_else(is_first, places, 0))
    numbers = pc.subtract(places, firsts)
    digits = numbers.take(pc.array_sort_indices(order)).cast(pa.string()).cast(ids.type)
    return pc.binary_join_element_wise(ids, digits, pa.scalar(b"#", ids.type))


def _last_of_each(ids: pa.LargeBinaryArray) -> pa.Int64Array:
    """The place of the last one of each id, in order."""
    rows = pa.table({"id": ids, "row": pa.array(range(len(ids)), pa.int64())})
    last = rows.group_by("id").aggregate([("row", "max")])["row_max"].combine_chunks()
    return last.take(pc.sort_indices(last))
