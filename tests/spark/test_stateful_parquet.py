"""Tests format("parquet"): each batch has a folder, and the output belongs to one query."""

from __future__ import annotations

import json
import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from hdfsstore import CorruptFileError, MissingFileError, StateStoreError
from hdfsstore.fs.location import StorageLocation
from hdfsstore.spark import groupBy
from hdfsstore.spark.querylog.checkpoint_location import CheckpointLocation
from hdfsstore.spark.querylog.session_storage import SessionStorage
from hdfsstore.spark.sinks import output_folder, output_owner
from hdfsstore.spark.sinks.output_folder import OutputFolder
from hdfsstore.spark.sinks.output_owner import MARK
from hdfsstore.spark.sinks.parquet import ParquetSink
from tests.spark.support.totals import Events, finished, run_again, state_of, total, totals
from tests.support.waiting import WAIT_SECONDS, wait_until

SCHEMA = "user string, total long"


@pytest.fixture
def events(spark: SparkSession, tmp_path: Path) -> Events:
    return Events(spark, tmp_path / "events")


def begin(events: Events, checkpoint: Path, out: Path, **options: str) -> Any:
    writer = totals(events.stream()).writeStream.format("parquet").option("checkpointLocation", str(checkpoint))
    return writer.options(**options, path=str(out)).trigger(availableNow=True).start()


def at(checkpoint: Path) -> CheckpointLocation:
    return CheckpointLocation(str(checkpoint), SessionStorage(StorageLocation(str(checkpoint))))


def sink_of(spark: SparkSession, out: Path, checkpoint: Path) -> ParquetSink:
    schema = spark.createDataFrame([], SCHEMA).schema
    return ParquetSink(spark, str(out), {}, schema, at(checkpoint))


def rows_of(spark: SparkSession, out: Path) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, spark.read.parquet(str(out)).select("batch", "user", "total").collect()))


def id_in(path: Path) -> str:
    return str(json.loads(path.read_bytes())["id"])


def test_a_folder_a_batch_that_a_replay_replaces(spark: SparkSession, events: Events, tmp_path: Path) -> None:
    checkpoint, out = tmp_path / "cp", tmp_path / "out"

    def run() -> None:
        finished(begin(events, checkpoint, out, compression="gzip"))

    events.add(("ann", 1, 0), ("bob", 2, 0), ("ann", 3, 0))
    run()
    events.add(("ann", 5, 0))
    run()
    expected = [(0, "ann", 4), (0, "bob", 2), (1, "ann", 9)]
    assert rows_of(spark, out) == expected
    files = sorted(out.rglob("*.gz.parquet"))
    run_again(checkpoint, 1)
    query_id = id_in(checkpoint / "metadata")
    others = {f"_writing-{uuid.uuid4()}-0-of-another-query", "_writing-0-of-an-older-release"}
    for name in others:
        (out / name).mkdir()
    # Killed just before the folder, whole by then, took its name.
    (out / "batch=1").rename(out / f"_writing-{query_id}-1-of-the-killed-driver")
    run()
    assert rows_of(spark, out) == expected
    assert state_of(checkpoint) == {"ann": 9, "bob": 2}
    now = sorted(out.rglob("*.gz.parquet"))
    assert [path for path in files if "batch=0" in str(path)] == [path for path in now if "batch=0" in str(path)]
    assert not set(files) & {path for path in now if "batch=1" in str(path)}
    assert {path.name for path in out.iterdir()} == {"batch=0", "batch=1", MARK, *others}
    assert {path.name for path in (out / "batch=1").glob("_*")} == {"_SUCCESS"}
    assert id_in(out / MARK) == query_id


