"""One stateful function on Spark's own API and on hdfsstore.spark: its rows, and its speed."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.state import GroupState
from rich import box
from rich.table import Table

from demo.events import SPARK_SCHEMA
from hdfsstore.spark import groupBy

OUTPUT = "user long, clicks long, seconds long"
STATE = "clicks long, seconds long"

Rows = list[tuple[int, int, int]]


def totals(key: tuple[int], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    """A user's clicks, and seconds on our pages."""
    clicks, seconds = state.get if state.exists else (0, 0)
    for frame in frames:
        clicks += len(frame)
        seconds += int(frame["seconds"].sum())
    state.update((clicks, seconds))
    yield pd.DataFrame({"user": [key[0]], "clicks": [clicks], "seconds": [seconds]})


def totals_of_all(rows: pa.Table, state: Any) -> pa.Table:
    """The same of all users of a partition."""
    new = rows.group_by("user").aggregate([([], "count_all"), ("seconds", "sum")])
    before = state.get(new)
    clicks = pc.add(new["count_all"], pc.fill_null(before["clicks"], 0))
    seconds = pc.add(new["seconds_sum"], pc.fill_null(before["seconds"], 0))
    state.put(new, pa.table({"clicks": clicks, "seconds": seconds}))
    return pa.table({"user": new["user"], "clicks": clicks, "seconds": seconds})


# Beside the table of README.
WHY_LESS = (
    "Small batches: much of each is Spark's own time, which both need. README's 5.6 to 6.7 x are of batches of 100,000 "
    "rows."
)


@dataclass(frozen=True)
class Run:
    """A query that has run: its output by batch, in order of the users, and clicks a second without the first batch."""

    batches: dict[int, Rows]
    clicks_per_second: float


def run_both(spark: SparkSession, clicks: Path, checkpoints: Path) -> dict[str, Run]:
    """Spark's applyInPandasWithState, ours with the same function, and mapInArrowWithState."""
    events = spark.readStream.schema(SPARK_SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(clicks))
    arguments = OUTPUT, STATE, "update", "NoTimeout"
    return {
        "Spark": _run(
            checkpoints / "spark",
            lambda sink: (
                events.groupBy("user")
                .applyInPandasWithState(totals, *arguments)
                .writeStream.outputMode("update")
                .foreachBatch(sink)
            ),
        ),
        "hdfsstore": _run(
            checkpoints / "hdfsstore",
            lambda sink: (
                groupBy(events, "user")
                .applyInPandasWithState(totals, *arguments)
                .writeStream.outputMode("update")
                .foreachBatch(sink)
            ),
        ),
        "mapInArrowWithState": _run(
            checkpoints / "arrow",
            lambda sink: (
                groupBy(events, "user")
                .mapInArrowWithState(totals_of_all, *arguments)
                .writeStream.outputMode("update")
                .foreachBatch(sink)
            ),
        ),
    }


def speed_table(runs: dict[str, Run]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for name in ("", "clicks a second", "faster"):
        table.add_column(name, justify="right" if name else "left")
    names = {
        "Spark": "Spark's applyInPandasWithState",
        "hdfsstore": "ours, the same function",
        "mapInArrowWithState": "ours, mapInArrowWithState",
    }
    for name, run in runs.items():
        times = run.clicks_per_second / runs["Spark"].clicks_per_second
        table.add_row(names[name], f"{run.clicks_per_second:,.0f}", f"{times:,.1f} x" if name != "Spark" else "")
    return table


def _run(checkpoint: Path, writer: Callable[[Callable[[DataFrame, int], None]], Any]) -> Run:
    batches: dict[int, Rows] = {}

    def sink(output: DataFrame, batch_id: int) -> None:
        batches[batch_id] = sorted((row.user, row.clicks, row.seconds) for row in output.collect())

    query = writer(sink).option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
    progress = [batch for batch in query.recentProgress if batch.numInputRows][1:]
    speed = statistics.median(batch.numInputRows / batch.batchDuration * 1000 for batch in progress)
    return Run(batches, speed)
