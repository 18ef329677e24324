"""Streaming queries that take turns: each gets files when it is its turn, and says how long each batch took."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from bench.events import SCHEMA, Events

Start = Callable[[DataFrame, Path], StreamingQuery]
"""Starts a query on these rows with that checkpoint."""


class Stream:
    """A query on a folder of its own, into which `batches` links files.

    Args:
        folder: gets the rows and the checkpoint, unless they are there.
    """

    def __init__(self, spark: SparkSession, folder: Path, start: Start) -> None:
        self._source = folder / "source"
        self._source.mkdir(parents=True, exist_ok=True)
        # Queries that wait for their turn look for files seldom.
        spark.conf.set("spark.sql.streaming.pollingDelay", "500ms")
        reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).option("maxFileAge", "10000d")
        self._last_batch = -1
        self.query = start(reader.parquet(str(self._source)), folder / "checkpoint")

    def batches(self, events: Events, first: int, count: int = 1) -> list[float]:
        """Runs batches one right after the other, and returns the seconds that each took, all in all."""
        for batch in range(first, first + count):
            os.link(events.file(batch), self._source / f"{events.rows}-{events.known}-{batch}.parquet")
        self.query.processAllAvailable()
        with_rows = [progress for progress in self.query.recentProgress if progress.numInputRows]
        done = [progress for progress in with_rows if progress.batchId > self._last_batch]
        if len(done) != count:
            raise RuntimeError(f"there were {len(done)} batches with rows in the place of {count}")
        self._last_batch = done[-1].batchId
        return [progress.durationMs["triggerExecution"] / 1e3 for progress in done]

    def close(self) -> None:
        """Stops the query."""
        self.query.stop()


def take_turns(
    streams: Mapping[str, tuple[Stream, Events]], first: int, rounds: int, warm_up: int = 3
) -> dict[str, float]:
    """Median seconds of a batch of each stream, over `rounds` batches after `warm_up` that do not count."""
    taken: dict[str, list[float]] = {name: [] for name in streams}
    for turn in range(warm_up + rounds):
        for name, (stream, events) in streams.items():
            seconds = stream.batches(events, first + turn)
            if turn >= warm_up:
                taken[name] += seconds
    return {name: statistics.median(seconds) for name, seconds in taken.items()}
