"""Rows that Spark's UnsafeProjection wrote: what we decode is what they were made of, and encoded again they are equal
to the byte."""

from __future__ import annotations

import array
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from pyspark.sql import DataFrame, SparkSession

from hdfsstore.codecs import types as t
from hdfsstore.codecs.arrow_types import from_arrow_schema, to_arrow_schema
from hdfsstore.codecs.unsafe_row import RowCodec
from tests.support.row_strategies import plain_leaves, tables
from tests.support.rows import same


def unsafe_rows(frame: DataFrame) -> tuple[bytes, pa.Buffer]:
    """The rows' bytes as Spark holds them, one after the other, and their spans."""
    jvm: Any = frame.sparkSession._jvm
    written = jvm.java.io.ByteArrayOutputStream()
    numbers = []
    for row in frame._jdf.queryExecution().executedPlan().executeCollect():
        numbers += [written.size(), row.getSizeInBytes()]
        written.write(row.getBytes(), 0, row.getSizeInBytes())
    return bytes(written.toByteArray()), pa.py_buffer(array.array("i", numbers).tobytes())


def cut(data: bytes, spans: pa.Buffer) -> list[bytes]:
    numbers = array.array("i", spans.to_pybytes())
    return [data[at : at + size] for at, size in zip(numbers[::2], numbers[1::2], strict=True)]


@given(tables(plain_leaves, min_size=1, null_rows=False, unique_names=True))
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_rows_of_any_schema(spark: SparkSession, table: tuple[t.StructType, pa.StructArray]) -> None:
    schema, rows = table
    codec = RowCodec(schema)
    data, spans = unsafe_rows(spark.createDataFrame(pa.Table.from_struct_array(rows)))
    assert same(codec.decode(data, spans), rows)
    assert codec.encode(rows).to_pylist() == cut(data, spans)


# One partition a row: Spark does not clear the 16 bytes that it keeps for a null calendar interval, so that they hold
# what the row before had in the buffer.
ROWS_ALONE = 7

EXPRESSIONS = [
    "make_interval(0, 0, 0, cast(id as int), 0, 0, id / 8)",
    "make_interval(-cast(id as int), 1)",
    "make_ym_interval(cast(id as int), -5)",
    "make_dt_interval(cast(id as int), 1, 2, -3.5)",
    "cast(id * -1e30 as decimal(38, 2))",
    "cast(id - 5 as decimal(19, 0))",
    "parse_json(concat('{\"a\": [', id, ', null, \"x\"]}'))",
    "cast(id as string) collate UTF8_LCASE",
    "timestampadd(microsecond, id, timestamp_ntz'1969-12-31 23:59:59')",
    "cast(if(id % 2 = 0, '-0.0', 'NaN') as float)",
    "cast(if(id % 2 = 0, '-0.0', 'NaN') as double)",
    "null",
]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_types_that_arrow_does_not_bring_to_spark(spark: SparkSession, expression: str) -> None:
    value = f"if(id % 3 = 1, null, {expression})"
    frame = spark.range(0, 7, 1, ROWS_ALONE).selectExpr(
        f"{value} v",
        f"{expression} never_null",
        f"array({value}, {expression}, {value}) in_array",
        f"named_struct('x', {value}, 'x', id) in_struct",
        f"map(id, {value}, id + 100, {expression}) in_map",
        f"if(id % 2 = 0, null, array(named_struct('y', array({value})))) deep",
    )
    codec = RowCodec(t.parse_type(frame._jdf.schema().json()))
    data, spans = unsafe_rows(frame)
    decoded = codec.decode(data, spans)
    decoded.validate(full=True)
    assert codec.encode(decoded).to_pylist() == cut(data, spans)
    texts = [row[0] for row in frame.selectExpr("cast(v as string)").collect()]
    assert [text is None for text in texts] == decoded.field(0).is_null().to_pylist()


def test_space_of_a_null_interval_is_not_cleared(spark: SparkSession) -> None:
    """The one place where a row that Spark wrote is not encoded again to the byte: we write zeros there."""
    frame = spark.range(0, 2, 1, 1).selectExpr("if(id = 1, null, make_interval(1, 2, 0, 3)) i", "id")
    codec = RowCodec(t.parse_type(frame._jdf.schema().json()))
    data, spans = unsafe_rows(frame)
    decoded = codec.decode(data, spans)
    assert decoded.field(0).to_pylist() == [pa.MonthDayNano((14, 3, 0)), None]
    first, second = cut(data, spans)
    assert second[24:] == first[24:] != bytes(16)
    assert codec.encode(decoded).to_pylist() == [first, second[:24] + bytes(16)]


def test_values_are_those_that_spark_shows(spark: SparkSession) -> None:
    frame = spark.sql(
        "select make_interval(1, 2, 0, 3, 0, 0, 4.5) i, interval '1-2' year to month ym, "
        "interval '1 02:03:04.5' day to second dt, time'00:00:01.5' tm, timestamp_ntz'1970-01-02 00:00:00' tn"
    )
    codec = RowCodec(t.parse_type(frame._jdf.schema().json()))
    row = codec.decode(*unsafe_rows(frame)).flatten()
    assert [column.cast(pa.int64())[0].as_py() for column in row[2:]] == [93_784_500_000, 1_500_000_000, 86_400_000_000]
    assert row[0].to_pylist() == [pa.MonthDayNano((14, 3, 4_500_000_000))]
    assert row[1].to_pylist() == [pa.MonthDayNano((14, 0, 0))]


@pytest.mark.parametrize(
    "ddl",
    [
        "select 'x' collate UTF8_LCASE a, array('x' collate UNICODE_CI) b, map('k', named_struct('n', 1)) c",
        "select time'12:13:14' a, make_interval(1) b, interval '1' day c, null d, parse_json('1') e, 1.5d f",
        "select cast(1 as decimal(38, 10)) a, interval '1' year b, timestamp_ntz'2020-01-01 00:00:00' c, x'00' d",
    ],
)
def test_schemas(spark: SparkSession, ddl: str) -> None:
    """Spark's JSON comes back as it was, and by way of Arrow too."""
    text = spark.sql(ddl)._jdf.schema().json()
    schema = t.parse_type(text)
    assert t.to_json(schema) == text
    assert isinstance(schema, t.StructType)
    assert from_arrow_schema(to_arrow_schema(schema)) == schema


def test_arrow_types_are_those_of_spark(spark: SparkSession) -> None:
    frame = spark.sql(
        "select 'x' a, array(1) b, map('k', named_struct('n', 1)) c, time'12:13:14' t, interval '1' day d, null n, "
        "parse_json('1') v, current_timestamp() ts, timestamp_ntz'2020-01-01 00:00:00' tn, 1.5 e, x'00' bin"
    )
    schema = t.parse_type(frame._jdf.schema().json())
    assert isinstance(schema, t.StructType)
    assert to_arrow_schema(schema).equals(frame.toArrow().schema)
