"""What goes wrong in tasks: the driver leaves word in a file, and the tasks of the next job read it.

    raise       the first attempt of each task fails
    kill        the first attempt's Python worker dies of SIGKILL
    sleep       the task that comes first is slow; where Spark speculates, another attempt overtakes it
    executor    the executor of whichever task comes first dies of SIGKILL, once

at one of two points: in the user's function, or when the output's last row was taken and the state is committed, but
the task has not ended.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

POINTS = ("function", "output")
KINDS = ("raise", "kill", "sleep", "executor")
_FILE = "fault.json"

_calls: Counter[tuple[int, str]] = Counter()


@dataclass(frozen=True)
class Fault:
    """Attributes:
    kind: see above.
    point: function or output.
    after: how many calls of the user's function are left alone.
    name: of this fault alone; no spaces.
    seconds: how long to sleep, unless another attempt comes that far before.
    """

    kind: str
    point: str
    after: int
    name: str
    seconds: float = 0.3

    def announce(self, folder: Path) -> None:
        """Tells tasks, also those that run already."""
        new = folder / f"{_FILE}.new"
        new.write_text(json.dumps(asdict(self)))
        new.replace(folder / _FILE)


def withdraw(folder: Path) -> None:
    (folder / _FILE).unlink(missing_ok=True)


def pass_on(folder: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For mapInArrow behind the stateful function: strikes when the last row was taken."""
    yield from batches
    strike(folder, "output")


def strike(folder: str, point: str) -> None:
    """Does in a task what was announced, if it is time for it."""
    try:
        fault = Fault(**json.loads(Path(folder, _FILE).read_text()))
    except FileNotFoundError:
        return
    task: Any = TaskContext.get()
    if fault.point != point:
        return
    if task.attemptNumber() > 0:
        Path(folder, f"again {fault.name}").touch()
        return
    called = task.taskAttemptId(), fault.name
    _calls[called] += 1
    if _calls[called] != fault.after + 1:
        return
    is_first = _is_first(Path(folder, f"struck {fault.name}"))
    if fault.kind == "raise":
        raise RuntimeError("chaos: the first attempt fails")
    if fault.kind == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault.kind == "sleep" and is_first:
        awake = time.monotonic() + fault.seconds
        while time.monotonic() < awake and not Path(folder, f"again {fault.name}").exists():
            time.sleep(0.05)
    if fault.kind == "executor" and is_first:
        os.kill(_executor(), signal.SIGKILL)
        time.sleep(60)


def _is_first(path: Path) -> bool:
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _executor() -> int:
    """The process id of the JVM above this worker, which is a local cluster's executor."""
    pid = os.getppid()
    while b"CoarseGrainedExecutorBackend" not in Path(f"/proc/{pid}/cmdline").read_bytes():
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        if pid <= 1:
            raise RuntimeError("chaos: there is no executor above this worker")
    return pid
