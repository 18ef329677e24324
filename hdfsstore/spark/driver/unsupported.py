"""Refuses queries that hdfsstore cannot run, before anything is written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

from pyspark.sql import SparkSession
from pyspark.sql.dataframe import DataFrame
from pyspark.sql.types import (
    ArrayType,
    CalendarIntervalType,
    DataType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimeType,
    VariantType,
    YearMonthIntervalType,
)

from hdfsstore.errors import UnsupportedQueryError

SPARK_RELEASES = ("4.1", "4.2", "4.3")
_TIME_CONF = "spark.sql.timeType.enabled"


def check_input(df: Any) -> None:
    """Refuses input that groupBy cannot take.

    Raises:
        TypeError: it is not a DataFrame.
        UnsupportedQueryError: it is a DataFrame of Spark Connect or of an untested release, it is not a stream, or it
            has a column that a Python worker cannot read.
    """
    if type(df).__module__.startswith("pyspark.sql.connect"):
        refuse(
            "this is a DataFrame of Spark Connect, and hdfsstore cannot plan a batch there",
            "Use a classic session: SparkSession.builder.master(...), without remote(...) or SPARK_REMOTE",
        )
    if not isinstance(df, DataFrame):
        raise TypeError(f"groupBy takes a DataFrame of PySpark, not {type(df).__name__}")
    release = ".".join(df.sparkSession.version.split(".")[:2])
    if release not in SPARK_RELEASES:
        refuse(
            f"this is Spark {df.sparkSession.version}",
            f"Stateful functions run on Spark {SPARK_RELEASES[0]} to {SPARK_RELEASES[-1]}, where they are tested",
        )
    if not df.isStreaming:
        refuse(
            "this DataFrame is not a stream, and only a stream has batches between which state is kept",
            "Read it with spark.readStream; without a stream, use df.groupBy(...).applyInPandas, which has no state",
        )
    for field in df.schema:
        if holds_type(field.dataType, YearMonthIntervalType):
            refuse(
                f"the column {field.name!r} has intervals of years and months, which Arrow for Python cannot read",
                "Leave the column out, or cast it: cast(... as int) gives months for an interval month",
            )


def check_key(field: StructField) -> None:
    """Refuses a key that Spark can neither hash nor sort, or whose equal values may have different bytes.

    Raises:
        UnsupportedQueryError: the message names the type.
    """
    for part in _parts(field.dataType):
        if isinstance(part, MapType | VariantType | CalendarIntervalType | YearMonthIntervalType):
            refuse(
                f"the key {field.name!r} is, or holds, a value of type {part.simpleString()}, by which Spark cannot "
                "group rows",
                "Group by a column or an expression of another type, such as to_json(...) or cast(... as string)",
            )
        if isinstance(part, StringType) and not part.isUTF8BinaryCollation():
            refuse(
                f"the key {field.name!r} is of type {part.simpleString()}, in which different strings are equal",
                "Group by lower(...), or by collate(..., 'UTF8_BINARY')",
            )


def check_output_mode(outputMode: str) -> None:
    """Refuses modes other than append and update.

    Raises:
        UnsupportedQueryError: it is the complete mode.
        ValueError: it is not an output mode.
    """
    if not isinstance(outputMode, str) or outputMode.lower() not in ("append", "update", "complete"):
        raise ValueError(f"outputMode is 'append' or 'update', not {outputMode!r}")
    if outputMode.lower() == "complete":
        refuse(
            "a stateful function has no complete mode, because the output of earlier batches is not kept",
            "Use outputMode 'update', or 'append'",
        )


def refuse_trigger(name: str) -> NoReturn:
    """Refuses a trigger without batches.

    Raises:
        UnsupportedQueryError: always.
    """
    refuse(
        f"trigger({name}=...) has no batches, and stateful functions run in batches",
        "Use trigger(processingTime=...), trigger(availableNow=True) or no trigger",
    )


def check_time_type(spark: SparkSession, *schemas: StructType) -> None:
    """Refuses columns of type TIME if the session does not enable it. Spark, too, checks this when a query starts.

    Raises:
        UnsupportedQueryError: the message names the column.
    """
    if (spark.conf.get(_TIME_CONF) or "").lower() == "true":
        return
    for schema in schemas:
        for field in schema:
            if holds_type(field.dataType, TimeType):
                refuse(
                    f"the column {field.name!r} is of type {field.dataType.simpleString()}, and {_TIME_CONF} is false",
                    f"Set {_TIME_CONF} to true, or declare string",
                )


def holds_type(data_type: DataType, kind: type[DataType]) -> bool:
    """Whether a type is of that kind, or has one of that kind in it."""
    return any(isinstance(part, kind) for part in _parts(data_type))


def _parts(data_type: DataType) -> Iterator[DataType]:
    """The type and all types in it."""
    yield data_type
    inner: list[DataType] = []
    if isinstance(data_type, StructType):
        inner = [field.dataType for field in data_type]
    elif isinstance(data_type, ArrayType):
        inner = [data_type.elementType]
    elif isinstance(data_type, MapType):
        inner = [data_type.keyType, data_type.valueType]
    for part in inner:
        yield from _parts(part)


def refuse(what: str, remedy: str) -> NoReturn:
    """Raises an UnsupportedQueryError."""
    raise UnsupportedQueryError(what, remedy=remedy)
