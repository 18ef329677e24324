"""Puts Spark's own operators before ours: stateful ones are found, stateless ones pass, unknown ones are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from hdfsstore import UnsupportedQueryError
from hdfsstore.spark.driver import upstream_operators
from hdfsstore.spark.driver.upstream_operators import check_upstream, stateful_operators

STATELESS: list[Callable[[DataFrame], DataFrame]] = [
    lambda df: df.where("n > 1").select("user", F.udf(lambda n: n)("n")).na.fill("x"),
    lambda df: df.union(df).repartition(3).coalesce(1).repartition("user"),
    lambda df: df.mapInPandas(lambda frames: frames, df.schema).mapInArrow(lambda batches: batches, df.schema),
    lambda df: df.groupBy("user").applyInPandas(lambda frame: frame, df.schema),
    lambda df: df.melt(["user"], ["n"], "name", "value").observe("seen", F.count("*").alias("rows")),
    lambda df: df.hint("rebalance").withColumn("time", F.timestamp_seconds("n")).withWatermark("time", "1 second"),
    lambda df: df.join(at_rest(df, "user string, m long").groupBy("user").count(), "user"),
    lambda df: df.where(F.col("user").isin("ann")).sparkSession.sql("SELECT * FROM {df}, explode(array(1, 2))", df=df),
    *(
        lambda df, query=query: df.sparkSession.sql(query, df=df)
        for query in (
            "SELECT * FROM {df} LATERAL VIEW explode(array(1, 2)) AS x",
            "SELECT * FROM {df}, LATERAL (SELECT n + 1 AS y)",
            "SELECT * FROM {df} WHERE n IN (SELECT 1)",
            "WITH c AS (SELECT * FROM {df}) SELECT * FROM c UNION ALL SELECT * FROM c",
            "SELECT * FROM {df} UNPIVOT (v FOR name IN (n))",
            "SELECT TRANSFORM(n) USING 'cat' AS (z string) FROM {df}",
            "FROM {df} |> WHERE n > 1 |> EXTEND 1 AS x",
        )
    ),
]
STATEFUL: list[tuple[str, Callable[[DataFrame], DataFrame]]] = [
    ("Deduplicate", lambda df: df.distinct()),
    ("Deduplicate", lambda df: df.dropDuplicates(["user"])),
    ("DeduplicateWithinWatermark", lambda df: timed(df).dropDuplicatesWithinWatermark(["user"])),
    ("Aggregate", lambda df: timed(df).groupBy(F.session_window("time", "1 second")).count()),
    ("Aggregate", lambda df: df.groupBy("user").count().select("count").where("count > 1")),
    ("Distinct", lambda df: df.sparkSession.sql("SELECT * FROM {df} UNION SELECT * FROM {df}", df=df)),
    ("GlobalLimit", lambda df: df.limit(3)),
    ("Except", lambda df: df.subtract(at_rest(df, "user string, n long"))),
    ("Except", lambda df: df.exceptAll(at_rest(df, "user string, n long"))),
    ("Join", lambda df: timed(df).alias("a").join(timed(df).alias("b"), F.expr("a.user = b.user"))),
    (
        "FlatMapGroupsInPandasWithState",
        lambda df: df.groupBy("user").applyInPandasWithState(print, "n long", "n long", "append", "NoTimeout"),
    ),
]


def at_rest(df: DataFrame, schema: str) -> DataFrame:
    return df.sparkSession.createDataFrame([], schema)


def timed(df: DataFrame) -> DataFrame:
    return df.select("user", F.timestamp_seconds("n").alias("time")).withWatermark("time", "0 seconds")


@pytest.fixture
def df(spark: SparkSession, tmp_path: Path) -> DataFrame:
    return spark.readStream.schema("user string, n long").json(str(tmp_path))


def test_operators_without_state_are_let_through(df: DataFrame) -> None:
    assert [stateful_operators(query(df)) for query in STATELESS] == [[]] * len(STATELESS)


def test_operators_with_state_are_seen(df: DataFrame) -> None:
    assert [stateful_operators(query(df)) for _, query in STATEFUL] == [[name] for name, _ in STATEFUL]


@pytest.mark.parametrize(("name", "query"), STATEFUL, ids=[name for name, _ in STATEFUL])
def test_an_operator_by_a_name_that_is_not_known_is_refused(
    df: DataFrame, monkeypatch: pytest.MonkeyPatch, name: str, query: Callable[[DataFrame], DataFrame]
) -> None:
    """As if another release of Spark had renamed it."""
    for names in ("_DEDUPLICATIONS", "_AGGREGATIONS", "_LIMITS", "_FUNCTIONS"):
        monkeypatch.setattr(upstream_operators, names, frozenset())
    monkeypatch.setattr(upstream_operators, "_JOIN", "")
    with pytest.raises(UnsupportedQueryError, match=f"an operator {name} .*not known"):
        stateful_operators(query(df))


def test_without_allow_multiple_only_deduplications_and_limits_may_precede(df: DataFrame) -> None:
    conf: dict[str, Any] = {"output_mode": "append", "timeout_conf": "NoTimeout"}
    aggregated = timed(df).groupBy(F.window("time", "1 second")).count()
    check_upstream(aggregated, **conf, allow_multiple=True)
    check_upstream(df.distinct().limit(3), **conf, allow_multiple=False)
    with pytest.raises(UnsupportedQueryError, match="allowMultiple"):
        check_upstream(aggregated, **conf, allow_multiple=False)
