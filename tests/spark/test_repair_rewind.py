"""A query of Spark is set back, and goes on: its output and its state are those of a query that never stopped.

A file source gives the files of all batches that are taken back in one batch, unless they are replayed.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import hdfsstore
from hdfsstore.checkpoint.conf import PROVIDER, ROCKSDB_PROVIDER
from hdfsstore.checkpoint.guard import Guard, encode_guard
from hdfsstore.repair.rewind import rewind
from hdfsstore.repair.undo import undo
from hdfsstore.repair.verbs import repartition
from tests.data.generate import cases
from tests.data.generate.case import CASES, Inputs, Query
from tests.spark.support.own_checkpoint import CHANGELOGS
from tests.support.continued_stores import FORMAT_VERSION, stores_of
from tests.support.rows import counted

TO = 1
# The batch before the one that takes the last file.
BEFORE_LAST = 2
ROCKSDB = {PROVIDER: ROCKSDB_PROVIDER, CHANGELOGS: "true"}
# Each with another kind of state files.
QUERIES: dict[str, tuple[Callable[[Inputs], Query], dict[str, str]]] = {
    "aggregation": (CASES["aggregation"].build, {}),
    "join_left_outer": (lambda inputs: cases.joined(inputs, "leftOuter", batches=4), ROCKSDB),
    "drop_duplicates_within_watermark": (
        CASES["drop_duplicates_within_watermark"].build,
        {**ROCKSDB, FORMAT_VERSION: "2"},
    ),
}
COMPACT = "spark.sql.streaming.fileSink.log.compactInterval"


@pytest.fixture
def confs(spark: SparkSession) -> Iterator[Callable[[dict[str, str]], None]]:
    """Sets confs until the test ends."""
    names: set[str] = set()

    def set_all(settings: dict[str, str]) -> None:
        for name, value in settings.items():
            spark.conf.set(name, value)
            names.add(name)

    yield set_all
    for name in names:
        spark.conf.unset(name)


def run(query: Query, checkpoint: Path) -> dict[int, Counter[str]]:
    """The rows that each batch gives, until there is no input left."""
    outputs = {}

    def sink(batch: DataFrame, batch_id: int) -> None:
        outputs[batch_id] = counted(batch.toArrow())

    writer = query.frame.writeStream.foreachBatch(sink).outputMode(query.mode)
    writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()
    return outputs


def states(checkpoint: Path, batch_id: int | None = None, *, partitions: bool = True) -> dict[str, Counter[str]]:
    """The rows of every store after a batch, the last one by default; with the partition of each, or without."""
    opened = hdfsstore.Checkpoint(checkpoint)
    found = {}
    for store in stores_of(checkpoint):
        rows = opened.read_state(store.operator_id, store.name, batch_id)
        name = f"{store.operator_id} {store.name}"
        found[name] = counted(rows if partitions else rows.drop_columns(["partition_id"]))
    return found


@pytest.mark.parametrize("name", QUERIES)
def test_spark_goes_on_after_a_rewind(spark: SparkSession, tmp_path: Path, confs: Any, name: str) -> None:
    build, settings = QUERIES[name]
    confs(settings)
    query = build(Inputs(spark, tmp_path / "input"))
    whole, part = tmp_path / "whole", tmp_path / "part"
    expected, state = run(query, whole), None
    shutil.copytree(whole, part)

    again = {"sink_accepts_batches_again": True}
    rewind(part, TO, replay=True, **again)
    assert states(part) == states(whole, TO)
    outputs = run(query, part)
    # The rest of the files come in one batch, which was one before, too.
    assert {number: rows for number, rows in outputs.items() if rows} == {
        number: rows for number, rows in expected.items() if rows and number > TO
    }
    state = states(whole)
    assert states(part) == state
    undo(part, force=True)
    assert states(part) == state
    assert run(query, part) == {}, "the query had nothing to do before the rewind"

    for number, options in enumerate(({}, {"replay_merged": True})):
        other = shutil.copytree(whole, tmp_path / f"other {number}")
        rewind(other, TO, **options, **again)
        merged = run(query, other)
        assert min(merged) == TO + 1
        assert states(other).keys() == state.keys()
        if name == "aggregation":
            assert states(other) == state
            assert [rows for rows in merged.values() if rows] == [final_rows(expected, TO)]


@pytest.mark.parametrize("name", QUERIES)
def test_spark_goes_on_from_a_batch_that_was_added(spark: SparkSession, tmp_path: Path, confs: Any, name: str) -> None:
    build, settings = QUERIES[name]
    confs(settings)
    query = build(Inputs(spark, tmp_path / "input"))
    whole = tmp_path / "whole"
    expected = run(query, whole)
    newest = max(expected)
    part = shutil.copytree(whole, tmp_path / "part")
    rewind(part, BEFORE_LAST, continue_numbers=True)
    assert states(part) == states(whole, BEFORE_LAST)
    outputs = run(query, part)
    assert min(outputs, default=newest + 3) > newest + 2
    again = [rows for number, rows in expected.items() if number > BEFORE_LAST and rows]
    assert [rows for rows in outputs.values() if rows] == again
    assert states(part) == states(whole)


@pytest.mark.parametrize("name", QUERIES)
def test_spark_goes_on_with_other_partitions(spark: SparkSession, tmp_path: Path, confs: Any, name: str) -> None:
    build, settings = QUERIES[name]
    confs(settings)
    query = build(Inputs(spark, tmp_path / "input"))
    whole = tmp_path / "whole"
    expected = run(query, whole)
    part = shutil.copytree(whole, tmp_path / "part")
    rewind(part, BEFORE_LAST, sink_accepts_batches_again=True)
    repartition(part, None, 3)
    outputs = run(query, part)
    again = [rows for number, rows in expected.items() if number > BEFORE_LAST and rows]
    assert [rows for rows in outputs.values() if rows] == again
    stores = [store for operator in hdfsstore.Checkpoint(part).operators for store in operator.stores]
    assert {store.num_partitions for store in stores} == {3}
    assert states(part, partitions=False) == states(whole, partitions=False)


def final_rows(expected: dict[int, Counter[str]], after: int) -> Counter[str]:
    """What an update of all later batches at once gives: the last row of each key."""
    last = {row.split(",")[0]: row for number in sorted(expected) if number > after for row in expected[number]}
    return Counter(last.values())


def test_a_file_sink_gets_each_row_once(spark: SparkSession, tmp_path: Path, confs: Any) -> None:
    confs({COMPACT: "3"})
    rows = [[{"k": f"{number} {i}"} for i in range(3)] for number in range(5)]
    inputs = Inputs(spark, tmp_path / "input")
    checkpoint, sink = tmp_path / "checkpoint", tmp_path / "sink"

    def go_on() -> None:
        frame = inputs.stream("clicks", "k STRING", []).dropDuplicates(["k"])
        writer = frame.writeStream.format("json").option("checkpointLocation", str(checkpoint))
        writer.trigger(availableNow=True).start(str(sink)).awaitTermination()

    def there() -> list[str]:
        return sorted(row.k for row in spark.read.json(str(sink)).collect())

    inputs.stream("clicks", "k STRING", rows[:4])
    go_on()
    everything = sorted(row["k"] for batch in rows[:4] for row in batch)
    assert there() == everything
    assert (sink / "_spark_metadata/2.compact").exists()
    rewind(checkpoint, TO, replay=True, file_sink=sink)
    assert there() == sorted(row["k"] for batch in rows[: TO + 1] for row in batch)
    undo(checkpoint)
    assert there() == everything
    rewind(checkpoint, TO, replay=True, file_sink=sink)
    inputs.stream("clicks", "k STRING", rows[4:])
    go_on()
    assert there() == sorted(row["k"] for batch in rows for row in batch)
    # Batches that are added have entries in the sink's log: the query gets past two compactions.
    for number in range(3):
        rewind(checkpoint, hdfsstore.Checkpoint(checkpoint).latest_batch_id, continue_numbers=True, file_sink=sink)
        rows.append([{"k": f"later {number}"}])
        inputs.stream("clicks", "k STRING", rows[-1:])
        go_on()
        assert there() == sorted(row["k"] for batch in rows for row in batch)
    assert (sink / "_spark_metadata/8.compact").exists()


def test_spark_refuses_to_start_behind_the_guard(spark: SparkSession, tmp_path: Path) -> None:
    query = CASES["aggregation"].build(Inputs(spark, tmp_path / "input"))
    checkpoint = tmp_path / "checkpoint"
    run(query, checkpoint)
    newest = hdfsstore.Checkpoint(checkpoint).latest_batch_id
    guard = checkpoint / "offsets" / str(newest + 1)
    guard.write_bytes(encode_guard(Guard("rewind", "20261122T231501.123Z")))
    with pytest.raises(StreamingQueryException, match="INVALID_LOG_VERSION"):
        run(query, checkpoint)
    guard.unlink()
    assert run(query, checkpoint) == {}


def test_a_query_that_runs_trips_over_the_guard(spark: SparkSession, tmp_path: Path) -> None:
    inputs = Inputs(spark, tmp_path / "input")
    frame = inputs.stream("clicks", "k STRING", [[{"k": "a"}]]).groupBy("k").count()
    writer = frame.writeStream.format("noop").outputMode("update")
    running = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        running.processAllAvailable()
        (tmp_path / "checkpoint/offsets/1").write_bytes(encode_guard(Guard("rewind", "20261122T231501.123Z")))
        inputs.stream("clicks", "k STRING", [[{"k": "b"}]])
        with pytest.raises(StreamingQueryException, match="CONCURRENT_STREAM_LOG_UPDATE"):
            running.processAllAvailable()
    finally:
        running.stop()
    assert not (tmp_path / "checkpoint/commits/1").exists()
