"""What a stateful query cannot be: told by name, before anything is written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

from pyspark.sql.dataframe import DataFrame
from pyspark.sql.types import (
    ArrayType,
    CalendarIntervalType,
    DataType,
    MapType,
    StringType,
    StructField,
    StructType,
    VariantType,
    YearMonthIntervalType,
)

from hdfsstore.errors import UnsupportedQueryError

SPARK_RELEASES = ("4.1", "4.2", "4.3")

# Nodes of a logical plan that keep state where they stand on a stream (UnsupportedOperationChecker.scala).
_DEDUPLICATIONS = {"Deduplicate", "DeduplicateWithinWatermark"}
_AGGREGATIONS = {"Aggregate", "Distinct"}
_LIMITS = {"GlobalLimit"}


def check_input(df: Any) -> None:
    """Refuses what groupBy cannot start from.

    Raises:
        TypeError: it is no DataFrame.
        UnsupportedQueryError: it is one of Spark Connect, of a release that has not been tried, no stream, or has a
            column that a Python worker cannot read.
    """
    if type(df).__module__.startswith("pyspark.sql.connect"):
        _refuse(
            "this DataFrame is one of Spark Connect, where a batch cannot be planned from Python",
            "Use a classic session: SparkSession.builder.master(...), without remote(...) or SPARK_REMOTE",
        )
    if not isinstance(df, DataFrame):
        raise TypeError(f"groupBy takes a DataFrame of PySpark, not {type(df).__name__}")
    release = ".".join(df.sparkSession.version.split(".")[:2])
    if release not in SPARK_RELEASES:
        _refuse(
            f"this is Spark {df.sparkSession.version}",
            f"Stateful functions run on Spark {SPARK_RELEASES[0]} to {SPARK_RELEASES[-1]}, where they are tested",
        )
    if not df.isStreaming:
        _refuse(
            "this DataFrame is not a stream, and state is kept between the batches of one",
            "Read it with spark.readStream; for rows at rest df.groupBy(...).applyInPandas does it without state",
        )
    for field in df.schema:
        if any(isinstance(part, YearMonthIntervalType) for part in _parts(field.dataType)):
            _refuse(
                f"the column {field.name!r} has intervals of years and months, which Arrow for Python cannot read",
                "Leave the column out, or cast it: cast(... as int) gives months for an interval month",
            )


def check_key(field: StructField) -> None:
    """Refuses a key that Spark can neither hash nor sort, or whose equality is not that of its bytes.

    Raises:
        UnsupportedQueryError: its type is named.
    """
    for part in _parts(field.dataType):
        if isinstance(part, MapType | VariantType | CalendarIntervalType | YearMonthIntervalType):
            _refuse(
                f"the key {field.name!r} is, or holds, a value of type {part.simpleString()}, by which rows cannot be "
                "grouped",
                "Group by a column or an expression of another type, such as to_json(...) or cast(... as string)",
            )
        if isinstance(part, StringType) and not part.isUTF8BinaryCollation():
            _refuse(
                f"the key {field.name!r} is of type {part.simpleString()}, in which different strings are equal",
                "Group by lower(...), or by collate(..., 'UTF8_BINARY')",
            )


def check_output_mode(outputMode: str) -> None:
    """Refuses modes other than append and update.

    Raises:
        UnsupportedQueryError: complete mode.
        ValueError: it is no output mode.
    """
    if not isinstance(outputMode, str) or outputMode.lower() not in ("append", "update", "complete"):
        raise ValueError(f"outputMode is 'append' or 'update', not {outputMode!r}")
    if outputMode.lower() == "complete":
        _refuse(
            "a stateful function has no complete mode: what it gave for a key in an earlier batch is not kept",
            "Use outputMode 'update', or 'append'",
        )


def stateful_operators(df: DataFrame) -> list[str]:
    """The names of Spark's own stateful operators in the plan of a streaming df."""
    return [name for name, plan in _nodes(df._jdf.queryExecution().analyzed()) if _keeps_state(name, plan)]


def check_upstream(df: DataFrame, output_mode: str, timeout_conf: str) -> None:
    """Refuses stateful operators of Spark before ours whose rows ours would take for something else.

    Deduplications and limits pass on rows as they are. What an aggregation gives in append mode is not late for us.
    Rows of a stream-stream join may be older than the watermark, and only Spark's own operators know by how much.

    Raises:
        UnsupportedQueryError: one of them cannot precede this function; it is named.
    """
    for name in stateful_operators(df):
        if _is_function(name):
            _refuse(
                f"there is a stateful function of Spark ({name}) in this query, before ours",
                "Let one query write what the first function gives, and another one read it",
            )
        if name not in _DEDUPLICATIONS and output_mode != "append":
            _refuse(
                f"there is a stateful operator of Spark ({name}) before ours, which works in append mode only, "
                f"and the output mode is {output_mode}",
                "Use 'append' in the function and in writeStream, or two queries",
            )
        if name == "Join" and timeout_conf == "EventTimeTimeout":
            _refuse(
                "a stream-stream join gives rows that are older than the watermark: under EventTimeTimeout they would "
                "be dropped as late",
                "Use ProcessingTimeTimeout or NoTimeout, or two queries",
            )


def refuse_trigger(name: str) -> NoReturn:
    """Refuses a trigger that has no batches.

    Raises:
        UnsupportedQueryError: always.
    """
    _refuse(
        f"trigger({name}=...) does not run in batches as stateful functions here do",
        "Use trigger(processingTime=...), trigger(availableNow=True) or none at all",
    )


def _parts(data_type: DataType) -> Iterator[DataType]:
    """The type, and all types in it."""
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


def _nodes(plan: Any) -> Iterator[tuple[str, Any]]:
    yield plan.nodeName(), plan
    children = plan.children()
    for i in range(children.size()):
        yield from _nodes(children.apply(i))


def _keeps_state(name: str, plan: Any) -> bool:
    if name == "Join":
        return bool(plan.left().isStreaming() and plan.right().isStreaming())
    known = name in _DEDUPLICATIONS | _AGGREGATIONS | _LIMITS or _is_function(name)
    return known and bool(plan.isStreaming())


def _is_function(name: str) -> bool:
    """FlatMapGroupsWithState, FlatMapGroupsInPandasWithState, TransformWithState, TransformWithStateInPySpark, ..."""
    return name.startswith(("FlatMapGroups", "TransformWithState")) and "WithState" in name


def _refuse(what: str, remedy: str) -> NoReturn:
    raise UnsupportedQueryError(what, remedy=remedy)
