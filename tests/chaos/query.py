"""The query of a history: its settings, its start, and its sinks."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.chaos.check import Sunk, check
from tests.chaos.deaths import watched
from tests.chaos.faults import Fault, pass_on, withdraw
from tests.chaos.functions import DELAY, METHODS, OUTPUT, TIMEOUTS, stateful
from tests.chaos.shapes import SHAPES
from tests.chaos.storage import checkpoint_of

_SCHEMA = "user long, v long, ms long"
_USERS = 12
_START_MS = 1_700_000_000_000

Step = Callable[[str, int], None]


@dataclass(frozen=True)
class Settings:
    """What holds for all drivers of a query.

    Attributes:
        method, timeouts: of the stateful function.
        version: of the checkpoint's format.
        parquet: whether our parquet sink takes the output, in the place of those of check.Sunk.
        options: hdfsstore.* options besides; with None that option is not given.
    """

    method: str
    timeouts: str = "NoTimeout"
    version: int = 2
    partitions: int = 2
    parquet: bool = False
    files_per_batch: int = 1
    options: dict[str, Any] = field(default_factory=dict, hash=False)

    @classmethod
    def at_random(cls, chance: random.Random, *, with_v1: bool) -> Settings:
        return cls(
            method=chance.choice(METHODS),
            timeouts=chance.choice(TIMEOUTS),
            version=chance.choice((1, 2, 2)) if with_v1 else 2,
            partitions=chance.randint(1, 3),
            parquet=chance.random() < 0.15,
            files_per_batch=chance.choice((1, 1, 2)),
            options={"minDeltasForSnapshot": chance.choice((1, 2, 10)), "maintenanceInterval": "1s"},
        )


class Query:
    """A query, its input and its checkpoint, which its drivers share.

    Attributes:
        location, checkpoint: the URI and the path of the checkpoint.

    Args:
        spark: None where it is not started in this process.
        folder: of all its files, which may be there already.
    """

    def __init__(self, spark: SparkSession | None, folder: Path, settings: Settings) -> None:
        self._spark = spark
        self._folder = folder
        self.settings = settings
        self.location, self.checkpoint = checkpoint_of(folder)
        self.images = folder / "images"
        self.faults = folder / "faults"
        for name in ("input", "sunk", "faults"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        self.files = len(list((folder / "input").iterdir()))

    def write(self, chance: random.Random, files: int = 1) -> None:
        """More input."""
        for _ in range(files):
            rows = [
                {
                    "user": chance.randrange(_USERS),
                    "v": chance.randrange(10),
                    "ms": _START_MS + 4000 * self.files + chance.randrange(-4000, 6000),
                }
                for _ in range(chance.choice((0, 5, 20, 40)))
            ]
            path = self._folder / "input" / f"{self.files:04d}.json"
            new = self._folder / path.name
            new.write_text("".join(json.dumps(row) + "\n" for row in rows))
            os.utime(new, (1_700_000_000 + self.files,) * 2)
            new.rename(path)
            self.files += 1

    def start(
        self,
        fault: Callable[[int], Fault | None],
        shape: Callable[[int], str],
        step: Step,
        checkpoint: Path | None = None,
    ) -> Any:
        """A driver: Spark's query, which ends when it has read all input.

        Args:
            fault: what goes wrong in the tasks of a batch.
            shape: what the sink does with a batch, of SHAPES.
            step: is called with the name of each step (deaths.STEPS) and the batch.
            checkpoint: a folder that leads to the query's.
        """
        assert self._spark is not None
        settings = self.settings
        location = checkpoint.as_uri() if checkpoint else self.location
        reader = self._spark.readStream.schema(_SCHEMA).option("maxFilesPerTrigger", settings.files_per_batch)
        rows = reader.json((self._folder / "input").absolute().as_uri())
        if settings.timeouts == "EventTimeTimeout":
            rows = rows.withColumn("t", F.timestamp_millis("ms")).withWatermark("t", f"{DELAY} milliseconds")
        writer = stateful(rows, settings.method, settings.timeouts, str(self.faults)).writeStream
        writer = writer.option("checkpointLocation", location).trigger(availableNow=True)
        options = {
            "localDir": str(self.images),
            "checkpointFormatVersion": settings.version,
            "numPartitions": settings.partitions,
            **settings.options,
        }
        for name, value in options.items():
            if value is not None:
                writer = writer.option(f"hdfsstore.{name}", value)
        faults: dict[int, Fault | None] = {}

        def at(name: str, batch_id: int) -> None:
            if name == "after our offsets":
                faults[batch_id] = its = fault(batch_id)
                if its:
                    its.announce(self.faults)
                else:
                    withdraw(self.faults)
            step(name, batch_id)

        watched[str(checkpoint or self.checkpoint)] = at
        sunk = self._sunk()
        if settings.parquet:
            return writer.format("parquet").start(sunk.folder.absolute().as_uri())

        def sink(output: DataFrame, batch_id: int) -> None:
            step("before the sink", batch_id)
            its = faults[batch_id]
            if its and its.point == "output":
                output = output.mapInArrow(partial(pass_on, str(self.faults)), OUTPUT)
            read, has_all = SHAPES[shape(batch_id)]
            found = read(output)
            if has_all:
                sunk.append(batch_id, found)
            step("in the sink", batch_id)
            sunk.replace(batch_id, found if has_all else None)
            step("after the sink", batch_id)

        return writer.foreachBatch(sink).start()

    def check(self, chance: random.Random) -> None:
        """AssertionError: something is not as it must be when all input is read."""
        check(self.location, self.checkpoint, self._sunk(), self.settings.timeouts, chance)

    def struck(self) -> set[str]:
        """The names of the faults that have struck a task."""
        return {path.name.split()[1] for path in self.faults.glob("struck *")}

    def was_repeated(self, name: str) -> bool:
        """Whether another attempt of a task came to where the fault of that name has struck."""
        return (self.faults / f"again {name}").exists()

    def _sunk(self) -> Sunk:
        return Sunk(self._folder / "sunk", is_parquet=self.settings.parquet)
