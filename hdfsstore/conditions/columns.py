"""Picks columns, and fields of them, by their full names: `key`, `value.count`, `key.window.start`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import pyarrow as pa

from hdfsstore.conditions.fields import ConditionError
from hdfsstore.conditions.names import leaves, places

# What is wanted on one level of fields: each by its place there, and of it the same again, or None for all of it.
Wanted: TypeAlias = "dict[int, Wanted | None]"


def wanted_fields(schema: pa.Schema, names: Iterable[str]) -> Wanted:
    """The fields of these full names. Raises ConditionError, which lists all names."""
    if isinstance(names, str):
        raise ConditionError(f"columns are a list of names: give [{names!r}]")
    known = places(schema)
    wanted: Wanted = {}
    for name in names:
        if name not in known:
            others = ", ".join(dict.fromkeys([*schema.names, *leaves(schema)]))
            raise ConditionError(f"there is no column {name}; the columns are {others}")
        add_field(wanted, known[name])
    if not wanted:
        raise ConditionError(f"no column is wanted; the columns are {', '.join(schema.names)}")
    return wanted


def add_field(wanted: Wanted, place: tuple[int, ...]) -> None:
    """Adds the field that has these places on the levels, the outermost first."""
    level: Wanted | None = wanted
    for depth, at in enumerate(place):
        if level is None:
            return  # a struct around it is wanted as a whole
        if depth == len(place) - 1:
            level[at] = None
        else:
            level = level.setdefault(at, {})


def narrowed_schema(schema: pa.Schema, wanted: Wanted) -> pa.Schema:
    """The schema with only these fields, in its own order."""
    return pa.schema(_narrowed_fields(list(schema), wanted), metadata=schema.metadata)


def narrowed(batch: pa.RecordBatch, wanted: Wanted) -> pa.RecordBatch:
    """The batch with only these fields."""
    columns = [_narrowed(batch.column(at), wanted[at]) for at in sorted(wanted)]
    return pa.RecordBatch.from_arrays(columns, schema=narrowed_schema(batch.schema, wanted))


def _narrowed_fields(fields: list[pa.Field], wanted: Wanted) -> list[pa.Field]:
    return [_narrowed_field(fields[at], wanted[at]) for at in sorted(wanted)]


def _narrowed_field(field: pa.Field, wanted: Wanted | None) -> pa.Field:
    return field if wanted is None else field.with_type(pa.struct(_narrowed_fields(list(field.type), wanted)))


def _narrowed(column: pa.Array, wanted: Wanted | None) -> pa.Array:
    if wanted is None:
        return column
    children = column.flatten()
    return pa.StructArray.from_arrays(
        [_narrowed(children[at], wanted[at]) for at in sorted(wanted)],
        fields=_narrowed_fields(list(column.type), wanted),
        mask=column.is_null() if column.null_count else None,
    )


def flat_schema(schema: pa.Schema) -> pa.Schema:
    """The schema of `flat_columns`."""
    fields = []
    for field in schema:
        inner = list(field.type) if pa.types.is_struct(field.type) else []
        nullable = [child.with_name(f"{field.name}.{child.name}") for child in inner]
        nullable = [child.with_nullable(child.nullable or field.nullable) for child in nullable]
        fields += nullable if pa.types.is_struct(field.type) else [field]
    return pa.schema(fields, metadata=schema.metadata)


def flat_columns(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A column `key.user` for each field of a struct; structs in it stay. `schema` is its flat_schema."""
    columns: list[pa.Array] = []
    for column in batch.columns:
        columns += column.flatten() if pa.types.is_struct(column.type) else [column]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
