"""Stateful functions on streams: Spark's and ours, and what neither can go below. Count and sum by user."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec

import pytest
from pyspark.sql import SparkSession

from bench import our_sides, spark_sides
from bench.cache import work_folder
from bench.events import Events
from bench.report import Report
from bench.streams import Start, Stream, take_turns

PLAN = "the plan without state"
SQL = "Spark's SQL aggregation"


@contextmanager
def started(spark: SparkSession, sides: Mapping[str, Start]) -> Iterator[dict[str, Stream]]:
    """A stream of each side, in folders of their own."""
    with ExitStack() as stack:
        folder = stack.enter_context(work_folder())
        streams = {}
        for number, (name, start) in enumerate(sides.items()):
            streams[name] = Stream(spark, folder / str(number), start)
            stack.callback(streams[name].close)
        yield streams


def batch_of(rows: int, smoke: bool) -> Events:
    """Batches of so many rows over half as many users, the same in each batch."""
    rows = rows // 100 if smoke else rows
    return Events(rows, rows // 2, rows // 2)


@pytest.mark.parametrize("rows", [100_000, 1_000_000])
def test_map_in_arrow(spark: SparkSession, report: Report, smoke: bool, rounds: int, rows: int) -> None:
    events = batch_of(rows, smoke)
    ours = "mapInArrowWithState"
    sides = {SQL: spark_sides.sql_aggregation, PLAN: spark_sides.without_state, ours: our_sides.in_arrow}
    with started(spark, sides) as streams:
        taken = take_turns({name: (stream, events) for name, stream in streams.items()}, 0, rounds, 0 if smoke else 3)
    for name, seconds in taken.items():
        report.add(f"{events.rows:,} rows: {name}", f"{seconds:.2f} s", "")
    report.add(f"{ours} takes, of {PLAN}", f"{taken[ours] / taken[PLAN]:.2f} x", "goal: at most 1.3 x")
    goal = "goal: faster" if rows == 100_000 else "goal: 1.7 x"
    report.add(f"{ours} is faster than {SQL} by", f"{taken[SQL] / taken[ours]:.2f} x", goal)


def test_map(spark: SparkSession, report: Report, smoke: bool, rounds: int) -> None:
    events = batch_of(100_000, smoke)
    ours, by_dict = "mapWithState", "the same on a dict, kept nowhere"
    sides = {PLAN: spark_sides.without_state, by_dict: spark_sides.dict_state, ours: our_sides.in_rows}
    with started(spark, sides) as streams:
        taken = take_turns({name: (stream, events) for name, stream in streams.items()}, 0, rounds, 0 if smoke else 3)
    for name, seconds in taken.items():
        report.add(f"{events.rows:,} rows: {name}", f"{seconds:.2f} s", f"{events.rows / seconds:,.0f} rows/s")
    report.add(f"{ours} takes, of {PLAN}", f"{taken[ours] / taken[PLAN]:.2f} x", "goal: at most 2.2 x")
    if find_spec("google.protobuf") is None:
        report.add("Spark's transformWithState", "-", "not run: pip install protobuf")
        return
    with started(spark, {"rows": spark_sides.transform}) as streams:
        seconds = streams["rows"].batches(events, 0, 1 if smoke else 2)[-1]
    report.add(f"{events.rows:,} rows: Spark's transformWithState", f"{seconds:.2f} s", "")


def test_apply_in_pandas(spark: SparkSession, report: Report, smoke: bool) -> None:
    events = batch_of(100_000, smoke)
    rounds = 1 if smoke else 3
    tables = [events.table(batch) for batch in range(2)]
    floors: list[float] = []
    ours: list[float] = []
    with started(spark, {"ours": our_sides.in_pandas}) as streams:
        floor = spark_sides.pandas_floor(tables, rounds + 1)
        for turn in range(rounds + 1):
            floors.append(floor())
            ours += streams["ours"].batches(events, turn)
    with started(spark, {"theirs": spark_sides.in_pandas}) as streams:
        theirs = streams["theirs"].batches(events, 0, 1 if smoke else 2)[-1]
    low, mine = statistics.median(floors[1:]), statistics.median(ours[1:])
    report.add(f"{events.rows:,} rows: applyInPandasWithState's function alone", f"{low:.2f} s", "two processes")
    report.add(f"{events.rows:,} rows: Spark's applyInPandasWithState", f"{theirs:.2f} s", "")
    report.add(f"{events.rows:,} rows: applyInPandasWithState", f"{mine:.2f} s", "")
    report.add("ours is faster than Spark's by", f"{theirs / mine:.1f} x", "goal: 4 x")
    report.add("ours takes, of the function alone", f"{mine / low:.2f} x", "goal: at most 1.3 x")
