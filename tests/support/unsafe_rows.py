"""Schemas and spans of UnsafeRows that are made by hand."""

from __future__ import annotations

import array

import pyarrow as pa

from hdfsstore.codecs import types as t


def spans_of(*pairs: tuple[int, int]) -> pa.Buffer:
    return pa.py_buffer(array.array("i", [number for pair in pairs for number in pair]).tobytes())


def schema(*fields: t.DataType) -> t.StructType:
    return t.StructType(tuple(t.StructField(f"f{i}", type_) for i, type_ in enumerate(fields)))
