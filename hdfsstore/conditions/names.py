"""Makes field names unique, and lists fields by their full names.

The state of an aggregation can have several fields of one name (two sums are both `sum`). Spark and Arrow tell them
apart by position; JSON objects, Parquet readers and SQL cannot. Here the second one is called `sum_2`, and so on.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa


def unique_names(schema: pa.Schema) -> pa.Schema:
    """Numbers repeated names on each level, from `_2` on. Returns the same object if no name is repeated."""
    fields = _unique(list(schema))
    return schema if fields == list(schema) else pa.schema(fields, metadata=schema.metadata)


def renamed(before: pa.Schema, after: pa.Schema) -> list[str]:
    """The full names that `unique_names` has changed, as they are in `after`."""
    pairs = zip(_walk(list(before)), _walk(list(after)), strict=True)
    return [path for (_, old), (path, new) in pairs if old.name != new.name]


def with_names(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same columns under the names of `schema`, on all levels."""
    if batch.schema.equals(schema):
        return batch
    return pa.ipc.read_record_batch(batch.serialize(), schema)


def leaves(schema: pa.Schema) -> list[str]:
    """The full names of all fields that are not structs: `key.window.start`."""
    return [path for path, field in _walk(list(schema)) if not pa.types.is_struct(field.type)]


def _walk(fields: list[pa.Field], above: str = "") -> Iterator[tuple[str, pa.Field]]:
    for field in fields:
        path = above + field.name
        yield path, field
        if pa.types.is_struct(field.type):
            yield from _walk(list(field.type), path + ".")


def _unique(fields: list[pa.Field]) -> list[pa.Field]:
    taken = {field.name for field in fields}
    seen: set[str] = set()
    result = []
    for field in fields:
        name, number = field.name, 2
        while name in seen or (name != field.name and name in taken):
            name, number = f"{field.name}_{number}", number + 1
        seen.add(name)
        result.append(field.with_name(name).with_type(_unique_type(field.type)))
    return result


def _unique_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct(_unique(list(kind)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_unique_type(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(
            kind.key_field.with_type(_unique_type(kind.key_type)),
            kind.item_field.with_type(_unique_type(kind.item_type)),
        )
    return kind
