"""The timeout source, against the batches that Spark runs for its own operator on the same input."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.state import GroupState

from hdfsstore.spark.driver.timeout_source import with_timeout_source
from hdfsstore.spark.spec import TimeoutConf
from tests.support.waiting import wait_until

NO_DATA_BATCHES = "spark.sql.streaming.noDataMicroBatches.enabled"
AVAILABLE_NOW: dict[str, Any] = {"availableNow": True}
AT_ONCE: dict[str, Any] = {"processingTime": "0 seconds"}

Start = Callable[..., StreamingQuery]


class Input:
    """A folder of JSON files, a batch each, with a watermark 10 seconds behind the latest event."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder
        self._files = 0
        folder.mkdir()

    def add(self, *seconds: int) -> None:
        file = self._folder / f".{self._files}"
        file.write_text("".join(json.dumps({"k": s % 3, "at": s}) + "\n" for s in seconds))
        os.utime(file, (1_700_000_000 + self._files,) * 2)  # the order in which Spark reads them
        file.rename(self._folder / f"{self._files}.json")
        self._files += 1

    def stream(self) -> DataFrame:
        rows = self._spark.readStream.schema("k INT, at LONG").option("maxFilesPerTrigger", 1).json(str(self._folder))
        return rows.selectExpr("k", "timestamp_seconds(at) AS at").withWatermark("at", "10 seconds")


class Query:
    """A query with timeout_source whose state is imagined.

    Attributes:
        timeouts: the smallest one after each batch, in turn, in milliseconds from then; none after further ones.
        noted: the timeouts that were noted.
        rows: how many each batch had.
    """

    def __init__(self, df: DataFrame, checkpoint: Path, timeout_conf: TimeoutConf) -> None:
        self._df = df
        self.checkpoint = checkpoint
        self._timeout_conf = timeout_conf
        self.timeouts: list[int | None] = []
        self.noted: list[int | None] = []
        self.rows: dict[int, int] = {}

    def start(self, **trigger: Any) -> StreamingQuery:
        df, timeout_source = with_timeout_source(self._df, self._timeout_conf)
        assert timeout_source is not None
        assert df.schema == self._df.schema
        assert [f.metadata for f in df.schema] == [f.metadata for f in self._df.schema]

        def run(rows: DataFrame, batch_id: int) -> None:
            assert rows.schema["at"].metadata == {"spark.watermarkDelayMs": 10_000}
            self.rows[batch_id] = rows.count()
            after = self.timeouts.pop(0) if self.timeouts else None
            self.noted.append(None if after is None else int(time.time() * 1000) + after)
            timeout_source.note(batch_id, offsets(self.checkpoint)[batch_id]["batchWatermarkMs"], self.noted[-1])

        writer = df.writeStream.option("checkpointLocation", str(self.checkpoint)).foreachBatch(run)
        return writer.trigger(**trigger).start()


