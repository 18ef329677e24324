"""A job that is started for each batch, as a scheduler does with availableNow: ten starts of one batch each."""

from __future__ import annotations

import statistics

import pytest
from pyspark.sql import SparkSession

from bench import spark_sides
from bench.events import Events
from bench.our_sides import IN_ARROW, ours
from bench.report import Report
from bench.streams import started

PLAN = "the plan without state"
STARTS = 10


@pytest.mark.parametrize("rows", [100_000, 1_000_000])
def test_starts(spark: SparkSession, report: Report, smoke: bool, rows: int) -> None:
    rows = rows // 100 if smoke else rows
    events = Events(rows, rows // 2, rows // 2)
    sides = {PLAN: spark_sides.without_state, IN_ARROW: ours(IN_ARROW)}
    taken: dict[str, list[float]] = {name: [] for name in sides}
    with started(spark, sides) as streams:
        for stream in streams.values():
            stream.batches(events, 0, 2)
            stream.query.stop()
        for turn in range(2, 3 if smoke else 2 + STARTS):
            for name, stream in streams.items():
                taken[name].append(stream.first_batch(events, turn))
    for name, seconds in taken.items():
        what = f"{rows:,} rows, a start and one batch: {name}"
        report.add(what, f"{statistics.median(seconds):.2f} s", f"median of {len(seconds)}")
    ratio = statistics.median(taken[IN_ARROW]) / statistics.median(taken[PLAN])
    report.add(f"{IN_ARROW} takes, of {PLAN}", f"{ratio:.2f} x", "")
