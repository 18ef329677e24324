"""Starts and stops queries: settings, names, and a start while a run of the same query is busy."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark import SparkContext
from pyspark.errors import AnalysisException, IllegalArgumentException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from hdfsstore import Checkpoint, MissingFileError, SchemaMismatchError, StateStoreError, UnsupportedQueryError, release
from hdfsstore.checkpoint.query_metadata import encode_query_metadata
from hdfsstore.errors import NotPromisedError
from hdfsstore.fs.local_files import LocalFileManager
from hdfsstore.spark import groupBy
from hdfsstore.spark.driver.active_run import only_start, stop_in_few_words
from hdfsstore.spark.querylog.checkpoint_location import find_checkpoint
from hdfsstore.spark.querylog.driver_log import DriverLog
from hdfsstore.spark.sinks.output_owner import MARK
from hdfsstore.spark.worker import same_release
from tests.spark.support.jvm_log import jvm_log
from tests.support.waiting import WAIT_SECONDS, wait_until

SCHEMA = "k STRING, at TIMESTAMP, n LONG"
AT_START = {
    "spark.sql.session.timeZone": "America/New_York",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "2",
    "spark.sql.execution.pythonUDF.pandas.preferIntExtensionDtype": "true",
    "spark.sql.legacy.execution.pandas.groupedMap.assignColumnsByName": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.ansi.enabled": "false",
}


class Input:
    """A folder of files that streams read.

    Attributes:
        spark: a session of this test's own, for its settings.
    """

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self._folder = str(folder)
        self.add("SELECT 'a' k, timestamp_seconds(0) at, if(id = 0, NULL, id) n FROM range(5)")

    def add(self, query: str) -> None:
        self.spark.sql(query).coalesce(1).write.mode("append").parquet(self._folder)

    def stream(self, name: str | None = None, delay: str | None = None) -> DataFrame:
        reader = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        rows = (reader.name(name) if name else reader).parquet(self._folder)
        return rows.withWatermark("at", delay) if delay else rows


@pytest.fixture
def source(spark: SparkSession, tmp_path: Path) -> Iterator[Input]:
    session = spark.newSession()
    yield Input(session, tmp_path / "input")
    for query in session.streams.active:
        query.stop()


def collected(stream: Any, checkpoint: Path) -> list[Any]:
    """The rows of all batches of a run."""
    rows: list[Any] = []
    writer = stream.writeStream.outputMode("update").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).foreachBatch(lambda batch, _: rows.extend(batch.collect())).start()
    assert query.awaitTermination(WAIT_SECONDS)
    return rows


def seen(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    """The session's settings as a function sees them: local times, sizes of frames, types, matching of columns."""
    shown = [(str(frame["at"].iloc[0]), len(frame), str(frame["n"].dtype)) for frame in frames]
    state.update((1,))
    yield pd.DataFrame({"by_name_this_is_second": [key[0]], "k": [str(shown)]})


def test_settings_are_those_at_the_start_as_in_spark(source: Input, tmp_path: Path) -> None:
    rows = source.stream()
    schemas = "k STRING, by_name_this_is_second STRING", "n LONG", "update", "NoTimeout"
    theirs = rows.groupBy("k").applyInPandasWithState(seen, *schemas)
    ours = groupBy(rows, "k").applyInPandasWithState(seen, *schemas)
    before = collected(ours, tmp_path / "before")
    for name, value in AT_START.items():
        source.spark.conf.set(name, value)
    expected = collected(theirs, tmp_path / "theirs")
    assert "1969-12-31 19:00" in str(expected)
    assert collected(ours, tmp_path / "ours") == expected != before


def test_arrow_and_rows_go_by_the_settings_at_the_start(source: Input, tmp_path: Path) -> None:
    def zone(rows: pa.Table, state: Any) -> pa.Table:  # noqa: ARG001
        return pa.table({"zone": [rows["at"].type.tz]})

    def count(_: tuple[Any, ...], rows: Iterator[Any], state: Any) -> Iterator[tuple[int]]:
        state.update(1)
        yield (sum(1 for _ in rows),)

    groups = groupBy(source.stream(), "k")
    arrow = groups.mapInArrowWithState(zone, "zone STRING", "n LONG", "update", "NoTimeout")
    plain = groups.mapWithState(count, "n LONG")
    source.spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    source.spark.conf.set("spark.hdfsstore.numPartitions", "3")
    assert collected(arrow, tmp_path / "arrow") == [("America/New_York",)]
    assert collected(plain, tmp_path / "plain") == [(5,)]
    state = Checkpoint(tmp_path / "plain")
    assert state.operator().store().num_partitions == 3
    values = state.read_state(decode_values=True)["value"].to_pylist()
    assert values == [{"groupState": {"value": "1"}}] * len(values) != []