def spark_query(df: DataFrame, checkpoint: Path, **trigger: Any) -> StreamingQuery:
    """Spark's own operator: each key times out one second after the watermark."""

    def count(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        n = sum(map(len, frames))
        if state.hasTimedOut:
            state.remove()
        else:
            state.update((n,))
            state.setTimeoutTimestamp(state.getCurrentWatermarkMs() + 1000)
        yield pd.DataFrame({"k": [key[0]], "n": [n]})

    grouped = df.groupBy("k")
    counted = grouped.applyInPandasWithState(count, "k INT, n LONG", "n LONG", "update", "EventTimeTimeout")
    writer = counted.writeStream.outputMode("update").option("checkpointLocation", str(checkpoint))
    return writer.foreachBatch(lambda rows, _: rows.collect() and None).trigger(**trigger).start()


def offsets(checkpoint: Path) -> list[dict[str, Any]]:
    """The metadata of the batches in Spark's offset log, in order."""
    ids = sorted(int(path.name) for path in (checkpoint / "offsets").iterdir() if path.name.isdigit())
    assert ids == list(range(len(ids)))
    return [json.loads((checkpoint / "offsets" / str(i)).read_text().splitlines()[1]) for i in ids]


def watermarks(checkpoint: Path) -> list[int]:
    return [entry["batchWatermarkMs"] // 1000 for entry in offsets(checkpoint)]


def forget(checkpoint: Path, batch_id: int) -> None:
    """As if the driver had died before it began that batch, the last one."""
    for log in ("offsets", "commits"):
        for path in (checkpoint / log).glob(f"*{batch_id}*"):
            path.unlink()
        for path in (checkpoint / log).glob(f".{batch_id}.crc"):
            path.unlink()


@contextmanager
def conf(spark: SparkSession, name: str, value: Any) -> Iterator[None]:
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.unset(name)


@pytest.fixture
def source(spark: SparkSession, tmp_path: Path) -> Input:
    return Input(spark, tmp_path / "input folder")


def test_event_time_batches_are_those_of_spark(source: Input, tmp_path: Path) -> None:
    ours = Query(source.stream(), tmp_path / "our checkpoint", "EventTimeTimeout")
    theirs = tmp_path / "theirs"

    def run(**trigger: Any) -> None:
        queries = [ours.start(**trigger), spark_query(source.stream(), theirs, **trigger)]
        for query in queries:
            query.awaitTermination()

    source.add(100, 101)
    source.add(90)  # the watermark stays
    source.add(200)
    run(**AVAILABLE_NOW)
    assert watermarks(ours.checkpoint) == watermarks(theirs) == [0, 91, 91, 190]
    assert ours.rows == {0: 2, 1: 1, 2: 1, 3: 0}

    run(**AVAILABLE_NOW)  # nothing has expired
    assert len(offsets(ours.checkpoint)) == len(offsets(theirs)) == 4

    queries = [ours.start(**AT_ONCE), spark_query(source.stream(), theirs, **AT_ONCE)]
    try:
        for event in (300, 400):
            source.add(event)
            for query in queries:
                query.processAllAvailable()
        progress = [p for p in queries[0].recentProgress if p.batchId >= 4 and p.batchId in ours.rows]
    finally:
        for query in queries:
            query.stop()
    assert watermarks(ours.checkpoint) == watermarks(theirs) == [0, 91, 91, 190, 190, 290, 290, 390]
    assert list(ours.rows.values())[4:] == [1, 0, 1, 0]
    assert sum(p.numInputRows for p in progress) == 2


def test_a_batch_for_timeouts_that_a_restart_left_behind(spark: SparkSession, source: Input, tmp_path: Path) -> None:
    query = Query(source.stream(), tmp_path / "checkpoint", "EventTimeTimeout")
    source.add(100)
    with conf(spark, NO_DATA_BATCHES, False):
        query.start(**AVAILABLE_NOW).awaitTermination()
        assert watermarks(query.checkpoint) == [0]
    query.start(**AVAILABLE_NOW).awaitTermination()
    assert watermarks(query.checkpoint) == [0, 90]

    forget(query.checkpoint, 1)
    query.start(**AVAILABLE_NOW).awaitTermination()
    assert watermarks(query.checkpoint) == [0, 90]

    shutil.rmtree(query.checkpoint / "commits")  # the driver died in its first batch
    forget(query.checkpoint, 1)
    query.start(**AVAILABLE_NOW).awaitTermination()
    assert watermarks(query.checkpoint) == [0, 90]


def test_a_batch_runs_when_the_clock_has_passed_the_timeout(source: Input, tmp_path: Path) -> None:
    query = Query(source.stream(), tmp_path / "checkpoint", "ProcessingTimeTimeout")
    query.timeouts = [10**9, 1000, None]
    running = query.start(**AT_ONCE)
    try:
        running.processAllAvailable()
        assert query.rows == {}  # nothing has a timeout yet
        source.add(100)
        running.processAllAvailable()
        source.add(200)
        running.processAllAvailable()
        wait_until(lambda: len(query.noted) == 3)
        time.sleep(0.3)
    finally:
        running.stop()
    assert query.rows == {0: 1, 1: 1, 2: 0}
    times = [entry["batchTimestampMs"] for entry in offsets(query.checkpoint)]
    assert times[1] < query.noted[1] < times[2]


def test_processing_time_ends_under_available_now(source: Input, tmp_path: Path) -> None:
    query = Query(source.stream(), tmp_path / "checkpoint", "ProcessingTimeTimeout")
    source.add(100)
    source.add(200)
    query.timeouts = [-1] * 9  # a key that the function leaves alone stays expired
    query.start(**AVAILABLE_NOW).awaitTermination()
    assert query.rows == {0: 1, 1: 1}

    done = len(query.rows)  # nothing is known of the timeouts now
    query.start(**AVAILABLE_NOW).awaitTermination()
    assert list(query.rows.values())[done:] == [0]

    source.add(300)  # the batch of the data does for both
    query.start(**AVAILABLE_NOW).awaitTermination()
    assert list(query.rows.values())[done + 1 :] == [1]


def test_timeouts_of_two_queries_of_a_session_are_apart(source: Input, tmp_path: Path) -> None:
    source.add(100)
    first = Query(source.stream(), tmp_path / "first", "EventTimeTimeout")
    second = Query(source.stream(), tmp_path / "second", "ProcessingTimeTimeout")
    first.timeouts = [-1]
    queries = [first.start(**AVAILABLE_NOW), second.start(**AVAILABLE_NOW)]
    for running in queries:
        running.awaitTermination()
    assert first.rows == {0: 1, 1: 0}
    assert second.rows == {0: 1}


def test_the_schema_stays_whatever_the_types(source: Input) -> None:
    of_all_kinds = """SELECT *, 'x' AS k, 1Y AS `a b`, NULL AS nothing, map('a', array(named_struct('K', 1.5D)))
        AS nested, INTERVAL 1 DAY AS days, make_interval(1) AS months, parse_json('1') AS variant,
        CAST('x' AS CHAR(3)) AS char, 'x' COLLATE UTF8_LCASE AS collated,
        TIMESTAMP_NTZ'2024-01-01 00:00:00' AS ntz FROM {df}"""
    df = source.stream()
    df = df.sparkSession.sql(of_all_kinds, df=df)
    with_source, _ = with_timeout_source(df, "EventTimeTimeout")
    assert with_source.schema == df.schema
    assert [f.metadata for f in with_source.schema] == [f.metadata for f in df.schema]


def test_no_timeout_no_source(source: Input) -> None:
    df = source.stream()
    assert with_timeout_source(df, "NoTimeout") == (df, None)
