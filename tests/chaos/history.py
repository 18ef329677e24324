"""One random history: a query, its input, what goes wrong, and what must be there in the end."""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from tests.chaos import log
from tests.chaos.deaths import STEPS, end_query, other_checkpoint
from tests.chaos.faults import KINDS, POINTS, Fault
from tests.chaos.query import Query, Settings
from tests.chaos.shapes import SHAPES
from tests.chaos.storage import failure_of_storage, is_local

# After so many drivers that died in a round comes one that lives.
_DEATHS = 3
# So many drivers of a history may fail because their storage does.
OUTAGES = 10
# How drivers that meet another one end: by our log, or by Spark's.
LOST_TO_ANOTHER = (
    "BatchAlreadyLoggedError",
    "CONCURRENT_STREAM_LOG_UPDATE",
    "Multiple streaming jobs detected",
    "Multiple streaming queries are concurrently using",
    "STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY",
)


class Found(Exception):
    """Something that no history may lead to."""


class History:
    """A history on a session.

    Args:
        session: its name.
        done: counts what went wrong on purpose, for all histories.
    """

    def __init__(self, spark: SparkSession, session: str, folder: Path, seed: int, done: Counter[str]) -> None:
        self._seed = seed
        self._done = done
        self._chance = random.Random(f"{seed}-history")
        self._kinds = KINDS if session != "local" else tuple(kind for kind in KINDS if kind != "executor")
        # An executor more costs the start of a JVM.
        self._weights = [1 if kind == "executor" else 4 for kind in self._kinds]
        self._folder = folder
        self._is_speculating = session == "speculation"
        settings = Settings.at_random(random.Random(f"{seed}-settings"), with_v1=session != "speculation")
        self.query = Query(spark, folder, settings)
        self._starts = 0
        self._outages = 0

    def run(self) -> None:
        """Runs it. Raises Found, or AssertionError with what differs."""
        settings = self.query.settings
        for i in range(self._chance.choice((1, 2, 2))):
            self.query.write(self._chance, self._chance.randint(1, 2))
            if i and self._chance.random() < 0.6:
                self._between_rounds()
            # A second driver of this process needs another name of the checkpoint.
            may_be_two = settings.version == 2 and not settings.parquet and is_local()
            if may_be_two and self._chance.random() < 0.15:
                self._two_drivers()
            self._until_done()
        self.query.check(random.Random(f"{self._seed}-check"))
        self._done.update(" in the ".join(name.split("-")[:2]) for name in self.query.struck())

    def _until_done(self) -> None:
        """Starts drivers until one has read all input."""
        deaths = 0
        while deaths <= _DEATHS:
            driver = _Driver(self, f"{self._starts}")
            may_die = deaths < _DEATHS and driver.chance.random() < 0.5
            death = _Death(driver.chance) if may_die else None
            log.remove_unfinished(self.query.checkpoint)
            self._starts += 1
            stopping = None
            # Tasks may outlive the query by a little, which format 1 does not bear.
            may_be_stopped = death is None and deaths < _DEATHS and self.query.settings.version == 2
            try:
                query = self.query.start(driver.fault, driver.shape, death or _lives)
                if may_be_stopped and driver.chance.random() < 0.1:
                    stopping = threading.Timer(driver.chance.uniform(0.05, 1.5), query.stop)
                    stopping.start()
                query.awaitTermination()
            except Exception as error:
                if death is not None and death.died is not None and isinstance(error, StreamingQueryException):
                    self._done[f"driver dies {death.died}"] += 1
                    deaths += 1
                    continue
                failure = failure_of_storage(str(error))
                if failure is None or self._outages == OUTAGES:
                    raise Found(f"the query failed: {error}") from error
                self._outages += 1
                self._done[f"storage fails a driver: {failure}"] += 1
                continue
            finally:
                if stopping:
                    stopping.cancel()
                    stopping.join()
            if stopping and self._is_behind():
                self._done["query stopped"] += 1
                deaths += 1
                continue
            return
        raise Found("the query does not get to an end")

    def _is_behind(self) -> bool:
        """Whether there is something left to do."""
        checkpoint = self.query.checkpoint
        read = {file for batch in log.batches(checkpoint) for file in batch.files}
        return len(read) < self.query.files or not (checkpoint / f"commits/{log.last_batch(checkpoint)}").exists()

    def _between_rounds(self) -> None:
        """What users and operators do while no driver runs."""
        checkpoint = self.query.checkpoint
        last = log.last_batch(checkpoint)
        what = self._chance.choice(("rewind", "rewind", "replay of a committed batch", "replay", "local disk lost"))
        if what == "rewind":
            log.set_back(checkpoint, self._chance.randint(0, last), "offsets", "commits")
        elif what == "replay of a committed batch":
            log.set_back(checkpoint, last, "commits")
        elif what == "replay":
            log.set_back(checkpoint, last, "commits", "hdfsstore/commits")
        else:
            shutil.rmtree(self.query.images, ignore_errors=True)
        self._done[what] += 1

    def _two_drivers(self) -> None:
        """Two drivers at a time."""
        other = other_checkpoint(self.query.checkpoint, self._folder / f"other-{self._starts}")
        self._starts += 1

        def drive(checkpoint: Path, delay: float) -> str:
            time.sleep(delay)
            driver = _Driver(self, f"{self._starts}-{checkpoint.name}")
            try:
                self.query.start(driver.fault, driver.shape, _lives, checkpoint).awaitTermination()
            except Exception as error:
                text = str(error)
                if not any(known in text for known in LOST_TO_ANOTHER):
                    raise Found(f"one of two drivers failed: {text}") from error
                return "of two drivers, one that lost"
            return "of two drivers, one that came to the end"

        delays = [0.0, self._chance.uniform(0, 1)]
        with ThreadPoolExecutor(2) as pool:
            self._done.update(pool.map(drive, (self.query.checkpoint, other), delays))

    def fault(self, chance: random.Random, name: str) -> Fault | None:
        """What goes wrong in the tasks of a batch."""
        if chance.random() < 0.55:
            return None
        [kind] = chance.choices(self._kinds, self._weights)
        point = "function" if self.query.settings.parquet else chance.choice(POINTS)
        after = chance.choice((0, 0, 0, 1, 3)) if point == "function" else 0
        return Fault(kind, point, after, f"{kind}-{point}-{name}", 5.0 if self._is_speculating else 0.3)


class _Driver:
    """What the seed has chosen for one start of the query, batch by batch."""

    def __init__(self, history: History, name: str) -> None:
        self._history = history
        self._name = name
        self.chance = random.Random(f"{history._seed}-{name}")

    def fault(self, batch_id: int) -> Fault | None:
        return self._history.fault(self.chance, f"{self._name}-{batch_id}")

    def shape(self, batch_id: int) -> str:  # noqa: ARG002
        return self.chance.choice(list(SHAPES))


class _Death:
    """Ends the query at one step of one of the batches that it begins."""

    def __init__(self, chance: random.Random) -> None:
        self._step = chance.choice(STEPS)
        self._left = chance.choice((0, 0, 1))
        self.died: str | None = None

    def __call__(self, step: str, batch_id: int) -> None:
        if step == self._step:
            if self._left == 0:
                self.died = step
                end_query(step, batch_id)
            self._left -= 1


def _lives(step: str, batch_id: int) -> None:
    """A driver to which nothing happens."""
