"""Rows as plain values that compare: structs by position (names may repeat), NaN equal to NaN, -0.0 unlike 0.0."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa


def plain(array: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values of an array: tuples for structs, lists of pairs for maps, text for floats."""
    if isinstance(array, pa.ChunkedArray):
        return [value for chunk in array.chunks for value in plain(chunk)]
    kind = array.type
    if pa.types.is_struct(kind):
        fields = [plain(field) for field in array.flatten()]
        return [
            tuple(field[i] for field in fields) if valid else None
            for i, valid in enumerate(array.is_valid().to_pylist())
        ]
    if pa.types.is_map(kind):
        return [None if not scalar.is_valid else _pairs(array.slice(i, 1)) for i, scalar in enumerate(array)]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [None if not scalar.is_valid else plain(array.slice(i, 1).flatten()) for i, scalar in enumerate(array)]
    if pa.types.is_floating(kind):
        return [None if value is None else repr(value) for value in array.to_pylist()]
    if pa.types.is_string(kind):
        return [None if value is None else bytes(value) for value in array.cast(pa.binary()).to_pylist()]
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) or pa.types.is_time64(kind):
        return array.cast(pa.int64()).to_pylist()
    if pa.types.is_date32(kind):
        return array.cast(pa.int32()).to_pylist()
    return array.to_pylist()


def _pairs(one: pa.MapArray) -> list[tuple[Any, Any]]:
    keys, items = one.keys, one.items
    start, stop = one.offsets[0].as_py(), one.offsets[1].as_py()
    return list(zip(plain(keys.slice(start, stop - start)), plain(items.slice(start, stop - start)), strict=True))


def counted(table: pa.Table) -> Counter[str]:
    """How often each row occurs."""
    columns = [plain(column) for column in table.columns]
    return Counter(map(repr, zip(*columns, strict=True)))


def comparable(table: pa.Table) -> pa.Table:
    """Rows as both sides can know them: maps have no order; Spark reads the event time in keys of join format 4 as if
    it were in the row, and shows whatever lies behind it."""
    for at, field in enumerate(table.schema):
        if pa.types.is_map(field.type):
            entries = [None if pairs is None else repr(sorted(pairs, key=repr)) for pairs in plain(table.column(at))]
            table = table.set_column(at, field.name, pa.array(entries, pa.string()))
    key = table["key"].combine_chunks() if "key" in table.column_names else None
    if key is not None and "__event_time" in [field.name for field in key.type]:
        known = pa.StructArray.from_arrays(key.flatten()[:-1], fields=list(key.type)[:-1])
        table = table.set_column(table.column_names.index("key"), "key", known)
    return table


def same(left: pa.Array, right: pa.Array) -> bool:
    """Equal, NaN too, field by field by position, whatever the names."""
    if left.type != right.type or len(left) != len(right) or not left.is_valid().equals(right.is_valid()):
        return False
    if pa.types.is_struct(left.type):
        keep = left.is_valid()
        return all(same(left.field(i).filter(keep), right.field(i).filter(keep)) for i in range(left.type.num_fields))
    if pa.types.is_list(left.type) or pa.types.is_map(left.type):
        counts = [[len(x) if x.is_valid else None for x in side] for side in (left, right)]
        return counts[0] == counts[1] and same(elements(left), elements(right))
    if pa.types.is_floating(left.type):
        return repr(left.to_pylist()) == repr(right.to_pylist())
    return left.equals(right)


def elements(lists: pa.Array) -> pa.Array:
    return pa.concat_arrays([x.values for x in lists if x.is_valid] or [lists.values[:0]])
