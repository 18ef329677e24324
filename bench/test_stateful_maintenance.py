"""What maintenance in the workers costs the batches of a query: frequent snapshots and images, against none at all."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from bench.events import Events
from bench.our_sides import IN_ARROW, ours
from bench.report import Report
from bench.streams import Start, started

KEYS = 1_000_000
WITH, WITHOUT = "snapshots after every third batch", "no maintenance"


def with_settings(start: Start, spark: SparkSession, **settings: object) -> Start:
    """The same query, started under these confs of the session, which it keeps."""

    def start_so(rows: DataFrame, checkpoint: Path) -> StreamingQuery:
        for name, value in settings.items():
            spark.conf.set(f"spark.hdfsstore.{name}", str(value))
        try:
            return start(rows, checkpoint)
        finally:
            for name in settings:
                spark.conf.unset(f"spark.hdfsstore.{name}")

    return start_so


@pytest.mark.parametrize("partitions", [2, 8])
def test_maintenance(spark: SparkSession, report: Report, smoke: bool, partitions: int) -> None:
    keys, rows = (KEYS // 100, 1_000) if smoke else (KEYS, 100_000)
    fill, events = Events(keys, keys, 0), Events(rows, rows // 2, keys)
    query = ours(IN_ARROW, num_partitions=partitions)
    sides = {
        WITH: with_settings(query, spark, minDeltasForSnapshot=2, maintenanceInterval="1s"),
        WITHOUT: with_settings(query, spark, minDeltasForSnapshot=100_000, maintenanceInterval=0),
    }
    taken: dict[str, list[float]] = {name: [] for name in sides}
    with started(spark, sides) as streams:
        for stream in streams.values():
            stream.batches(fill, 0)
        for turn in range(1, 2 if smoke else 10):
            for name, stream in streams.items():
                # Three batches, so that each turn has its share of snapshots.
                seconds = stream.batches(events, 3 * turn, 3)
                if turn > 2 or smoke:
                    taken[name] += seconds
        made = {
            name: sum(
                progress["stateOperators"][0]["customMetrics"]["snapshotsUploaded"]
                for progress in stream.query.hdfsstore.recentProgress
            )
            for name, stream in streams.items()
        }
    medians = {name: statistics.median(seconds) for name, seconds in taken.items()}
    for name, seconds in medians.items():
        what = f"{keys:,} keys, {partitions} partitions: {name}"
        report.add(what, f"{seconds:.2f} s", f"{made[name]} snapshots in {3 * turn + 1} batches")
    ratio = medians[WITH] / medians[WITHOUT]
    report.add("a batch beside maintenance takes, of one without", f"{ratio:.2f} x", "goal: at most 1.1 x")
    assert made[WITHOUT] == 0