def timed(key: tuple[Any, ...], rows: Iterator[Any], state: Any) -> Iterator[tuple[str, str]]:
    """Sets a timeout of n milliseconds, or none if n is 0."""
    if state.hasTimedOut:
        state.remove()
        yield key[0], "over"
        return
    state.update((1,))
    (n,) = {row.n for row in rows}
    if n:
        state.setTimeoutDuration(n)
    yield key[0], "seen"


def timed_stream(rows: DataFrame) -> Any:
    return groupBy(rows, "k").mapWithState(timed, "k STRING, what STRING", "n LONG", "update", "ProcessingTimeTimeout")


def a_row(key: str, n: int) -> str:
    return f"SELECT '{key}' k, timestamp_seconds(0) at, {n}L n"


@pytest.fixture
def named(source: Input) -> Input:
    """Input in a session that requires names of sources and sinks."""
    for name in ("enableSourceEvolution", "enableSinkEvolution"):
        source.spark.conf.set(f"spark.sql.streaming.queryEvolution.{name}", "true")
    source.spark.conf.set("spark.sql.streaming.offsetLog.formatVersion", "2")
    return source


def test_sources_and_sinks_have_names_where_spark_wants_them(named: Input, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    named.add(a_row("b", 1))
    rows = collected(timed_stream(named.stream("clicks").fillna(0).where("n = 0 OR k = 'b'")), checkpoint)
    assert rows == [("a", "seen"), ("b", "seen"), ("b", "over")]
    named.add(a_row("b", 1))
    assert collected(timed_stream(named.stream("clicks")), checkpoint) == [("b", "seen"), ("b", "over")]
    sources = (checkpoint / "offsets/4").read_text().splitlines()[2:]
    assert sorted(source.split(":")[0] for source in sources) == ["clicks", "hdfsstore_timeouts"]
    assert set(json.loads((checkpoint / "commits/4").read_text().splitlines()[1])["sinkMetadataMap"]) == {"hdfsstore"}
    assert Checkpoint(checkpoint / "hdfsstore").latest_batch_id == 4


class Busy:
    """A query that is in its sink for batch 1 until it is let go.

    Attributes:
        output: the rows of its batches, and of those of later runs with `sink`.
    """

    def __init__(self, source: Input, stream: Any, checkpoint: Path) -> None:
        self.output: list[Any] = []
        self._entered, self._go = threading.Event(), threading.Event()
        self._writer = stream.writeStream.outputMode("update").option("checkpointLocation", str(checkpoint))
        self.query: StreamingQuery = self._writer.foreachBatch(self._sink).start()
        self.query.processAllAvailable()
        source.add(a_row("b", 2000))
        assert self._entered.wait(WAIT_SECONDS)

    def _sink(self, rows: DataFrame, batch_id: int) -> None:
        self.output.extend(map(tuple, rows.collect()))
        if batch_id == 1:
            self._entered.set()
            assert self._go.wait(WAIT_SECONDS)

    def start_over(self, start: Callable[[], StreamingQuery]) -> StreamingQuery:
        """Starts another run, for which this one is stopped, and lets it go only then."""
        with ThreadPoolExecutor(1) as thread:
            begun = thread.submit(start)
            try:
                wait_until(lambda: not self.query.isActive or begun.done())
            finally:
                self._go.set()
            return begun.result(WAIT_SECONDS)


def test_a_timeout_that_the_run_before_set_in_its_last_batch_fires(source: Input, tmp_path: Path) -> None:
    source.spark.conf.set("spark.sql.shuffle.partitions", "1")
    checkpoint = tmp_path / "checkpoint"
    stream = timed_stream(source.stream().fillna(0).where("n = 0 OR k = 'b'").fillna(0))
    busy = Busy(source, stream, checkpoint)
    writer = stream.writeStream.outputMode("update").option("checkpointLocation", str(checkpoint))
    writer = writer.foreachBatch(lambda rows, _: busy.output.extend(map(tuple, rows.collect())))
    query = busy.start_over(writer.start)
    wait_until(lambda: ("b", "over") in busy.output)
    assert not busy.query.isActive
    assert query.isActive


def test_the_state_that_sparks_run_left_in_its_last_batch_is_migrated(source: Input, tmp_path: Path) -> None:
    def total(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        n = sum(map(len, frames)) + (state.get[0] if state.exists else 0)
        state.update((n,))
        yield pd.DataFrame({"k": [key[0]], "n": [n]})

    checkpoint = tmp_path / "checkpoint"
    schemas = "k STRING, n LONG", "n LONG", "update", "NoTimeout"
    theirs = source.stream().groupBy("k").applyInPandasWithState(total, *schemas)
    ours = groupBy(source.stream(), "k").applyInPandasWithState(total, *schemas)
    busy = Busy(source, theirs, checkpoint)
    writer = ours.writeStream.outputMode("update").option("checkpointLocation", str(checkpoint))
    query = busy.start_over(writer.foreachBatch(lambda rows, _: rows.collect() and None).start)
    source.add(a_row("b", 0))
    query.processAllAvailable()
    rows = Checkpoint(checkpoint / "hdfsstore").read_state().to_pylist()
    assert {row["key"]["k"]: row["value"]["groupState"]["n"] for row in rows} == {"a": 5, "b": 2}


def test_what_the_log_of_sparks_run_speaks_against_does_not_stop_it(source: Input, tmp_path: Path) -> None:
    def nothing(*_: Any) -> Iterator[pd.DataFrame]:
        yield from ()

    checkpoint = tmp_path / "checkpoint"
    schemas = "k STRING", "n LONG", "update", "NoTimeout"
    options = {"checkpointLocation": str(checkpoint)}
    theirs = source.stream().groupBy("k").applyInPandasWithState(nothing, *schemas).writeStream.outputMode("update")
    query = theirs.options(**options).format("noop").start()
    query.processAllAvailable()
    (checkpoint / "offsets" / "0").unlink()
    ours = groupBy(source.stream(), "k").applyInPandasWithState(nothing, *schemas).writeStream.outputMode("update")
    with pytest.raises(MissingFileError, match=r"offsets/0: this entry is not there.*Put it back"):
        ours.options(**options).format("noop").start()
    assert query.isActive


def test_what_may_not_be_stopped_goes_on(source: Input, tmp_path: Path) -> None:
    stream = timed_stream(source.stream().where("n IS NULL").fillna(0))
    writer = stream.writeStream.outputMode("update").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.format("noop").queryName("named").start()
    with pytest.raises(IllegalArgumentException, match="name named as a query"):
        writer.start()
    source.spark.conf.set("spark.sql.streaming.stopActiveRunOnRestart", "false")
    with pytest.raises(UnsupportedQueryError, match=f"{query.runId}.*stopActiveRunOnRestart"):
        writer.queryName("another").start()
    assert query.isActive


@pytest.mark.parametrize("is_active", [False, True])
def test_a_start_is_refused_where_two_drivers_could_both_finish_a_batch(
    source: Input, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_active: bool
) -> None:
    """A filesystem overwrites where it is asked to create: the start finds out, whether a run is active or not."""
    writer = timed_stream(source.stream()).writeStream.format("noop")
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    running = [writer.start()] if is_active else []
    monkeypatch.setattr(LocalFileManager, "create", LocalFileManager.replace)
    with pytest.raises(NotPromisedError, match="was there already"):
        writer.start()
    assert [query.id for query in source.spark.streams.active] == [query.id for query in running]


def test_a_start_that_is_refused_stops_no_run(source: Input, tmp_path: Path) -> None:
    rows = source.stream().where("n IS NULL").fillna(0)
    checkpoint = str(tmp_path / "checkpoint")
    query = timed_stream(rows).writeStream.option("checkpointLocation", checkpoint).format("noop").start()
    query.processAllAvailable()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / MARK).write_bytes(encode_query_metadata(str(uuid.uuid4())))
    source.spark.sql("CREATE TABLE of_other_columns (x INT) USING parquet")
    lock = threading.Lock()

    def unpicklable(*_: Any) -> None:
        lock.acquire()

    def writer(stream: Any) -> Any:
        return stream.writeStream.option("checkpointLocation", checkpoint)

    def stateful(func: Any, state: str, rows: DataFrame = rows) -> Any:
        schemas = "k STRING, what STRING", state, "update", "ProcessingTimeTimeout"
        return writer(groupBy(rows, "k").mapWithState(func, *schemas)).format("noop")

    try:
        with pytest.raises(StateStoreError, match=r"the output there is of query .*, and this is query"):
            writer(timed_stream(rows)).format("parquet").start(str(tmp_path / "out"))
        assert query.isActive
        with pytest.raises(SchemaMismatchError, match=r"the schema of the state was .*long.* now"):
            stateful(timed, "n STRING").start()
        assert query.isActive
        with pytest.raises(TypeError, match="pickle"):
            stateful(unpicklable, "n LONG").start()
        assert query.isActive
        with pytest.raises(ValueError, match="of_other_columns has the columns x"):
            writer(timed_stream(rows)).toTable("of_other_columns", format="parquet")
        assert query.isActive
        with pytest.raises(AnalysisException, match=r"(?i)sort"):
            stateful(timed, "n LONG", rows.orderBy("n")).start()
        assert query.isActive
    finally:
        source.spark.sql("DROP TABLE of_other_columns")
    source.add(f"{a_row('b', 0)} UNION ALL SELECT 'c', timestamp_seconds(0), NULL")
    query.processAllAvailable()
    assert query.hdfsstore.lastProgress["batchId"] > 0


def test_of_two_starts_at_once_the_second_reads_what_the_run_of_the_first_leaves(
    source: Input, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = timed_stream(source.stream().where("n IS NULL").fillna(0))
    checkpoint = str(tmp_path / "checkpoint")
    both, met = threading.Barrier(2), threading.Event()
    last_finished = DriverLog.last_finished

    def together(log: DriverLog) -> Any:
        """Reads the next timeout, when the other start is about to do so, too; or will not be for a while."""
        try:
            both.wait(3)
            met.set()
        except threading.BrokenBarrierError:
            assert not met.is_set()
        return last_finished(log)

    monkeypatch.setattr(DriverLog, "last_finished", together)
    writers = [stream.writeStream.option("checkpointLocation", checkpoint).format("noop") for _ in range(2)]
    with ThreadPoolExecutor(2) as threads:
        queries = [begun.result(WAIT_SECONDS) for begun in [threads.submit(writer.start) for writer in writers]]
    assert not met.is_set()
    assert sorted(query.isActive for query in queries) == [False, True]
    assert [query.exception() for query in queries] == [None, None]


def test_starts_of_one_place_wait_for_each_other_however_it_is_spelt(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "real" / "checkpoint").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    spellings = [
        f"{tmp_path}/real/checkpoint/",
        f"file:{tmp_path}/real/checkpoint",
        f"file://{tmp_path}/real//checkpoint",
        f"{tmp_path}/other/../real/./checkpoint",
        f"{tmp_path}/link/checkpoint",
    ]

    def enter(spelling: str, entered: threading.Event) -> None:
        with only_start(find_checkpoint(spark, spelling, None).ours):
            entered.set()

    with ThreadPoolExecutor(len(spellings)) as threads:
        with only_start(find_checkpoint(spark, f"{tmp_path}/real/checkpoint", None).ours):
            entered = [(spelling, threading.Event()) for spelling in spellings]
            begun = [threads.submit(enter, *each) for each in entered]
            assert not any(event.wait(0.2) for _, event in entered), [s for s, event in entered if event.is_set()]
        for each in begun:
            each.result(60)


def test_an_error_of_a_batch_comes_out_when_spark_was_stopped_meanwhile() -> None:
    context, session = SparkContext.__new__(SparkContext), SparkSession.__new__(SparkSession)
    context._jsc, session._sc = None, context  # as SparkContext.stop() leaves them
    with pytest.raises(ValueError, match="of the batch"), stop_in_few_words(session):
        raise ValueError("of the batch")


@pytest.mark.parametrize("sink", ["parquet", "foreachBatch"])
def test_a_query_that_is_stopped_in_a_batch_says_so(source: Input, tmp_path: Path, sink: str) -> None:
    mark = tmp_path / "the function runs"

    def endless(*_: Any) -> Iterator[Any]:
        mark.touch()
        while True:
            time.sleep(0.1)
            yield from ()

    stream = groupBy(source.stream(), "k").mapWithState(endless, "n LONG", outputMode="append")
    writer = stream.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    if sink == "foreachBatch":
        query = writer.foreachBatch(lambda rows, _: rows.collect() and None).start()
    else:
        query = writer.format(sink).start(str(tmp_path / "out"))
    wait_until(mark.exists)
    with jvm_log(source.spark) as logged:
        query.stop()
        assert "StackOverflowError" not in logged()
    assert query.status["message"] == "Stopped"
    assert not query.status["isTriggerActive"]
    assert query.exception() is None
    assert not query.isActive


def test_another_release_on_the_executors_ends_the_query_with_both_named(
    source: Input, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = release.RELEASE
    monkeypatch.setattr(same_release, "RELEASE", "0.0.7")
    with pytest.raises(StreamingQueryException, match=f"the driver has hdfsstore 0.0.7, and .* has {mine}"):
        collected(timed_stream(source.stream()), tmp_path / "checkpoint")
