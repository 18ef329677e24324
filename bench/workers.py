"""This process and the Python workers of its Spark, on Linux."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

_DAEMON = b"pyspark.daemon"
_END_SECONDS = 300


def memory_of_workers() -> int:
    """The bytes that they take together, the daemon that forks them included: what several map counts once."""
    return sum(map(_pss, _parents()))


def memory_of_driver() -> int:
    """The bytes that this process takes."""
    return _pss(os.getpid())


def end_workers() -> None:
    """Ends all workers but the daemon, and waits until they are gone: Spark has others forked when it needs some."""
    parents = _parents()
    killed = [pid for pid, parent in parents.items() if parent in parents]
    for pid in killed:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    # A worker that was killed and not reaped yet is given tasks by Spark, which fail.
    end = time.monotonic() + _END_SECONDS
    while left := [pid for pid in killed if Path(f"/proc/{pid}").exists()]:
        if time.monotonic() > end:
            raise TimeoutError(f"the Python workers {left} do not end")
        time.sleep(0.01)


def _parents() -> dict[int, int]:
    """The process ids of the daemon and its workers, each with that of its parent."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            children.setdefault(_parent(entry), []).append(int(entry.name))
    found: dict[int, int] = {}
    todo = [os.getpid()]
    while todo:
        parent = todo.pop()
        for pid in children.get(parent, []):
            todo.append(pid)
            if _DAEMON in _read(Path(f"/proc/{pid}/cmdline")):
                found[pid] = parent
    return found


def _pss(pid: int) -> int:
    for line in _read(Path(f"/proc/{pid}/smaps_rollup")).splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) << 10
    return 0


def _parent(entry: Path) -> int:
    # The command, in brackets, may have blanks and brackets itself.
    fields = _read(entry / "stat").rpartition(b")")[2].split()
    return int(fields[1]) if fields else 0


def _read(file: Path) -> bytes:
    """What a file of /proc says; nothing where the process has ended."""
    try:
        return file.read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""
