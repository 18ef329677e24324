"""Spark's UnsafeRows to Arrow and back, a column at a time; cext/unsafe_layout.pxd has the layout.

The tree of a row's types is walked in Python; at each of its nodes one compiled loop passes over all rows or elements.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from hdfsstore._cext import unsafe_row, unsafe_values
from hdfsstore.codecs import types as t
from hdfsstore.errors import UnsupportedTypeError

_KINDS: dict[type[t.DataType], str] = {
    t.NullType: "0",
    t.BooleanType: "?",
    t.ByteType: "1",
    t.ShortType: "2",
    t.IntegerType: "4",
    t.FloatType: "4",
    t.DateType: "4",
    t.LongType: "8",
    t.DoubleType: "8",
    t.TimestampType: "8",
    t.TimestampNTZType: "8",
    t.TimeType: "8",
    t.DayTimeIntervalType: "8",
    t.YearMonthIntervalType: "m",
    t.CalendarIntervalType: "i",
}


@dataclass(frozen=True)
class _Node:
    """One type of the tree, and what the compiled loops need to know of it and its children."""

    type: t.DataType
    arrow: pa.DataType
    path: str
    kind: str
    digits: int
    children: tuple[_Node, ...] = ()
    kinds: bytes = field(init=False)
    all_digits: bytes = field(init=False)
    paths: list[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", "".join(c.kind for c in self.children).encode())
        object.__setattr__(self, "all_digits", bytes(c.digits for c in self.children))
        object.__setattr__(self, "paths", [c.path for c in self.children])


def _plan(type_: t.DataType, path: str) -> _Node:
    arrow = t.to_arrow_type(type_)
    while isinstance(type_, t.UserDefinedType):
        type_ = type_.sql_type
    children: tuple[_Node, ...] = ()
    digits = 0
    match type_:
        case t.UnknownType(json):
            raise UnsupportedTypeError(
                f"field {path!r} has the type {json}, which this release does not know",
                remedy="The keys, values and stores without that type can still be read",
            )
        case t.DecimalType(digits, _):
            kind = "d" if digits <= 18 else "D"
        case t.StructType(fields):
            kind = "s"
            children = tuple(_plan(f.type, f"{path}.{f.name}" if path else f.name) for f in fields)
        case t.ArrayType(element):
            kind = "s"
            children = (_plan(element, f"{path}[]"),)
        case t.MapType(key, value):
            kind = "s"
            children = (_plan(key, f"{path}.key"), _plan(value, f"{path}.value"))
        case _:
            kind = _KINDS.get(type(type_), "s")
    return _Node(type_, arrow, path, kind, digits, children)


class RowCodec:
    """Decodes and encodes the rows of one schema. It holds no state: threads may share it.

    Errors: UnsupportedTypeError if the schema has a type that is not known; it names the field's full path.
    """

    def __init__(self, struct_type: t.StructType) -> None:
        self._root = _plan(struct_type, "")
        self.arrow_type: Any = self._root.arrow

    def decode(self, data: Any, spans: pa.Buffer) -> pa.StructArray:
        """Rows to Arrow.

        Args:
            data: any C-contiguous bytes-like object of less than 2 GiB that the rows lie in.
            spans: one (offset, size) pair of native int32 for each row; size -1 is a null row.

        Strings are taken as they are: neither Spark nor this function makes sure that they are valid UTF-8.

        Errors: SchemaMismatchError where a row is not one of this schema; its `offset` is that of the row, or of the
        nested value, in `data`.
        """
        buffer = pa.py_buffer(data)
        if spans.address % 4:
            spans = pa.py_buffer(spans.to_pybytes())
        return _read_struct(self._root, buffer, spans)


def _read_struct(node: _Node, data: pa.Buffer, spans: pa.Buffer) -> pa.StructArray:
    count = spans.size // 8
    null_count, validity, fields = unsafe_row.read_fields(
        data, spans, node.kinds, node.all_digits, node.paths, node.path
    )
    children = [_read_field(c, data, count, *f) for c, f in zip(node.children, fields, strict=True)]
    rows: Any = pa.Array.from_buffers(node.arrow, count, [validity], null_count, children=children)
    return rows  # pyarrow's stubs know it as an Array only


def _read_field(
    node: _Node, data: pa.Buffer, count: int, null_count: int, validity: pa.Buffer | None, values: pa.Buffer | None
) -> pa.Array[Any]:
    """One column, of values that stand in Arrow's layout already or whose spans are known."""
    if values is None:
        return pa.nulls(count)
    if node.kind not in "sDi":
        return pa.Array.from_buffers(node.arrow, count, [validity, values], null_count)
    return _read_spans(node, data, values, null_count)


def _read_spans(node: _Node, data: pa.Buffer, spans: pa.Buffer, null_count: int) -> pa.Array[Any]:
    count = spans.size // 8
    if isinstance(node.type, t.StructType):
        return _read_struct(node, data, spans)
    validity = unsafe_values.validity_of(spans, null_count)
    match node.type:
        case t.DecimalType(digits, _):
            buffers = [validity, unsafe_values.read_decimals(data, spans, digits, node.path)]
        case t.CalendarIntervalType():
            buffers = [validity, unsafe_values.read_intervals(data, spans, node.path)]
        case t.VariantType():
            parts = unsafe_values.split_pairs(data, spans, True, node.path)
            children = [
                pa.Array.from_buffers(pa.binary(), count, [None, *unsafe_values.read_bytes(data, part)])
                for part in parts
            ]
            return pa.Array.from_buffers(node.arrow, count, [validity], null_count, children=children)
        case _:
            buffers = [validity, *unsafe_values.read_bytes(data, spans)]
    return pa.Array.from_buffers(node.arrow, count, buffers, null_count)
