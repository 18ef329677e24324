"""How drivers die: at a step of the protocol (hdfsstore/spark/querylog/driver_log.py), by an error or by SIGKILL."""

from __future__ import annotations

import json
import os
import signal
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyspark import SparkContext

import hdfsstore.spark.driver.start
from hdfsstore.spark.querylog.driver_log import DriverLog
from hdfsstore.spark.querylog.log_entries import Reported, Start

STEPS = (
    "before our offsets",
    "after our offsets",
    "before the sink",
    "in the sink",
    "after the sink",
    "before our commit",
    "before the purge",
    "before Spark's commit",
)
# Drivers that are asked whether to go on, by checkpoint.
watched: dict[str, Callable[[str, int], None]] = {}


class Death(Exception):
    """The driver's end at a step."""


def end_query(step: str, batch_id: int) -> None:
    """The query of this driver fails."""
    raise Death(f"chaos: the driver dies {step} of batch {batch_id}")


def kill_process() -> None:
    """This process and its JVM are no more. Python workers go with the JVM, whose end they read from."""
    gateway: Any = SparkContext._gateway
    os.kill(gateway.proc.pid, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def other_checkpoint(checkpoint: Path, folder: Path) -> Path:
    """A folder that leads to a checkpoint, for a second driver: a session runs one query of an id at a time."""
    folder.mkdir()
    for name in ("offsets", "commits", "sources", "hdfsstore"):
        (checkpoint / name).mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(checkpoint / name)
    for its in (checkpoint, folder):
        if not (its / "metadata").exists():
            (its / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))
    return folder


class MortalLog(DriverLog):
    """A DriverLog that lets the driver die between its steps."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._step = next((watch for path, watch in watched.items() if self._checkpoint == path), lambda *_: None)
        self._batch_id = -1

    def begin(self, batch_id: int, *args: Any, **kwargs: Any) -> Start:
        self._batch_id = batch_id
        self._step("before our offsets", batch_id)
        start = super().begin(batch_id, *args, **kwargs)
        if not start.already_done:
            self._step("after our offsets", batch_id)
        return start

    def finish(self, batch_id: int, reports: Mapping[int, Reported], *args: Any, **kwargs: Any) -> None:
        self._step("before our commit", batch_id)
        super().finish(batch_id, reports, *args, **kwargs)
        self._step("before Spark's commit", batch_id)

    def _purge(self, before: int) -> None:
        self._step("before the purge", self._batch_id)
        super()._purge(before)


def install() -> None:
    """From here on the drivers of this process are mortal."""
    hdfsstore.spark.driver.start.DriverLog = MortalLog  # type: ignore[attr-defined,misc]
