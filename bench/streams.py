"""Streaming queries that take turns: each gets files when it is its turn, and says how long each batch took."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from bench.cache import work_folder
from bench.events import SCHEMA, Events

Start = Callable[[DataFrame, Path | str], StreamingQuery]
"""Starts a query on these rows with that checkpoint."""
K = TypeVar("K")


class Stream:
    """A query on a folder of its own, which has its rows, a file a batch, and its checkpoint.

    Attributes:
        query: the one that was started last.
    """

    query: Any  # a StreamingQuery; ours also has `hdfsstore`

    def __init__(self, spark: SparkSession, folder: Path, start: Start) -> None:
        self._spark = spark
        self._start = start
        self._folder = folder
        self._source = folder / "source"
        self._source.mkdir(parents=True, exist_ok=True)
        self._last_batch = -1

    def start(self) -> None:
        """Starts the query, for the first time or again."""
        # Queries that wait for their turn look for files seldom.
        self._spark.conf.set("spark.sql.streaming.pollingDelay", "500ms")
        reader = self._spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).option("maxFileAge", "10000d")
        self.query = self._start(reader.parquet(str(self._source)), self._folder / "checkpoint")

    def batches(self, events: Events, first: int, count: int = 1) -> list[float]:
        """Runs batches one right after the other, and returns the seconds that each took, all in all."""
        for batch in range(first, first + count):
            self._add(events, batch)
        self.query.processAllAvailable()
        with_rows = [progress for progress in self.query.recentProgress if progress.numInputRows]
        done = [progress for progress in with_rows if progress.batchId > self._last_batch]
        if len(done) != count:
            raise RuntimeError(f"there were {len(done)} batches with rows in the place of {count}")
        self._last_batch = done[-1].batchId
        return [progress.durationMs["triggerExecution"] / 1e3 for progress in done]

    def first_batch(self, events: Events, batch: int) -> float:
        """The seconds from the start of the query until it has done a batch, upon which it is stopped."""
        self._add(events, batch)
        begun = time.perf_counter()
        self.start()
        self.query.processAllAvailable()
        elapsed = time.perf_counter() - begun
        self.query.stop()
        return elapsed

    def _add(self, events: Events, batch: int) -> None:
        os.link(events.file(batch), self._source / f"{events.rows}-{events.known}-{batch}.parquet")


@contextmanager
def started(spark: SparkSession, sides: Mapping[K, Start]) -> Iterator[dict[K, Stream]]:
    """A stream of each side that runs, in folders of their own."""
    with ExitStack() as stack:
        folder = stack.enter_context(work_folder())
        streams = {}
        for number, (name, start) in enumerate(sides.items()):
            streams[name] = Stream(spark, folder / str(number), start)
            streams[name].start()
            stack.callback(streams[name].query.stop)
        yield streams


def take_turns(streams: Mapping[K, Stream], events: Events, rounds: int, warm_up: int) -> dict[K, float]:
    """Median seconds of a batch of each stream, over `rounds` batches after `warm_up` that do not count."""
    taken: dict[K, list[float]] = {name: [] for name in streams}
    for turn in range(warm_up + rounds):
        for name, stream in streams.items():
            seconds = stream.batches(events, turn)
            if turn >= warm_up:
                taken[name] += seconds
    return {name: statistics.median(seconds) for name, seconds in taken.items()}
