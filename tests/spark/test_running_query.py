"""Reading the checkpoint of a query that runs, while Spark's maintenance removes files under us."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import hdfsstore

ROWS_PER_BATCH = 500
BATCHES = 12
SECONDS_AT_MOST = 600
CONFS = {
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "2",
    "spark.sql.streaming.stateStore.maintenanceInterval": "50ms",
}


@pytest.fixture
def running(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    """The checkpoint of a query that counts rows by key, one batch after the other."""
    # Maintenance keeps the interval it was first started with.
    spark._jvm.org.apache.spark.sql.execution.streaming.state.StateStore.stop()
    for name, value in CONFS.items():
        spark.conf.set(name, value)
    counts = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", ROWS_PER_BATCH)
        .load()
        .groupBy((F.col("value") % 50).alias("key"))
        .count()
    )
    query = (
        counts.writeStream.format("noop")
        .outputMode("update")
        .option("checkpointLocation", str(tmp_path / "cp"))
        .start()
    )
    try:
        yield tmp_path / "cp"
    finally:
        query.stop()
        for name in CONFS:
            spark.conf.unset(name)


def rows_until(checkpoint: hdfsstore.Checkpoint, batch_id: int) -> int:
    """How many rows the source had given by the end of a batch: that is its offset."""
    offset = checkpoint.batch(batch_id).offsets[0]
    assert offset is not None
    return int(json.loads(offset)["offset"])


def counted(table: pa.Table) -> int:
    return pc.sum(table["value"].combine_chunks().field(0)).as_py() or 0


def removed_by_maintenance(checkpoint: Path) -> bool:
    """Whether the first delta is gone."""
    return not (checkpoint / "state/0/0/1.delta").exists()


def test_every_read_is_right_or_says_that_retention_passed(running: Path) -> None:
    deadline = time.monotonic() + SECONDS_AT_MOST
    outcomes: Counter[str] = Counter()
    latest = 0
    # The query goes on for as long as it takes, whichever of the two is slow: it, or this reader.
    while latest < BATCHES or outcomes["right"] <= BATCHES or not removed_by_maintenance(running):
        assert time.monotonic() < deadline, (latest, outcomes)
        time.sleep(0.02)
        try:
            checkpoint = hdfsstore.Checkpoint(running)
            latest = checkpoint.latest_batch_id
            expected = {
                batch_id: rows_until(checkpoint, batch_id) for batch_id in range(max(latest - 3, 0), latest + 1)
            }
        except (hdfsstore.CheckpointNotFoundError, hdfsstore.BatchNotAvailableError):
            continue  # The query has not begun, or the logs of an older batch were purged just now.
        for batch_id, rows in expected.items():
            try:
                assert counted(checkpoint.read_state(batch_id=batch_id)) == rows
                assert counted(checkpoint.open_state(batch_id=batch_id).read_all()) == rows
                outcomes["right"] += 1
            except hdfsstore.BatchNotAvailableError:
                assert batch_id < checkpoint.latest_batch_id, "the newest batch is never removed"
                outcomes["passed"] += 1
