"""Tests writeStream of stateful streams: sinks, repeated batches, settings, progress, and refusals at the start."""

from __future__ import annotations

import datetime
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from hdfsstore import SchemaMismatchError, UnsupportedQueryError
from hdfsstore.spark import groupBy
from hdfsstore.spark.api.keys import key_columns
from hdfsstore.spark.driver.query import StatefulQuery
from hdfsstore.spark.driver.unsupported import check_input
from tests.spark.support.totals import Events, finished, state_of, total, totals
from tests.support.waiting import WAIT_SECONDS


@pytest.fixture
def events(spark: SparkSession, tmp_path: Path) -> Events:
    return Events(spark, tmp_path / "events")


def test_a_table_is_made_and_appended_to(spark: SparkSession, events: Events, tmp_path: Path) -> None:
    def run() -> None:
        writer = totals(events.stream()).writeStream.trigger(availableNow=True)
        finished(writer.toTable("stateful_totals", checkpointLocation=str(tmp_path / "cp")))

    try:
        events.add(("ann", 1, 0))
        run()
        assert spark.table("stateful_totals").collect() == [("ann", 1)]
        events.add(("ann", 2, 0))
        run()
        assert sorted(map(tuple, spark.table("stateful_totals").collect())) == [("ann", 1), ("ann", 3)]
        other = groupBy(events.stream(), "user").mapInArrowWithState(total, "who long", "n long", "append", "NoTimeout")
        with pytest.raises(ValueError, match="has the columns user, total, the output who"):
            other.writeStream.toTable("stateful_totals", checkpointLocation=str(tmp_path / "other"))
        with pytest.raises(ValueError, match=r"toTable appends to parquet tables; foreachBatch.*format 'csv'"):
            totals(events.stream()).writeStream.toTable("t", format="csv", checkpointLocation=str(tmp_path / "other"))
        with pytest.raises(SchemaMismatchError, match="timeoutConf was NoTimeout"):
            totals(events.stream(), timeout_conf="ProcessingTimeTimeout").writeStream.toTable(
                "stateful_refused", checkpointLocation=str(tmp_path / "cp")
            )
        assert not spark.catalog.tableExists("stateful_refused")
        spark.sql("CREATE VIEW stateful_view AS SELECT * FROM stateful_totals")
        with pytest.raises(ValueError, match="stateful_view is a view"):
            totals(events.stream()).writeStream.toTable("stateful_view", checkpointLocation=str(tmp_path / "other"))
    finally:
        spark.sql("DROP VIEW IF EXISTS stateful_view")
        spark.sql("DROP TABLE IF EXISTS stateful_totals")


