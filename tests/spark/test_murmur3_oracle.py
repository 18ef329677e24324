"""Our Murmur3 beside Spark's own hash() and shuffle, on rows that hypothesis makes."""

from __future__ import annotations

import json
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType as SparkStructType

from hdfsstore.codecs.arrow_types import to_arrow_type
from hdfsstore.codecs.murmur3 import hash_rows, partition_ids
from hdfsstore.codecs.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CalendarIntervalType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    TimeType,
    YearMonthIntervalType,
    to_json,
)

NUM_ROWS = 30
NUM_PARTITIONS = 7
MICROSECONDS_A_DAY = 86_400_000_000


def signed(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    limit = 10**precision - 1
    return st.integers(-limit, limit).map(lambda unscaled: Decimal(unscaled).scaleb(-scale, Context(prec=precision)))


ATOMIC: dict[DataType, st.SearchStrategy[Any]] = {
    NullType(): st.none(),
    BooleanType(): st.booleans(),
    ByteType(): signed(8),
    ShortType(): signed(16),
    IntegerType(): signed(32),
    LongType(): signed(64),
    FloatType(): st.floats(width=32),
    DoubleType(): st.floats(),
    DecimalType(9, 2): decimals(9, 2),
    DecimalType(18, 0): decimals(18, 0),
    DecimalType(19, 5): decimals(19, 5),
    DecimalType(38, 38): decimals(38, 38),
    StringType(): st.text(st.characters(exclude_categories=["Cs"])),
    BinaryType(): st.binary(max_size=40),
    DateType(): signed(32),
    TimestampType(): signed(64),
    TimestampNTZType(): signed(64),
    DayTimeIntervalType(): signed(64),
    TimeType(6): st.integers(0, MICROSECONDS_A_DAY - 1).map(lambda microseconds: microseconds * 1000),
}


def struct_of(types: list[DataType]) -> StructType:
    return StructType(tuple(StructField(f"f{i}", type_) for i, type_ in enumerate(types)))


# No void inside: pyarrow 26 makes an invalid array when PySpark casts list<null> on its way to Spark.
TYPES = st.recursive(
    st.sampled_from([type_ for type_ in ATOMIC if type_ != NullType()]),
    lambda types: types.map(ArrayType) | st.lists(types, min_size=1, max_size=3).map(struct_of),
    max_leaves=4,
)


def values_of(type_: DataType) -> st.SearchStrategy[Any]:
    match type_:
        case ArrayType(element):
            values: st.SearchStrategy[Any] = st.lists(values_of(element), max_size=4)
        case StructType(fields):
            values = st.fixed_dictionaries({field.name: values_of(field.type) for field in fields})
        case _:
            values = ATOMIC[type_]
    return st.none() | values


def rows_of(struct_type: StructType) -> st.SearchStrategy[pa.StructArray]:
    columns = [st.lists(values_of(f.type), min_size=NUM_ROWS, max_size=NUM_ROWS) for f in struct_type.fields]
    return st.tuples(*columns).map(
        lambda columns: pa.StructArray.from_arrays(
            [pa.array(c, to_arrow_type(f.type)) for c, f in zip(columns, struct_type.fields, strict=True)],
            [f.name for f in struct_type.fields],
        )
    )


@st.composite
def typed_rows(draw: st.DrawFn) -> tuple[StructType, pa.StructArray]:
    struct_type = struct_of(draw(st.lists(TYPES, min_size=4, max_size=6)))
    return struct_type, draw(rows_of(struct_type))


def data_frame(spark: SparkSession, rows: pa.StructArray, struct_type: StructType) -> DataFrame:
    schema = SparkStructType.fromJson(json.loads(to_json(struct_type)))
    return compiled(spark.createDataFrame(pa.Table.from_struct_array(rows), schema))


def compiled(local: DataFrame) -> DataFrame:
    """The same rows in the same order, which Spark does not take for a local relation any more.

    On a local relation its optimizer interprets the expressions; the plan of a query, whose partitions are the ones to
    meet, hashes in generated code, which is written apart.
    """
    return local.coalesce(1)


def check_hashes(spark: SparkSession, rows: pa.StructArray, struct_type: StructType) -> None:
    """Compares the hash of each field alone, of all fields, and the partition that follows from that."""
    names = [field.name for field in struct_type.fields]
    every = f"hash({', '.join(names)})"
    said = (
        data_frame(spark, rows, struct_type)
        .selectExpr(*(f"hash({name}) as {name}" for name in names), every, f"pmod({every}, {NUM_PARTITIONS})")
        .toArrow()
        .combine_chunks()
    )
    for i, field in enumerate(struct_type.fields):
        alone = pa.StructArray.from_arrays([rows.field(i)], [field.name])
        assert said.column(i).to_pylist() == hash_rows(alone, StructType((field,))).to_pylist(), field
    assert said.column(len(names)).to_pylist() == hash_rows(rows, struct_type).to_pylist()
    assert said.column(len(names) + 1).to_pylist() == partition_ids(rows, struct_type, NUM_PARTITIONS).to_pylist()


# Shrinking would run hundreds of Spark jobs: a failure shows its batch as it was found.
live = settings(
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)


def test_the_hash_compared_with_is_that_of_compiled_code(spark: SparkSession) -> None:
    frame = compiled(spark.createDataFrame(pa.table({"f0": [1]}))).selectExpr("hash(f0)")
    assert frame._jdf.queryExecution().executedPlan().toString().startswith("*(1) Project [hash(f0")


@settings(live, max_examples=8)
@given(rows=rows_of(struct_of(list(ATOMIC))))
def test_every_atomic_type_hashes_as_in_spark(spark: SparkSession, rows: pa.StructArray) -> None:
    check_hashes(spark, rows, struct_of(list(ATOMIC)))


@settings(live, max_examples=12)
@given(typed_rows())
def test_nested_types_hash_as_in_spark(spark: SparkSession, typed: tuple[StructType, pa.StructArray]) -> None:
    struct_type, rows = typed
    check_hashes(spark, rows, struct_type)


@settings(live, max_examples=5)
@given(
    st.lists(
        st.none() | st.tuples(signed(32), signed(32), st.integers(-(10**15), 10**15)),
        min_size=NUM_ROWS,
        max_size=NUM_ROWS,
    )
)
def test_intervals_hash_as_in_spark(spark: SparkSession, parts: list[tuple[int, int, int] | None]) -> None:
    # Spark takes neither kind of interval from Arrow, so it makes them of their parts.
    table = pa.table(
        {
            "months": pa.array([p and p[0] for p in parts], pa.int32()),
            "days": pa.array([p and p[1] for p in parts], pa.int32()),
            "seconds": pa.array([p and Decimal(p[2]).scaleb(-6) for p in parts], pa.decimal128(18, 6)),
        }
    )
    calendar = "make_interval(0, months, 0, days, 0, 0, seconds)"
    year_month = "make_ym_interval(0, months)"
    said = (
        compiled(spark.createDataFrame(table))
        .selectExpr(
            f"hash({calendar}, array({calendar}, null)) as calendar",
            f"hash({year_month}, array({year_month}, null)) as year_month",
        )
        .toArrow()
    )
    for name, element_type, values in [
        ("calendar", CalendarIntervalType(), [p and (p[0], p[1], p[2] * 1000) for p in parts]),
        ("year_month", YearMonthIntervalType(), [p and (p[0], 0, 0) for p in parts]),
    ]:
        struct_type = struct_of([element_type, ArrayType(element_type)])
        rows = pa.StructArray.from_arrays(
            [
                pa.array(values, pa.month_day_nano_interval()),
                pa.array([[v, None] for v in values], pa.list_(pa.month_day_nano_interval())),
            ],
            ["f0", "f1"],
        )
        assert said[name].to_pylist() == hash_rows(rows, struct_type).to_pylist()


@pytest.mark.parametrize("collation", ["UTF8_BINARY", "UTF8_BINARY_RTRIM"])
def test_a_shuffle_puts_collated_strings_where_we_say(spark: SparkSession, collation: str) -> None:
    texts = ["", " ", "   ", "a", "a ", " a", "a\t", "Straße ", "straße", "0123456789 " * 3, None]
    struct_type = struct_of([StringType(collation), ArrayType(StringType(collation))])
    rows = pa.StructArray.from_arrays([pa.array(texts), pa.array([[t, "x "] for t in texts])], ["f0", "f1"])
    said = (
        data_frame(spark, rows, struct_type)
        .repartition(101, "f0", "f1")
        .selectExpr("f0", "spark_partition_id() as partition", "hash(f0, f1) as hash")
        .collect()
    )
    ours = zip(
        texts,
        partition_ids(rows, struct_type, 101).to_pylist(),
        hash_rows(rows, struct_type).to_pylist(),
        strict=True,
    )
    assert sorted(map(repr, ours)) == sorted(repr(tuple(row)) for row in said)


@pytest.mark.parametrize(
    ("value", "condition"),
    [("map(1, 2)", "HASH_MAP_TYPE"), ("parse_json('1')", "HASH_VARIANT_TYPE")],
)
def test_spark_refuses_what_we_refuse(spark: SparkSession, value: str, condition: str) -> None:
    for nested in (value, f"array({value})", f"struct({value})"):
        with pytest.raises(Exception, match=rf"\[DATATYPE_MISMATCH\.{condition}\]"):
            spark.sql(f"select hash({nested})")
