"""How a batch is planned: with or without markers, with Spark's limit of an Arrow batch or without it."""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from hdfsstore import Checkpoint
from hdfsstore.spark import groupBy
from tests.spark.support.counts import count, write_batches

MAX_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
NO_LIMIT = str((1 << 31) - 1)
OUTPUT = "user long, n long, total long"
STATE = "n long, total long"


def batch_of(users: Sequence[int], seed: int = 0) -> pa.Table:
    """Rows of these users, some each."""
    chance = random.Random(seed)
    drawn = [chance.choice(users) for _ in range(20 * len(users))]
    return pa.table({"user": drawn, "v": [chance.randrange(9) for _ in drawn]})


def run(
    spark: SparkSession,
    tmp_path: Path,
    batches: Sequence[pa.Table],
    look: Callable[[DataFrame], object],
    prepare: Callable[[DataFrame], DataFrame] = lambda rows: rows,
    **options: Any,
) -> list[object]:
    """Counts by user, compares output and state with a dict's, and returns what `look` saw of each batch's output."""
    seen: list[object] = []
    outputs: dict[int, dict[int, tuple[int, int]]] = {}

    def sink(output: DataFrame, batch_id: int) -> None:
        seen.append(look(output))
        outputs[batch_id] = {row.user: (row.n, row.total) for row in output.collect()}

    source = write_batches(tmp_path / "in", batches)
    schema = ", ".join(f"{f.name} {'binary' if pa.types.is_binary(f.type) else 'long'}" for f in batches[0].schema)
    rows = prepare(spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(source)))
    counts = groupBy(rows, "user").mapInArrowWithState(count, OUTPUT, STATE, "update", "NoTimeout")
    writer = counts.writeStream.option("checkpointLocation", str(tmp_path / "cp")).trigger(availableNow=True)
    for name, value in {"numPartitions": 3, **options}.items():
        writer.option(f"hdfsstore.{name}", value)
    writer.foreachBatch(sink).start().awaitTermination()

    state: dict[int, tuple[int, int]] = {}
    for batch_id, batch in enumerate(batches):
        for user, v in zip(batch["user"].to_pylist(), batch["v"].to_pylist(), strict=True):
            n, total = state.get(user, (0, 0))
            state[user] = n + 1, total + v
        assert outputs[batch_id] == {user: state[user] for user in set(batch["user"].to_pylist())}
    kept = Checkpoint(tmp_path / "cp" / "hdfsstore").read_state().to_pylist()
    assert {row["key"]["user"]: tuple(row["value"]["groupState"].values()) for row in kept} == state
    return seen


def has_markers(output: DataFrame) -> bool:
    return "Union" in output._jdf.queryExecution().analyzed().toString()


def is_sorted(output: DataFrame) -> bool:
    return "Sort " in output._jdf.queryExecution().analyzed().toString()


@contextmanager
def confs(spark: SparkSession, **settings: str) -> Iterator[None]:
    names = {name: f"spark.sql.{name.replace('_', '.')}" for name in settings}
    for name, value in settings.items():
        spark.conf.set(names[name], value)
    try:
        yield
    finally:
        for name in settings:
            spark.conf.unset(names[name])