def test_the_console_shows_a_batch_as_spark_does_and_noop_runs_it(
    events: Events, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events.add(("ann", 1, 0), ("bob", 1, 0))
    writer = totals(events.stream()).writeStream.option("checkpointLocation", str(tmp_path / "cp"))
    query = finished(writer.format("console").option("numRows", 1).trigger(availableNow=True).start())
    said = capsys.readouterr().out
    assert "-" * 43 + "\nBatch: 0\n" + "-" * 43 + "\n+----+-----+\n|user|total|\n" in said
    assert "only showing top 1 row" in said
    # No partition ran twice, and each ran.
    assert query.hdfsstore.lastProgress["stateOperators"][0]["numRowsUpdated"] == 2
    events.add(("ann", 1, 0))
    finished(writer.format("noop").start())
    assert state_of(tmp_path / "cp") == {"ann": 2, "bob": 1}


def test_progress_is_kept_and_logged_for_as_many_batches_as_sparks(
    spark: SparkSession, events: Events, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for n in range(3):
        events.add(("ann", n, 0), (f"user {n}", n, 0))
    spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", 2)
    spark.conf.set("spark.sql.streaming.checkpointLocation", str(tmp_path / "cp"))
    try:
        with caplog.at_level(logging.INFO, "hdfsstore.spark"):
            writer = totals(events.stream()).writeStream.queryName("clicks").trigger(availableNow=True)
            query = finished(writer.format("noop").start())
    finally:
        spark.conf.unset("spark.sql.streaming.numRecentProgressUpdates")
        spark.conf.unset("spark.sql.streaming.checkpointLocation")
    assert isinstance(query, StreamingQuery)
    recent = query.hdfsstore.recentProgress
    assert [progress["batchId"] for progress in recent] == [1, 2]
    assert query.hdfsstore.lastProgress == recent[-1]
    assert (recent[0]["id"], recent[0]["runId"], recent[0]["name"]) == (query.id, query.runId, "clicks")
    operator = recent[-1]["stateOperators"][0]
    assert (operator["operatorName"], operator["numShufflePartitions"]) == ("mapInArrowWithState", 2)
    assert (operator["numRowsTotal"], operator["numRowsUpdated"], operator["numRowsRemoved"]) == (4, 2, 0)
    custom = [progress["stateOperators"][0]["customMetrics"] for progress in recent]
    assert [(each["numInputRows"], each["loadedMapCacheMissCount"] <= 2) for each in custom] == [(2, True)] * 2
    assert recent[-1]["timestamp"] == spark_timestamp(tmp_path / "cp/clicks/offsets/2")
    assert len([line for line in caplog.messages if line.startswith("query clicks, batch ")]) == 3


def spark_timestamp(offsets: Path) -> str:
    ms = json.loads(offsets.read_text("utf-8").split("\n")[1])["batchTimestampMs"]
    return datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def test_an_error_of_the_sink_ends_the_query_and_leaves_the_state(events: Events, tmp_path: Path) -> None:
    def sink(df: DataFrame, batch_id: int) -> None:
        df.collect()
        if batch_id == 1 and failing:
            raise RuntimeError("the database is away")

    def start() -> StreamingQuery:
        writer = totals(events.stream()).writeStream.outputMode("update").trigger(availableNow=True)
        return writer.option("checkpointLocation", str(tmp_path / "cp")).foreachBatch(sink).start()

    failing = True
    events.add(("ann", 1, 0))
    events.add(("ann", 2, 0))
    query = start()
    with pytest.raises(StreamingQueryException, match="the database is away"):
        query.awaitTermination(WAIT_SECONDS)
    assert "the database is away" in str(query.exception())
    assert state_of(tmp_path / "cp") == {"ann": 1}
    failing = False
    finished(start())
    assert state_of(tmp_path / "cp") == {"ann": 3}


def test_an_error_of_the_function_comes_out_with_its_line_and_batch(events: Events, tmp_path: Path) -> None:
    def careful(rows: pa.Table, state: Any) -> pa.Table:
        if "nobody" in rows["user"].to_pylist():
            raise LookupError("there is nobody")
        return total(rows, state)

    events.add(("ann", 1, 0))
    events.add(("nobody", 1, 0), ("ann", 1, 0))
    stream = groupBy(events.stream(), "user").mapInArrowWithState(
        careful, "user string, total long", "total long", "update", "NoTimeout"
    )
    writer = stream.writeStream.format("noop").trigger(availableNow=True)
    query = writer.start(checkpointLocation=str(tmp_path / "cp"))
    with pytest.raises(StreamingQueryException, match="there is nobody") as error:
        query.awaitTermination(WAIT_SECONDS)
    assert "of batch 1" in str(error.value)
    assert 'raise LookupError("there is nobody")' in str(error.value)
    assert state_of(tmp_path / "cp") == {"ann": 1}
    assert [progress["batchId"] for progress in query.hdfsstore.recentProgress] == [0]


def test_sparks_deduplication_and_windows_may_come_before(events: Events, tmp_path: Path) -> None:
    """Batches that run again too: Spark wants each of its own partitions to be committed then as well."""
    seen: list[tuple[Any, ...]] = []

    def sink(df: DataFrame, batch_id: int) -> None:
        seen.extend((batch_id, *row) for row in sorted(map(tuple, df.collect())))

    def run(df: DataFrame, name: str, output_mode: str) -> None:
        writer = totals(df, output_mode).writeStream.option("checkpointLocation", str(tmp_path / name))
        finished(writer.outputMode(output_mode).foreachBatch(sink).trigger(availableNow=True).start())

    events.add(("ann", 1, 10), ("ann", 1, 10), ("bob", 2, 11))
    events.add(("ann", 1, 10), ("ann", 4, 12), ("eve", 1, 30))
    deduplicated = events.timed().dropDuplicates(["user", "time"])
    run(deduplicated, "first", "update")
    assert seen[:5] == [(0, "ann", 1), (0, "bob", 2), (1, "ann", 5), (1, "eve", 1)]
    seen.clear()
    for commit in (tmp_path / "first/commits").iterdir():  # killed between our entry and Spark's
        if commit.name.lstrip(".").removesuffix(".crc") == "1":
            commit.unlink()
    events.add(("ann", 6, 40))
    run(deduplicated, "first", "update")
    assert [row for row in seen if row[0] == 1] == []
    assert seen[0][1:] == ("ann", 11)
    seen.clear()
    windows = events.timed().groupBy(F.window("time", "10 seconds"), "user").agg(F.sum("n").alias("n"))
    run(windows, "second", "append")
    assert [row[1:] for row in seen if row[1] == "ann"] == [("ann", 7)]


@pytest.mark.parametrize(
    ("start", "error", "message"),
    [
        (lambda df, _: groupBy(df, 0), IndexError, "1 to 3"),
        (lambda df, _: groupBy(df, F.create_map("user", "n").alias("m")), UnsupportedQueryError, "'m'.*map<string,"),
        (lambda df, _: groupBy(df, F.array(F.expr("make_interval(n)"))), UnsupportedQueryError, "interval"),
        (lambda df, _: groupBy(df, F.collate("user", "UTF8_LCASE")), UnsupportedQueryError, "different strings are"),
        (
            lambda df, _: groupBy(df.withColumn("years", F.expr("make_ym_interval(1)")), "user"),
            UnsupportedQueryError,
            "'years' has intervals of years and months",
        ),
        (
            lambda df, _: groupBy(df, "user").mapWithState(None, "n long"),  # type: ignore[arg-type]
            TypeError,
            "func is a function, not NoneType",
        ),
        (lambda df, _: totals(df, "complete"), UnsupportedQueryError, "no complete mode"),
        (lambda df, _: totals(df).writeStream.outputMode("complete"), UnsupportedQueryError, "no complete mode"),
        (lambda df, _: totals(df).writeStream.outputMode("append"), ValueError, "not that of the function"),
        (lambda df, _: totals(df).writeStream.outputMode("all"), ValueError, "'append' or 'update', not 'all'"),
        (lambda df, _: totals(df).writeStream.trigger(continuous="1 second"), UnsupportedQueryError, "continuous"),
        (lambda df, _: totals(df).writeStream.trigger(realTime="1 second"), UnsupportedQueryError, "realTime"),
        (lambda df, _: totals(df).writeStream.trigger(), ValueError, "(?i)trigger"),
        (lambda df, _: totals(df).writeStream.trigger(once=True, availableNow=True), ValueError, "(?i)trigger"),
        (lambda df, _: totals(df).writeStream.queryName(""), ValueError, "queryName"),
        (lambda df, _: totals(df).writeStream.foreachBatch("f"), TypeError, "a function of a DataFrame"),
        (lambda df, _: totals(df).writeStream.format("noop").start(), ValueError, "the query has no checkpoint"),
        (lambda df, cp: begin(df, cp, format="delta"), ValueError, "no format 'delta'.*console, noop, parquet"),
        (lambda df, cp: begin(df, cp), ValueError, r"format\('parquet'\) needs a path"),
        (lambda df, cp: begin(df, cp, format="noop", partitionBy="user"), TypeError, "partitionBy is not offered"),
        (lambda df, cp: begin(df, cp, **{"hdfsstore.partitions": 1}), ValueError, "no setting hdfsstore.partitions"),
        (lambda df, cp: begin(df, cp, **{"hdfsstore.numPartitions": 0}), ValueError, "hdfsstore.numPartitions: '0'"),
        (lambda df, cp: begin(df, cp, asyncProgressTrackingEnabled=True), UnsupportedQueryError, "asyncProgress"),
        (lambda df, cp: begin(df, cp, format="console", numRows="all"), ValueError, "numRows: 'all' is no number"),
        (
            lambda df, cp: begin(df.dropDuplicates().groupBy("user").agg(F.sum("n").alias("n")), cp),
            UnsupportedQueryError,
            r"\(Aggregate\) before ours.*append mode only",
        ),
    ],
)
def test_what_cannot_run_is_refused_by_name(
    events: Events,
    tmp_path: Path,
    start: Callable[[DataFrame, str], object],
    error: type[Exception],
    message: str,
) -> None:
    events.add(("ann", 1, 0))
    with pytest.raises(error, match=message):
        start(events.stream(), str(tmp_path / "cp"))
    assert not (tmp_path / "cp").exists()


def test_the_name_of_a_key_is_what_it_is_for_spark(events: Events) -> None:
    events.add(("ann", 1, 0))
    df = events.stream().select(F.struct("n").alias("s"), F.col("user").alias("s.n"))
    for key, simple in (("s.n", "bigint"), (F.col("s.n"), "bigint"), ("`s.n`", "string"), (F.col("`s.n`"), "string")):
        (field,) = key_columns(df, (key,)).fields
        assert field.dataType.simpleString() == simple


def begin(df: DataFrame, checkpoint: str, **options: Any) -> StatefulQuery:
    return totals(df).writeStream.option("checkpointLocation", checkpoint).start(**options)


def test_a_join_of_streams_is_refused_where_its_rows_would_be_late(events: Events, tmp_path: Path) -> None:
    events.add(("ann", 1, 0))
    joined = events.timed().join(events.stream().select("user", F.col("n").alias("m")), "user")
    writer = totals(joined, "append", "EventTimeTimeout").writeStream
    with pytest.raises(UnsupportedQueryError, match="older than the watermark"):
        writer.format("noop").start(checkpointLocation=str(tmp_path / "cp"))


def test_only_streams_of_classic_sessions_on_known_releases_are_taken(
    spark: SparkSession, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UnsupportedQueryError, match="not a stream"):
        groupBy(spark.range(3), "id")
    with pytest.raises(TypeError, match="groupBy takes a DataFrame of PySpark, not list"):
        check_input([])
    remote = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe"})()
    with pytest.raises(UnsupportedQueryError, match="Spark Connect"):
        check_input(remote)
    events.add(("ann", 1, 0))
    for version, is_known in (("4.0.1", False), ("4.1.0", True), ("4.2.3", True), ("4.4.0", False), ("5.1.0", False)):
        monkeypatch.setattr(SparkSession, "version", property(lambda _, version=version: version))
        if is_known:
            check_input(events.stream())
        else:
            with pytest.raises(UnsupportedQueryError, match=f"this is Spark {version}.*4.1 to 4.3"):
                check_input(events.stream())


def test_format_1_warns_and_does_not_go_with_speculation(
    spark: SparkSession, events: Events, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    events.add(("ann", 1, 0))
    writer = totals(events.stream()).writeStream.format("noop").option("checkpointLocation", str(tmp_path / "cp"))
    writer.option("hdfsstore.checkpointFormatVersion", 1).trigger(availableNow=True)
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patched:
        conf = {**spark.conf.getAll, "spark.speculation": "true"}
        patched.setattr(type(spark.conf), "getAll", property(lambda _: conf))
        with pytest.raises(UnsupportedQueryError, match=r"spark.speculation runs tasks twice"):
            writer.start()
    finished(writer.start())
    assert [line for line in caplog.messages if "a losing attempt of a task may overwrite a file" in line]
    store = tmp_path / "cp/hdfsstore/state/0"
    assert {path.name for part in ("0", "1") for path in (store / part).glob("*.delta")} == {"1.delta"}
