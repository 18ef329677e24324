"""The Python workers of this process's Spark, on Linux."""

from __future__ import annotations

import os
import signal
from pathlib import Path

_DAEMON = b"pyspark.daemon"


def workers() -> list[int]:
    """The process ids of the workers and of the daemon that forks them, which is the first of them."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            parent = _parent(entry)
            children.setdefault(parent, []).append(int(entry.name))
    found: list[int] = []
    todo = [os.getpid()]
    while todo:
        pid = todo.pop()
        todo += children.get(pid, [])
        if _DAEMON in _read(Path(f"/proc/{pid}/cmdline")):
            found.append(pid)
    return sorted(found)


def memory_of_workers() -> int:
    """The bytes that they take together: what several map counts once."""
    return sum(_pss(pid) for pid in workers())


def end_workers() -> None:
    """Ends all workers but the daemon: Spark has others forked when it needs some."""
    for pid in workers()[1:]:
        os.kill(pid, signal.SIGKILL)


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