@pytest.mark.parametrize("renames", [True, False])
def test_a_batch_is_marked_when_it_is_whole_wherever_folders_can_be_renamed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renames: bool
) -> None:
    """As on a filesystem that is not local: folders are renamed, as HDFS does, or not, as with object stores."""
    monkeypatch.setattr(output_folder, "_LOCAL", "no scheme")
    monkeypatch.setattr(output_folder, "_RENAME_IN_ONE_STEP", ("file",) if renames else ())
    df = spark.createDataFrame([("ann", 1)], SCHEMA)
    failing = df.where(F.raise_error(F.lit("must not be")).isNull())
    out = tmp_path / "out"
    sink = sink_of(spark, out, tmp_path / "cp")
    sink.claim()
    for _ in range(2):
        sink(df, 7)
        assert (out / "batch=7/_SUCCESS").exists()
        assert rows_of(spark, out) == [(7, "ann", 1)]
    with pytest.raises(Exception, match="must not be"):
        sink(failing, 7)
    assert (out / "batch=7/_SUCCESS").exists() == renames
    sink(df, 7)
    assert rows_of(spark, out) == [(7, "ann", 1)]
    assert {path.name for path in out.iterdir() if not path.name.endswith(".crc")} == {"batch=7", MARK}
    with pytest.raises(StateStoreError, match="this query is a new one"):
        sink_of(spark, out, tmp_path / "other").claim()


