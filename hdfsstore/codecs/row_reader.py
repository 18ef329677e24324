"""Reads UnsafeRows into Arrow. At each node of the tree of types, one compiled loop goes over all rows."""

from __future__ import annotations

import itertools
from collections.abc import Collection
from typing import Any

import pyarrow as pa

from hdfsstore._cext import unsafe_array, unsafe_row, unsafe_values
from hdfsstore.codecs import types as t
from hdfsstore.codecs.row_plan import Node
from hdfsstore.errors import SchemaMismatchError


def read_struct(
    node: Node, data: pa.Buffer, spans: pa.Buffer, needed: Collection[int] | None = None, prefix: bytes = b""
) -> pa.StructArray:
    """Structs; fields that are not needed are null in them. `needed` are their places, None = all.

    Each span begins with the prefix.
    """
    count = spans.size // 8
    null_count, validity, fields = unsafe_row.read_fields(
        data, spans, node.kinds, node.all_digits, node.paths, node.path, prefix
    )
    children = [
        _read_field(c, data, count, *f) if needed is None or i in needed else pa.nulls(count, c.arrow)
        for i, (c, f) in enumerate(zip(node.children, fields, strict=True))
    ]
    return pa.Array.from_buffers(node.arrow, count, [validity], null_count, children=children)


def _read_field(
    node: Node, data: pa.Buffer, count: int, null_count: int, validity: pa.Buffer | None, values: pa.Buffer | None
) -> pa.Array[Any]:
    """One column, from values in Arrow's layout or from the spans of values."""
    if values is None:
        return pa.nulls(count)
    if node.kind not in "sDi":
        return pa.Array.from_buffers(node.arrow, count, [validity, values], null_count)
    return _read_spans(node, data, values, null_count)


def _read_spans(node: Node, data: pa.Buffer, spans: pa.Buffer, null_count: int) -> pa.Array[Any]:
    count = spans.size // 8
    if isinstance(node.type, t.StructType):
        return read_struct(node, data, spans)
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
        case t.ArrayType():
            offsets, elements = _read_elements(node.children[0], data, spans)
            return pa.Array.from_buffers(node.arrow, count, [validity, offsets], null_count, children=[elements])
        case t.MapType():
            return _read_map(node, data, spans, validity, null_count)
        case _:
            buffers = [validity, *unsafe_values.read_bytes(data, spans)]
    return pa.Array.from_buffers(node.arrow, count, buffers, null_count)


def _read_elements(node: Node, data: pa.Buffer, spans: pa.Buffer) -> tuple[pa.Buffer, pa.Array[Any]]:
    offsets, count, nulls, validity, values = unsafe_array.read_elements(data, spans, node.kind, node.digits, node.path)
    return offsets, _read_field(node, data, count, nulls, validity, values)


def _read_map(
    node: Node, data: pa.Buffer, spans: pa.Buffer, validity: pa.Buffer | None, null_count: int
) -> pa.Array[Any]:
    key_spans, value_spans = unsafe_values.split_pairs(data, spans, False, node.path)
    offsets, keys = _read_elements(node.children[0], data, key_spans)
    value_offsets, values = _read_elements(node.children[1], data, value_spans)
    if not offsets.equals(value_offsets) or keys.null_count:
        starts, value_starts = memoryview(offsets).cast("i"), memoryview(value_offsets).cast("i")
        bad = next(
            i
            for i, (start, end) in enumerate(itertools.pairwise(starts))
            if end != value_starts[i + 1] or keys[start:end].null_count
        )
        raise SchemaMismatchError(
            f"field {node.path!r} does not fit the schema: a map has null keys, or not as many keys as values",
            offset=memoryview(spans).cast("i")[2 * bad],
            remedy="Check the schema, or give the one that the state was written with",
        )
    entry = pa.struct([node.arrow.key_field, node.arrow.item_field])
    entries = pa.Array.from_buffers(entry, len(keys), [None], 0, children=[keys, values])
    return pa.Array.from_buffers(node.arrow, spans.size // 8, [validity, offsets], null_count, children=[entries])
