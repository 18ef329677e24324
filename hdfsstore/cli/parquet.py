"""Converts types that Parquet lacks: a struct without fields becomes nulls, an interval its text."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from hdfsstore.conditions.texts import texts


def storable(field: pa.Field) -> pa.Field:
    """The field with a type that Parquet has, on all levels."""
    return field.with_type(_storable_type(field.type))


def _storable_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([storable(child) for child in kind]) if kind.num_fields else pa.null()
    if pa.types.is_list(kind):
        return pa.list_(storable(kind.value_field))
    if pa.types.is_map(kind):
        return pa.map_(storable(kind.key_field), storable(kind.item_field))
    return pa.string() if kind == pa.month_day_nano_interval() else kind


def store(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """The column in the type that `storable` returned."""
    if column.type == kind:
        return column
    if pa.types.is_null(kind):
        return pa.nulls(len(column))
    if pa.types.is_struct(kind):
        children = [store(column.field(i), kind.field(i).type) for i in range(kind.num_fields)]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=column.is_null())
    if pa.types.is_list(kind):
        offsets, values = _pointed_to(column, column.values)
        return pa.ListArray.from_arrays(offsets, store(values, kind.value_type), type=kind, mask=column.is_null())
    if pa.types.is_map(kind):
        offsets, keys = _pointed_to(column, column.keys)
        _, items = _pointed_to(column, column.items)
        keys, items = store(keys, kind.key_type), store(items, kind.item_type)
        return pa.MapArray.from_arrays(offsets, keys, items, type=kind, mask=column.is_null())
    return pa.array(texts(column), kind)


def _pointed_to(column: pa.Array, children: pa.Array) -> tuple[pa.Array, pa.Array]:
    """The children that the offsets point to, and offsets that start at 0."""
    first, last = column.offsets[0].as_py(), column.offsets[-1].as_py()
    return pc.subtract(column.offsets, pa.scalar(first, pa.int32())), children.slice(first, last - first)