def test_markers_are_left_out_after_a_batch_with_rows_in_every_partition(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    all_users, one_user = range(30), [7]
    users = [all_users, all_users, one_user, one_user, all_users, all_users]
    batches = [batch_of(of, seed) for seed, of in enumerate(users)]
    with caplog.at_level(logging.INFO, "hdfsstore.spark.batch"):
        seen = run(spark, tmp_path, batches, has_markers)
    assert seen == [True, False, False, True, True, False]
    alone = [line for line in caplog.messages if "are run by themselves" in line]
    assert alone == ["2 partitions of batch 2 are run by themselves: without rows, or not read by the sink"]


def test_a_batch_of_which_spark_knows_that_it_is_empty_has_markers(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Each batch of rows moves the watermark, upon which Spark runs one without rows for the timeouts."""
    batches = [batch_of(range(30), seed) for seed in range(3)]
    source = write_batches(tmp_path / "in", [])
    seen: list[tuple[int, bool]] = []

    def expire(rows: pa.Table, state: Any) -> pa.Table:
        keys = rows.group_by("user").aggregate([("v", "count"), ("at", "max")])
        if keys.num_rows:
            before = pc.subtract(keys["at_max"], pa.scalar(50, pa.duration("s")))  # which the watermark will be beyond
            state.put(keys, pa.table({"n": keys["v_count"]}), before)
        gone = state.expired()
        state.remove(gone)
        return pa.table({"user": gone["user"]})

    def sink(output: DataFrame, _: int) -> None:
        markers = has_markers(output)
        seen.append((len(output.collect()), markers))

    rows = spark.readStream.schema("user long, v long, s long").parquet(str(source))
    rows = rows.select("user", "v", F.timestamp_seconds("s").alias("at")).withWatermark("at", "0 seconds")
    expiring = groupBy(rows, "user").mapInArrowWithState(expire, "user long", "n long", "update", "EventTimeTimeout")
    writer = expiring.writeStream.option("checkpointLocation", str(tmp_path / "cp"))
    query = writer.option("hdfsstore.numPartitions", 3).foreachBatch(sink).start()
    try:
        with caplog.at_level(logging.INFO, "hdfsstore.spark.batch"):
            for i, batch in enumerate(batches):
                seconds = pa.array([1_700_000_000 + 100 * i] * batch.num_rows)
                write_batches(tmp_path / f"new{i}", [batch.append_column("s", seconds)])
                (tmp_path / f"new{i}" / "000.parquet").rename(source / f"{i}.parquet")
                query.processAllAvailable()
    finally:
        query.stop()
    assert seen == [(0, True), (30, True), (0, False), (30, True), (0, False), (30, True)]
    assert not [line for line in caplog.messages if "are run by themselves" in line]


@pytest.mark.parametrize("advised", ["1b", "1g"])
def test_adaptive_execution_neither_joins_nor_splits_partitions(
    spark: SparkSession, tmp_path: Path, advised: str
) -> None:
    batches = [batch_of(range(300), seed) for seed in range(3)]
    with confs(
        spark,
        adaptive_advisoryPartitionSizeInBytes=advised,
        adaptive_coalescePartitions_minPartitionSize="1b",
        adaptive_coalescePartitions_parallelismFirst="false",
        adaptive_skewJoin_skewedPartitionThresholdInBytes="1b",
        adaptive_skewJoin_skewedPartitionFactor="1.0",
        adaptive_forceOptimizeSkewedJoin="true",
    ):
        assert run(spark, tmp_path, batches, has_markers) == [True, False, False]


def test_a_restart_plans_by_what_the_batches_before_were_like_and_a_batch_that_failed_with_care(
    spark: SparkSession, tmp_path: Path
) -> None:
    """One start a batch; after the fourth a partition has no rows, as nobody expects; the last one fails at first."""
    all_users, one_user = range(30), [7]
    batches = [batch_of(of, seed) for seed, of in enumerate([all_users] * 3 + [one_user] + [all_users] * 2)]
    source = write_batches(tmp_path / "in", [])
    seen: list[tuple[int, bool, bool, bool]] = []
    fails = False

    def sink(output: DataFrame, batch_id: int) -> None:
        seen.append((batch_id, has_markers(output), is_sorted(output), arrow_limit(output) == NO_LIMIT))
        if fails:
            raise ValueError("not yet")
        output.write.format("noop").mode("overwrite").save()

    def start() -> None:
        rows = spark.readStream.schema("user long, v long").parquet(str(source))
        counts = groupBy(rows, "user").mapInArrowWithState(count, OUTPUT, STATE, "update", "NoTimeout")
        writer = counts.writeStream.option("checkpointLocation", str(tmp_path / "cp")).trigger(availableNow=True)
        writer.option("hdfsstore.numPartitions", 3).foreachBatch(sink).start().awaitTermination()

    for i, batch in enumerate(batches):
        write_batches(tmp_path / f"new{i}", [batch])
        (tmp_path / f"new{i}/000.parquet").rename(source / f"{i}.parquet")
        fails = i == 5
        if fails:
            with pytest.raises(StreamingQueryException, match="not yet"):
                start()
            fails = False
        start()
    careful, quick = (True, True, False), (False, False, True)
    assert seen[:4] == [(0, *careful), (1, *quick), (2, *quick), (3, *quick)]
    assert seen[4:] == [(4, True, False, True), (5, *quick), (5, *careful)]
    users = [user for batch in batches for user in batch["user"].to_pylist()]
    kept = Checkpoint(tmp_path / "cp/hdfsstore").read_state().to_pylist()
    assert {row["key"]["user"]: row["value"]["groupState"]["n"] for row in kept} == Counter(users)


@pytest.mark.parametrize("prepare", ["deduplicated", "random"])
def test_rows_that_cannot_be_read_twice_have_markers(spark: SparkSession, tmp_path: Path, prepare: str) -> None:
    def rows(of: DataFrame) -> DataFrame:
        return of.withColumn("v", F.col("v") + F.floor(F.rand())) if prepare == "random" else of.dropDuplicates()

    chance = random.Random(1)
    users = [list(range(100)) for _ in range(3)]
    batches = [pa.table({"user": of, "v": [10 * i + chance.randrange(9) for _ in of]}) for i, of in enumerate(users)]
    assert run(spark, tmp_path, batches, has_markers, rows) == [True, True, True]


def test_large_batches_without_markers_are_sorted(spark: SparkSession, tmp_path: Path) -> None:
    batches = [batch_of(range(300), seed) for seed in range(4)]
    assert run(spark, tmp_path, batches, has_markers, maxBytesPerCall="20k") == [True, False, False, False]


def test_where_local_disks_are_encrypted_tasks_do_not_write_there_and_rows_are_sorted(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf = {**spark.conf.getAll, "spark.io.encryption.enabled": "true"}
    monkeypatch.setattr(type(spark.conf), "getAll", property(lambda _: conf))
    batches = [batch_of(range(30), seed) for seed in range(2)]
    assert run(spark, tmp_path, batches, is_sorted) == [True, True]


def arrow_limit(output: DataFrame) -> str:
    return str(output.sparkSession.conf.get(MAX_BYTES))


def test_the_limit_of_an_arrow_batch_is_lifted_for_small_rows_while_the_sink_runs(
    spark: SparkSession, tmp_path: Path
) -> None:
    default = str(spark.conf.get(MAX_BYTES))
    sessions: list[SparkSession] = []

    def look(output: DataFrame) -> str:
        sessions.append(output.sparkSession)
        return arrow_limit(output)

    batches = [batch_of(range(30), seed) for seed in range(3)]
    assert run(spark, tmp_path, batches, look) == [default, NO_LIMIT, NO_LIMIT]
    assert {session.conf.get(MAX_BYTES) for session in (spark, *sessions)} == {default}


def test_the_limit_stays_for_wide_rows(spark: SparkSession, tmp_path: Path) -> None:
    def wide(width: int, seed: int) -> pa.Table:
        batch = batch_of(range(30), seed)
        return batch.append_column("payload", pa.repeat(pa.scalar(bytes(width)), batch.num_rows))

    default = str(spark.conf.get(MAX_BYTES))
    batches = [wide(width, seed) for seed, width in enumerate([100, 100, 2000, 100, 100])]
    seen = run(spark, tmp_path, batches, arrow_limit)
    assert seen == [default, NO_LIMIT, NO_LIMIT, default, NO_LIMIT]


@pytest.mark.parametrize("who", ["the user has set it", "Python makes the rows"])
def test_the_limit_stays_where_it_is_not_ours_to_lift(spark: SparkSession, tmp_path: Path, who: str) -> None:
    batches = [batch_of(range(30), seed) for seed in range(3)]
    if who == "the user has set it":
        spark.conf.set(MAX_BYTES, "32m")
        try:
            assert run(spark, tmp_path, batches, arrow_limit) == ["32m"] * 3
        finally:
            spark.conf.unset(MAX_BYTES)
    else:
        same = F.udf(lambda v: v, "long")
        seen = run(spark, tmp_path, batches, arrow_limit, lambda rows: rows.withColumn("v", same("v")))
        assert seen == [str(spark.conf.get(MAX_BYTES))] * 3