def test_a_path_with_the_output_of_another_query_is_refused_at_start(
    spark: SparkSession, events: Events, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    events.add(("ann", 1, 0), ("bob", 2, 0))
    finished(begin(events, tmp_path / "cp", out))
    events.add(("ann", 5, 0))
    first = id_in(tmp_path / "cp/metadata")
    with pytest.raises(StateStoreError, match=f"{MARK}: the output there is of query {first}, and this query is a new"):
        begin(events, tmp_path / "new", out)
    finished(begin(events, tmp_path / "other", tmp_path / "other-out"))
    other = id_in(tmp_path / "other/metadata")
    assert other != first
    with pytest.raises(StateStoreError, match=f"of query {first}, and this is query {other}.*Choose another path"):
        begin(events, tmp_path / "other", out)
    assert rows_of(spark, out) == [(0, "ann", 1), (0, "bob", 2)]
    finished(begin(events, tmp_path / "cp", out))
    assert rows_of(spark, out) == [(0, "ann", 1), (0, "bob", 2), (1, "ann", 6)]


def test_a_path_that_another_query_has_taken_meanwhile_ends_a_query_before_it_writes(
    spark: SparkSession, events: Events, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    events.add(("ann", 1, 0))
    finished(begin(events, tmp_path / "cp", out))
    sink_of(spark, tmp_path / "elsewhere", tmp_path / "other").claim()
    mark = (tmp_path / "elsewhere" / MARK).read_bytes()
    events.add(("ann", 5, 0))

    sink = sink_of(spark, out, tmp_path / "cp")

    def write(df: DataFrame, batch_id: int) -> None:
        (out / MARK).write_bytes(mark)
        sink(df, batch_id)

    counts = groupBy(events.stream(), "user").mapInArrowWithState(total, SCHEMA, "total long", "update", "NoTimeout")
    writer = counts.writeStream.option("checkpointLocation", str(tmp_path / "cp")).trigger(availableNow=True)
    with pytest.raises(StreamingQueryException, match="the output there is of query"):
        writer.foreachBatch(write).start().awaitTermination(WAIT_SECONDS)
    assert rows_of(spark, out) == [(0, "ann", 1)]


def test_of_queries_that_start_at_the_same_moment_one_has_the_path(spark: SparkSession, tmp_path: Path) -> None:
    starts = 8
    for turn in range(5):
        out = tmp_path / f"out{turn}"
        # Every checkpoint is started twice, as by two drivers: both are the same query.
        checkpoints = [tmp_path / f"cp{turn}-{i % (starts // 2)}" for i in range(starts)]
        sinks = [sink_of(spark, out, checkpoint) for checkpoint in checkpoints]
        barrier = threading.Barrier(starts)

        def claim(sink: ParquetSink, barrier: threading.Barrier = barrier) -> str | None:
            barrier.wait()
            try:
                sink.claim()
            except StateStoreError as refused:
                return str(refused)
            return None

        with ThreadPoolExecutor(starts) as pool:
            said = list(pool.map(claim, sinks))
        owner = id_in(out / MARK)
        winners = {checkpoint for checkpoint, error in zip(checkpoints, said, strict=True) if error is None}
        assert len(winners) == 1
        assert id_in(winners.pop() / "metadata") == owner
        assert sorted(error is None for error in said) == [False] * 6 + [True] * 2
        assert all(owner in error for error in said if error is not None)


def test_a_kill_between_two_writes_of_a_start_leaves_what_the_next_start_takes(
    spark: SparkSession, events: Events, tmp_path: Path
) -> None:
    out, checkpoint = tmp_path / "out", tmp_path / "cp"
    events.add(("ann", 1, 0))
    sink_of(spark, tmp_path / "elsewhere", checkpoint).claim()  # the query has an id, and its path no mark
    query_id = id_in(checkpoint / "metadata")
    sink_of(spark, out, checkpoint).claim()  # and now it has
    assert id_in(out / MARK) == query_id
    query = finished(begin(events, checkpoint, out))
    assert query.id == query_id
    assert rows_of(spark, out) == [(0, "ann", 1)]


def test_the_checkpoint_that_has_written_unmarked_output_goes_on_and_others_are_refused(
    spark: SparkSession, events: Events, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_owner, "_CLOCKS_MS", 0)
    out = tmp_path / "out"
    for i in range(2):
        events.add(("ann", 1, 0), (f"user {i}", 2, 0))
        finished(begin(events, tmp_path / "cp", out))
    finished(begin(events, tmp_path / "other", tmp_path / "other-out"))  # as many batches, some seconds later
    (out / MARK).unlink()
    expected = rows_of(spark, out)
    # Left by drivers that were killed: one of before, and one of a query that has begun there since.
    writing = [f"_writing-1-{uuid.uuid4()}", f"_writing-{uuid.uuid4()}-1-{uuid.uuid4()}"]
    for name in writing:
        (out / name).mkdir()
    for checkpoint in ("other", "new"):
        with pytest.raises(StateStoreError, match=rf"batches 0 to 1 of a query that has left no {MARK}"):
            begin(events, tmp_path / checkpoint, out)
    assert not (out / MARK).exists()
    assert all((out / name).exists() for name in writing)
    (out / "batch=2").mkdir()  # more than the query has begun
    with pytest.raises(StateStoreError, match="batches 0 to 2"):
        begin(events, tmp_path / "cp", out)
    (out / "batch=2").rmdir()
    events.add(("ann", 1, 0))
    finished(begin(events, tmp_path / "cp", out))
    assert rows_of(spark, out) == [*expected, (2, "ann", 3)]
    assert id_in(out / MARK) == id_in(tmp_path / "cp/metadata")
    assert [(out / name).exists() for name in writing] == [False, True]


def test_unmarked_output_is_still_the_querys_where_a_consumer_takes_batches(
    spark: SparkSession, events: Events, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output_owner, "_CLOCKS_MS", 0)
    out, checkpoint = tmp_path / "out", tmp_path / "cp"

    def check(batches: set[str]) -> None:
        (out / MARK).unlink()
        with pytest.raises(StateStoreError, match=f"of a query that has left no {MARK}"):
            sink_of(spark, out, tmp_path / "later").claim()
        sink_of(spark, out, checkpoint).claim()
        assert {path.name for path in out.glob("batch=*")} == batches

    # A query that was killed in its first batch is not told from another one: its user has to say it.
    events.add(("ann", 1, 0))
    finished(begin(events, checkpoint, out))
    run_again(checkpoint, 0)
    mark = (out / MARK).read_bytes()
    (out / MARK).unlink()
    with pytest.raises(StateStoreError, match="If this query wrote it, put a file") as refused:
        begin(events, checkpoint, out)
    assert mark.decode() in str(refused.value)
    (out / MARK).write_bytes(mark)
    finished(begin(events, checkpoint, out))
    finished(begin(events, tmp_path / "later", tmp_path / "later-out"))
    for _ in range(2):
        events.add(("ann", 1, 0))
        finished(begin(events, checkpoint, out))
        finished(begin(events, tmp_path / "later", tmp_path / "later-out"))
    shutil.rmtree(out / "batch=1")
    check({"batch=0", "batch=2"})
    shutil.rmtree(out / "batch=2")
    check({"batch=0"})


def test_a_mark_or_an_id_that_is_damaged_or_gone_is_named(spark: SparkSession, events: Events, tmp_path: Path) -> None:
    out, checkpoint = tmp_path / "out", tmp_path / "cp"
    events.add(("ann", 1, 0))
    finished(begin(events, checkpoint, out))
    (out / MARK).write_bytes(b"")
    with pytest.raises(CorruptFileError, match=f"{MARK}.*delete this file, and it is written again"):
        begin(events, checkpoint, out)
    (out / MARK).unlink()
    (checkpoint / "metadata").rename(checkpoint / "kept")
    with pytest.raises(MissingFileError, match="metadata: Spark's file with the query's id is not there"):
        begin(events, checkpoint, out)
    (checkpoint / "kept").rename(checkpoint / "metadata")
    events.add(("ann", 1, 0))
    finished(begin(events, checkpoint, out))
    assert rows_of(spark, out) == [(0, "ann", 1), (1, "ann", 2)]


def test_what_a_driver_was_writing_when_another_one_swept_it_is_not_published(
    spark: SparkSession, tmp_path: Path
) -> None:
    out, go = tmp_path / "out", tmp_path / "go"
    slow, quick = (sink_of(spark, out, tmp_path / "cp") for _ in range(2))

    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            while "late" in batch.column(0).to_pylist() and not go.exists():
                time.sleep(0.05)
            yield batch

    rows = [("early", 1), ("late", 1)]
    # One partition is written before the sweep, the other one after it.
    half = spark.createDataFrame(spark.sparkContext.parallelize(rows, 2), SCHEMA).mapInArrow(wait, SCHEMA)
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(slow, half, 3)
        try:
            wait_until(lambda: any(out.glob("_writing-*/_temporary/*/task_*/*.parquet")))
            quick.claim()
            quick(spark.createDataFrame(rows, SCHEMA).coalesce(1), 3)
        finally:
            go.touch()
        with pytest.raises(StateStoreError, match="another driver of this query above all"):
            writing.result(WAIT_SECONDS)
    assert rows_of(spark, out) == [(3, "early", 1), (3, "late", 1)]
    assert {path.name for path in out.iterdir()} == {"batch=3", MARK}


class Killed(BaseException):
    """In the place of the driver's end."""


def test_a_batch_that_is_replaced_is_there_whole_and_once_wherever_the_driver_is_killed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a driver that is slow: another one has committed the batch meanwhile, and will not write it again."""
    old, new = (spark.createDataFrame([("ann", n), ("bob", n)], SCHEMA).coalesce(1) for n in (1, 2))
    versions = [[(7, "ann", n), (7, "bob", n)] for n in (1, 2)]
    steps, killed_at = 0, 0

    def dying(method: Callable[..., None]) -> Callable[..., None]:
        def step(folder: OutputFolder, *names: Any) -> None:
            nonlocal steps
            steps += 1
            if 0 < killed_at <= steps:
                raise Killed
            method(folder, *names)

        return step

    for name in ("create", "rename", "delete"):
        monkeypatch.setattr(OutputFolder, name, dying(getattr(OutputFolder, name)))
    seen: list[list[tuple[Any, ...]]] = []
    for turn in range(1, 20):
        out = tmp_path / f"out{turn}"
        killed_at = 0
        sink_of(spark, out, tmp_path / "cp").claim()
        slow, quick, next_start = (sink_of(spark, out, tmp_path / "cp") for _ in range(3))
        quick(old, 7)
        steps, killed_at = 0, turn
        try:
            slow(new, 7)
        except Killed:
            pass
        else:
            break
        killed_at = 0
        assert not (out / "batch=7").exists() or rows_of(spark, out) in versions
        next_start.claim()
        seen.append(rows_of(spark, out))
        assert seen[-1] in versions
        assert {path.name for path in out.iterdir()} == {"batch=7", MARK}
        assert {path.name for path in (out / "batch=7").glob("_*")} == {"_SUCCESS"}
    assert rows_of(spark, out) == versions[1]
    assert {path.name for path in out.iterdir()} == {"batch=7", MARK}
    assert seen == sorted(seen)
    assert [seen.count(version) for version in versions] == [4, 2]


def test_a_folder_of_sparks_own_sink_and_a_column_batch_are_refused(
    spark: SparkSession, events: Events, tmp_path: Path
) -> None:
    events.add(("ann", 1, 0))
    (tmp_path / "out/_spark_metadata").mkdir(parents=True)
    writer = totals(events.stream()).writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "cp"))
    with pytest.raises(StateStoreError, match="Spark's own file sink has written there"):
        writer.start(str(tmp_path / "out"))
    schema = spark.createDataFrame([], "Batch long").schema
    with pytest.raises(ValueError, match="the output has a column 'batch'"):
        ParquetSink(spark, str(tmp_path / "x"), {}, schema, at(Path("cp")))
