"""Rows of values that hypothesis makes, and Spark's toArrow takes."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import strategies as st

from hdfsstore.codecs.types import ArrayType, DataType, MapType, StructField, StructType
from tests.support.row_strategies import plain_leaves, schemas, to_arrow
from tests.support.row_strategies import values as row_values


def distinct(type_: DataType) -> DataType:
    """The type with no field name twice in a struct, as toArrow wants it."""
    match type_:
        case StructType(fields):
            return StructType(tuple(StructField(f"{f.name}{i}", distinct(f.type)) for i, f in enumerate(fields)))
        case ArrayType(element):
            return ArrayType(distinct(element))
        case MapType(key, value):
            return MapType(distinct(key), distinct(value))
    return type_


@st.composite
def value_tables(draw: st.DrawFn) -> tuple[StructType, pa.StructArray]:
    """The type of some values, and the values."""
    value_type = draw(schemas(plain_leaves, min_size=1).map(distinct))
    assert isinstance(value_type, StructType)
    return value_type, to_arrow(value_type, draw(st.lists(row_values(value_type), min_size=1, max_size=8)))
