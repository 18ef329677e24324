"""Hypothesis strategies of Spark types and of the Arrow rows that they hold."""

from __future__ import annotations

import datetime as dt
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from hdfsstore.codecs import types as t
from hdfsstore.codecs.arrow_types import to_arrow_type

WIDE = Context(prec=76)
INTS = {t.ByteType: 8, t.ShortType: 16, t.IntegerType: 32, t.LongType: 64, t.YearMonthIntervalType: 32}


def int_of(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


decimals = st.integers(1, 38).flatmap(lambda p: st.builds(t.DecimalType, st.just(p), st.integers(0, p)))
# What a DataFrame can be made of from Arrow: without voids, for pyarrow's cast of a nested one, which PySpark calls,
# makes an invalid array.
plain_leaves = st.one_of(
    st.sampled_from(
        [
            t.BooleanType(),
            t.ByteType(),
            t.ShortType(),
            t.IntegerType(),
            t.LongType(),
            t.FloatType(),
            t.DoubleType(),
            t.StringType(),
            t.BinaryType(),
            t.DateType(),
            t.TimestampType(),
            t.TimestampNTZType(),
            t.DayTimeIntervalType(),
            t.TimeType(),
        ]
    ),
    decimals,
)
all_leaves = st.one_of(
    plain_leaves,
    st.sampled_from(
        [
            t.NullType(),
            t.YearMonthIntervalType(),
            t.CalendarIntervalType(),
            t.VariantType(),
            t.StringType("UTF8_LCASE"),
            t.CharType(3),
        ]
    ),
)


def structs(types: st.SearchStrategy[t.DataType], min_size: int = 0) -> st.SearchStrategy[t.StructType]:
    fields = st.builds(t.StructField, st.sampled_from("ab"), types)
    return st.builds(t.StructType, st.lists(fields, min_size=min_size, max_size=4).map(tuple))


def schemas(leaves: st.SearchStrategy[t.DataType], min_size: int = 0) -> st.SearchStrategy[t.StructType]:
    """Structs of up to four fields, with names that repeat, nested."""

    def nest(types: st.SearchStrategy[t.DataType]) -> st.SearchStrategy[t.DataType]:
        keys = leaves.filter(lambda leaf: not isinstance(leaf, (t.NullType, t.VariantType, t.CalendarIntervalType)))
        return st.one_of(st.builds(t.ArrayType, types), st.builds(t.MapType, keys, types), structs(types, min_size))

    return structs(st.recursive(leaves, nest, max_leaves=4), min_size)


def values(type_: t.DataType) -> st.SearchStrategy[Any]:
    """Values as pyarrow takes them; structs as lists of values, for their fields' names may repeat."""
    match type_:
        case t.NullType():
            return st.none()
        case t.BooleanType():
            return st.booleans()
        case t.FloatType():
            return st.floats(width=32)
        case t.DoubleType():
            return st.floats()
        case t.StringType() | t.CharType():
            return st.text(max_size=20)
        case t.BinaryType():
            return st.binary(max_size=70)
        case t.DateType():
            return st.dates()
        case t.TimestampType():
            return st.datetimes(timezones=st.just(dt.UTC))
        case t.TimestampNTZType():
            return st.datetimes()
        case t.TimeType():
            return st.integers(0, 86_400_000_000 - 1).map(lambda us: us * 1000)
        case t.DayTimeIntervalType():
            return int_of(64).map(lambda us: us)
        case t.CalendarIntervalType():
            micros = st.integers(-(2**63) // 1000 + 1, 2**63 // 1000 - 1)
            return st.tuples(int_of(32), int_of(32), micros.map(lambda us: us * 1000)).map(pa.MonthDayNano)
        case t.YearMonthIntervalType():
            return int_of(32).map(lambda months: pa.MonthDayNano((months, 0, 0)))
        case t.DecimalType(precision, scale):
            bound = 10**precision - 1
            return st.integers(-bound, bound).map(lambda unscaled: Decimal(unscaled).scaleb(-scale, context=WIDE))
        case t.VariantType():
            return st.fixed_dictionaries(
                {"value": st.binary(min_size=1, max_size=9), "metadata": st.binary(max_size=9)}
            )
        case t.ArrayType(element):
            return st.lists(nullable(element), max_size=70 if isinstance(element, t.BooleanType) else 5)
        case t.MapType(key, value):
            entry = st.tuples(values(key), nullable(value))
            return st.lists(entry, max_size=3, unique_by=lambda pair: repr(pair[0]))
        case t.StructType(fields):
            return st.tuples(*[nullable(f.type) for f in fields])
    return int_of(INTS[type(type_)])


def nullable(type_: t.DataType) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), values(type_))


def to_arrow(type_: t.DataType, column: list[Any]) -> pa.Array:
    """A column of `values`. pa.array cannot do it for structs whose fields' names repeat."""
    arrow = to_arrow_type(type_)
    mask = pa.array([value is None for value in column], pa.bool_())
    match type_:
        case t.StructType(fields):
            children = [
                to_arrow(f.type, [None if value is None else value[i] for value in column])
                for i, f in enumerate(fields)
            ]
            validity = pa.array([value is not None for value in column], pa.bool_()).buffers()[1]
            return pa.Array.from_buffers(arrow, len(column), [validity], children=children)
        case t.ArrayType(element):
            return pa.ListArray.from_arrays(
                offsets(column), to_arrow(element, flatten(column)), type=arrow, mask=mask if len(mask) else None
            )
        case t.MapType(key, value):
            pairs = flatten(column)
            keys, items = to_arrow(key, [k for k, _ in pairs]), to_arrow(value, [v for _, v in pairs])
            entries = pa.Array.from_buffers(
                pa.struct([arrow.key_field, arrow.item_field]), len(pairs), [None], children=[keys, items]
            )
            validity = pa.array([value is not None for value in column], pa.bool_()).buffers()[1]
            return pa.Array.from_buffers(
                arrow, len(column), [validity, offsets(column).buffers()[1]], children=[entries]
            )
    return pa.array(column, arrow)


def offsets(column: list[Any]) -> pa.Array:
    ends = [0]
    for value in column:
        ends.append(ends[-1] + len(value or ()))
    return pa.array(ends, pa.int32())


def flatten(column: list[Any]) -> list[Any]:
    return [element for value in column for element in value or ()]


def with_unique_names(type_: t.DataType) -> Any:
    """The type with its structs' fields named by their positions."""
    match type_:
        case t.StructType(fields):
            return t.StructType(tuple(t.StructField(f"f{i}", with_unique_names(f.type)) for i, f in enumerate(fields)))
        case t.ArrayType(element):
            return t.ArrayType(with_unique_names(element))
        case t.MapType(key, value):
            return t.MapType(with_unique_names(key), with_unique_names(value))
    return type_


@st.composite
def tables(
    draw: st.DrawFn,
    leaves: st.SearchStrategy[t.DataType] = all_leaves,
    min_size: int = 0,
    null_rows: bool = True,
    unique_names: bool = False,
) -> tuple[t.StructType, pa.StructArray]:
    schema = draw(schemas(leaves, min_size))
    if unique_names:
        schema = with_unique_names(schema)
    rows = draw(st.lists(nullable(schema) if null_rows else values(schema), max_size=5))
    return schema, to_arrow(schema, rows)
