"""Queries over clicks of users, and the files that they read: what must be in the state is counted in plain Python."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

BATCHES = 4
Totals = dict[str, tuple[int, int]]
Transform = Callable[[DataFrame], DataFrame]


def totals(clicks: DataFrame) -> DataFrame:
    """The number of clicks of each user, and their seconds."""
    return clicks.groupBy("user").agg(F.count("*"), F.sum("seconds"))


def with_longest(clicks: DataFrame) -> DataFrame:
    return clicks.groupBy("user").agg(F.count("*"), F.sum("seconds"), F.max("seconds"))


def by_two(clicks: DataFrame) -> DataFrame:
    return clicks.groupBy("user", F.col("seconds") % 2).agg(F.count("*"), F.sum("seconds"))


def users(clicks: DataFrame) -> DataFrame:
    return clicks.select("user").dropDuplicates()


class Clicks:
    """A query over clicks of users, and the files that it reads, one a batch. It writes to `sink`, or nowhere."""

    def __init__(
        self,
        spark: SparkSession,
        folder: Path,
        files: int = BATCHES,
        first_user: str = "u00",
        query: Transform | None = None,
        sink: Path | None = None,
    ) -> None:
        self.spark = spark
        self._query = query or totals
        self._sink = sink
        self._first_user = first_user
        self._input = folder / "input"
        self._input.mkdir(parents=True)
        self.checkpoint = folder / "checkpoint"
        for number in range(files):
            self.write(number)
        self.run(self.checkpoint)

    def write(self, number: int, times: int = 1) -> None:
        """Writes a file: each user has a click, and a visitor comes who never comes again."""
        users = [self._first_user, *(f"u{user:02}" for user in range(1, 20)), f"visitor {number}"]
        rows = [{"user": user, "seconds": times * (10 * number + i)} for i, user in enumerate(users)]
        (self._input / f"{number:03}.json").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")

    def totals(self) -> Totals:
        """What the files say: the number of clicks of each user, and their seconds."""
        counts: Counter[str] = Counter()
        seconds: Counter[str] = Counter()
        for file in self._input.iterdir():
            for row in map(json.loads, file.read_text("utf-8").splitlines()):
                counts[row["user"]] += 1
                seconds[row["user"]] += row["seconds"]
        return {user: (counts[user], seconds[user]) for user in counts}

    def run(self, checkpoint: Path, query: Transform | None = None) -> None:
        """Starts the query, or another one on its checkpoint, and waits until there is no input left."""
        clicks = self.spark.readStream.schema("user string, seconds long").option("maxFilesPerTrigger", 1)
        result = (query or self._query)(clicks.json(str(self._input)))
        writer = result.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        if self._sink:
            writer.format("json").start(str(self._sink)).awaitTermination()
        else:
            writer.format("noop").outputMode("update").start().awaitTermination()
