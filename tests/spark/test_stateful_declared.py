"""Compares schemas with special rules in Spark with Spark's applyInPandasWithState."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkNotImplementedError
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.state import GroupState

from hdfsstore.errors import SchemaMismatchError, UnsupportedQueryError
from hdfsstore.spark import groupBy

TIME_CONF = "spark.sql.timeType.enabled"


def stream(spark: SparkSession, folder: Path) -> DataFrame:
    """Two keys, "0" and "1"."""
    spark.range(3).selectExpr("cast(id % 2 as string) k", "id v").coalesce(1).write.parquet(str(folder))
    return spark.readStream.schema("k string, v long").parquet(str(folder))


def giving(value: Any) -> Callable[..., Iterator[pd.DataFrame]]:
    def func(key: tuple[Any, ...], _frames: Any, state: GroupState) -> Iterator[pd.DataFrame]:
        state.update((None,))
        yield pd.DataFrame({"k": [repr(key)], "n": [value]})

    return func


def ours(df: DataFrame, *keys: str | Column) -> Any:
    return groupBy(df, *keys)


def run(stream: Any, folder: Path) -> tuple[Any, list[Row]]:
    """The schema and the rows of the output of all batches."""
    found: list[tuple[Any, list[Row]]] = []
    writer = stream.writeStream.outputMode("update").option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.foreachBatch(lambda rows, _: found.append((rows.schema, rows.collect()))).start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    return found[0][0], sorted((row for _, rows in found for row in rows), key=repr)


@pytest.mark.parametrize(
    ("output", "value"),
    [
        ("k string not null, n long not null", None),
        ("k string, n array<struct<a: long not null, b: map<string, long>>> not null", [{"a": None, "b": {"x": 1}}]),
    ],
)
def test_not_null_in_the_output_is_as_in_spark(spark: SparkSession, tmp_path: Path, output: str, value: Any) -> None:
    df = stream(spark, tmp_path / "rows")
    arguments = (giving(value), output, "n long", "update", "NoTimeout")
    theirs = run(df.groupBy("k").applyInPandasWithState(*arguments), tmp_path / "theirs")
    assert run(ours(df, "k").applyInPandasWithState(*arguments), tmp_path / "ours") == theirs
    assert theirs[1][0].n == value or theirs[1][0].n[0].a is None


def test_not_null_in_the_output_of_the_other_functions(spark: SparkSession, tmp_path: Path) -> None:
    df = stream(spark, tmp_path / "rows")
    output = "k string, n long not null"
    tables = ours(df, "k").mapInArrowWithState(
        lambda rows, _: pa.table({"k": rows["k"], "n": pa.nulls(len(rows), pa.int64())}),
        *(output, "n long", "update", "NoTimeout"),
    )
    assert [row.n for row in run(tables, tmp_path / "arrow")[1]] == [None] * 3
    rows = ours(df, "k").mapWithState(lambda key, *_: [(key[0], None)], output)
    with pytest.raises(Exception, match=r"for the key \(k='.'\).* 'n' is not nullable") as caught:
        run(rows, tmp_path / "rows of python")
    assert SchemaMismatchError.__name__ in str(caught.value)


@pytest.mark.parametrize("data_type", ["char(3)", "varchar(3)", "array<char(3)>", "interval year to month", "interval"])
def test_output_that_spark_refuses_is_refused_when_the_query_is_put_together(
    spark: SparkSession, tmp_path: Path, data_type: str
) -> None:
    df = stream(spark, tmp_path / "rows")
    rest = (f"k string, n {data_type}", "n long", "update", "NoTimeout")
    with pytest.raises(PySparkNotImplementedError):
        df.groupBy("k").applyInPandasWithState(giving(None), *rest)
    for function in (ours(df, "k").applyInPandasWithState, ours(df, "k").mapInArrowWithState):
        with pytest.raises(UnsupportedQueryError, match="the output column 'n' is of type"):
            function(giving(None), *rest)
    with pytest.raises(UnsupportedQueryError, match="the output column 'n' is of type"):
        ours(df, "k").mapWithState(giving(None), rest[0])


def test_a_state_of_months_is_refused_when_the_query_is_put_together(spark: SparkSession, tmp_path: Path) -> None:
    df = stream(spark, tmp_path / "rows")
    for function in (ours(df, "k").applyInPandasWithState, ours(df, "k").mapWithState):
        with pytest.raises(UnsupportedQueryError, match="the state's column 'm' is of type interval year to month"):
            function(giving(None), "k string, n long", "m interval year to month", "update", "NoTimeout")


@pytest.mark.parametrize("where", ["column", "key", "output", "state"])
def test_times_without_the_conf_fail_at_the_start_as_in_spark(spark: SparkSession, tmp_path: Path, where: str) -> None:
    spark.conf.set(TIME_CONF, "true")
    try:
        rows = stream(spark, tmp_path / "rows").withColumn("t", f.expr("time'01:02:03'"))
    finally:
        spark.conf.unset(TIME_CONF)
    df = rows if where in ("column", "key") else rows.drop("t")
    key = "t" if where == "key" else "k"
    value = datetime.time(1, 2) if where == "output" else 1
    arguments = (
        *(giving(value), f"k string, n {'time(6)' if where == 'output' else 'long'}"),
        *(f"n {'time(6)' if where == 'state' else 'long'}", "update", "NoTimeout"),
    )
    query = ours(df, key).applyInPandasWithState(*arguments)
    with pytest.raises((AnalysisException, UnsupportedQueryError), match=r"TIME|timeType"):
        run(query, tmp_path / "off")
    spark.conf.set(TIME_CONF, "true")
    try:
        theirs = run(df.groupBy(key).applyInPandasWithState(*arguments), tmp_path / "theirs")
        assert run(query, tmp_path / "ours") == theirs
    finally:
        spark.conf.unset(TIME_CONF)


def test_a_key_may_be_a_struct_of_nothing(spark: SparkSession, tmp_path: Path) -> None:
    df = stream(spark, tmp_path / "rows").withColumn("e", f.expr("named_struct()"))
    arguments = (giving(1), "k string, n long", "n long", "update", "NoTimeout")
    theirs = run(df.groupBy("e").applyInPandasWithState(*arguments), tmp_path / "theirs")
    assert run(ours(df, "e").applyInPandasWithState(*arguments), tmp_path / "ours") == theirs
    rows = ours(df, "e").mapWithState(lambda key, rows, _: [(repr(key), len(list(rows)))], "k string, n long")
    assert run(rows, tmp_path / "rows of python")[1] == [Row(k="(Row(),)", n=3)]
