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
