"""One case for each fault: a query of a few batches in which just that goes wrong, and which must go wrong.

python -m tests.chaos.cases SESSION FOLDER [CASE...]    # cases of a session of sessions.py, all unless they are named;
                                                        # prints name -> what is wrong
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from tests.chaos import log
from tests.chaos.deaths import STEPS, end_query, install, other_checkpoint
from tests.chaos.faults import Fault
from tests.chaos.functions import METHODS
from tests.chaos.query import Query, Settings, Step
from tests.chaos.sessions import ROOT, session

_RESULT = "cases: "
_FAULTS = {
    "local": ("raise-function", "raise-output", "kill-function", "kill-output"),
    "speculation": ("sleep-function", "sleep-output", "executor-function", "executor-output", "kill-output"),
}
# What the sink does, batch by batch; orderBy has a stage behind that of the tasks.
_SHAPES = ("collect", "orderBy", "two actions", "collect")

Case = Callable[[SparkSession, Path], None]


def _lives(step: str, batch_id: int) -> None:
    """A driver to which nothing happens."""


class _Case:
    """A query of a case."""

    def __init__(
        self, spark: SparkSession, folder: Path, method: str = METHODS[0], version: int = 2, **options: str | None
    ) -> None:
        self.chance = random.Random(folder.name)
        self.query = Query(spark, folder, Settings(method, "EventTimeTimeout", version, options=options))
        self.query.write(self.chance, 2)

    def run(self, fault: Fault | None = None, step: Step = _lives, checkpoint: Path | None = None) -> None:
        """Runs until all input is read; the fault is in every second batch."""
        self.query.start(
            lambda batch_id: fault if batch_id % 2 else None,
            lambda batch_id: _SHAPES[batch_id % len(_SHAPES)],
            step,
            checkpoint,
        ).awaitTermination()

    def check(self) -> None:
        self.query.check(self.chance)


def fault_in_tasks(spark: SparkSession, folder: Path, name: str) -> None:
    kind, point = name.split("-")
    case = _Case(spark, folder, METHODS[len(kind) % 3])
    case.run(Fault(kind, point, 0, name, seconds=300))
    assert case.query.struck() == {name}
    # After the end of an executor Spark may begin the stage anew, and count attempts from the first again.
    assert kind == "executor" or case.query.was_repeated(name), "no task was run a second time"
    case.check()


def driver_ends_at_each_step(spark: SparkSession, folder: Path) -> None:
    """Drivers of one process that end with an error; tests/chaos/killed.py kills processes."""
    for version in (1, 2):
        case = _Case(spark, folder / str(version), METHODS[version], version)
        for step in STEPS:
            case.query.write(case.chance)

            def at(name: str, batch_id: int, step: str = step) -> None:
                if name == step:
                    end_query(step, batch_id)

            with pytest.raises(StreamingQueryException, match=f"the driver dies {step}"):
                case.run(step=at)
        case.run()
        case.check()


def two_drivers(spark: SparkSession, folder: Path) -> None:
    """Both are in the sink of a batch; one commits it, the other one has to stop."""
    case = _Case(spark, folder)
    case.run(step=_lives)
    case.query.write(case.chance, 2)
    other = other_checkpoint(case.query.checkpoint, folder / "other")
    met = threading.Barrier(2, timeout=120)
    first = log.last_batch(case.query.checkpoint) + 1
    began = threading.Event()

    def at(name: str, batch_id: int) -> None:
        if batch_id == first and name == "before the sink":
            began.set()
            met.wait()

    def drive(checkpoint: Path) -> str:
        if checkpoint == other:
            assert began.wait(120)  # Spark's log has the batch, and the other driver runs it too
        try:
            case.run(step=at, checkpoint=checkpoint)
        except StreamingQueryException as error:
            return str(error)
        return "ended well"

    with ThreadPoolExecutor(2) as pool:
        ends = list(pool.map(drive, (case.query.checkpoint, other)))
    assert sum("BatchAlreadyLoggedError" in end for end in ends) == 1, ends
    assert ends.count("ended well") == 1, ends
    case.check()


def rewind(spark: SparkSession, folder: Path) -> None:
    """Back to batch 1, to the start, and a batch again whose commit Spark has lost."""
    for version in (1, 2):
        case = _Case(spark, folder / str(version), METHODS[version], version)
        case.run()
        for first, logs in ((1, ("offsets", "commits")), (0, ("offsets", "commits")), (-1, ("commits",))):
            last = log.last_batch(case.query.checkpoint)
            log.set_back(case.query.checkpoint, last if first < 0 else first, *logs)
            case.query.write(case.chance)
            case.run()
            case.check()


def images_beside_sparks(spark: SparkSession, folder: Path) -> None:
    """Executors keep images in the folder that their worker has for the application."""
    case = _Case(spark, folder, localDir=None, imageOverlayShare="0.0001")
    case.run()
    own = f"executor-*/hdfsstore-{os.geteuid()}-{spark.sparkContext.applicationId}"
    assert list(Path(spark.conf.get("spark.local.dir") or "").glob(f"spark-*/{own}/*/*.image"))
    case.check()


def cases(name: str) -> dict[str, Case]:
    """The cases of a session, by name."""
    found: dict[str, Case] = {
        fault: lambda spark, folder, fault=fault: fault_in_tasks(spark, folder, fault) for fault in _FAULTS[name]
    }
    others: dict[str, tuple[Case, ...]] = {
        "local": (driver_ends_at_each_step, two_drivers, rewind),
        "speculation": (images_beside_sparks,),
    }
    return found | {case.__name__: case for case in others[name]}


def _wrong(case: Case, spark: SparkSession, folder: Path) -> str | None:
    try:
        case(spark, folder)
    except Exception:  # noqa: BLE001  # told by the test
        return traceback.format_exc()
    return None


def run_cases(name: str, folder: Path, *titles: str) -> dict[str, str | None]:
    """Runs `main` in a process of its own. Returns: case -> what is wrong; None: nothing is."""
    command = [sys.executable, "-m", "tests.chaos.cases", name, str(folder), *titles]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)
    [*_, last] = said.stdout.splitlines() or [""]
    assert last.startswith(_RESULT), said.stdout + said.stderr
    found: dict[str, str | None] = json.loads(last.removeprefix(_RESULT))
    return found


def main(name: str, folder: Path, *titles: str) -> None:
    install()
    chosen = {title: case for title, case in cases(name).items() if title in (titles or cases(name))}
    with session(name, folder / "spark") as spark, ThreadPoolExecutor(2) as pool:
        running = {title: pool.submit(_wrong, case, spark, folder / title) for title, case in chosen.items()}
        print(_RESULT + json.dumps({title: future.result() for title, future in running.items()}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
