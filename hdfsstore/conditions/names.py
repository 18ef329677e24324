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
    """The same columns under the names of `schema`, on all levels; no values are copied."""
    return batch if batch.schema.equals(schema) else pa.record_batch(_Renamed(batch, schema))


def leaves(schema: pa.Schema) -> list[str]:
    """The full names of all fields that are not structs: `key.window.start`."""
    return [path for path, field in _walk(list(schema)) if not pa.types.is_struct(field.type)]


def places(schema: pa.Schema) -> dict[str, tuple[int, ...]]:
    """The full names of all fields, structs too, and the place of each on every level, the outermost first."""
    found: dict[str, tuple[int, ...]] = {}
    _find_places(list(schema), "", (), found)
    return found


class _Renamed:
    """A batch under other names, by Arrow's PyCapsule interface."""

    def __init__(self, batch: pa.RecordBatch, schema: pa.Schema) -> None:
        self._batch = batch
        self._schema = schema

    def __arrow_c_array__(self, _requested_schema: object = None) -> tuple[object, object]:
        return self._schema.__arrow_c_schema__(), self._batch.__arrow_c_array__()[1]


def _find_places(fields: list[pa.Field], above: str, place: tuple[int, ...], found: dict[str, tuple[int, ...]]) -> None:
    for at, field in enumerate(fields):
        name = above + field.name
        found.setdefault(name, (*place, at))
        if pa.types.is_struct(field.type):
            _find_places(list(field.type), f"{name}.", (*place, at), found)


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
