"""What a process takes that reads a state, or repairs one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_PEAK = """
import pathlib, re, resource, sys
import hdfsstore, hdfsstore.repair

def peak():
    status = pathlib.Path("/proc/self/status")
    if status.exists():  # ru_maxrss starts from that of the process that forked us
        return int(re.search(r"VmHWM:\\s+(\\d+) kB", status.read_text())[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
"""
_READ = """
checkpoint = hdfsstore.Checkpoint(sys.argv[2], num_threads=2)
before = peak()
if sys.argv[1] == "read":
    size = checkpoint.read_state().nbytes
else:
    size = sum(batch.nbytes for batch in checkpoint.open_state())
print(before, peak(), size)
"""
_REPAIR = """
verb, path, to, argument, memory = sys.argv[1:]
before = peak()
limits = hdfsstore.repair.Limits(int(memory), threads=2)
getattr(hdfsstore.repair, verb)(path, to, eval(argument), limits=limits)
print(before, peak())
"""


def memory(how: str, path: Path) -> tuple[int, int, int]:
    """Peak bytes of a process before and after it has read the state, and bytes of the Arrow result."""
    before, after, size = _measured(_READ, how, str(path))
    return before, after, size


def memory_of_repair(verb: str, path: Path, to: Path, argument: int | str, memory: int) -> tuple[int, int]:
    """Peak bytes of a process before and after a repartition or a convert that may take so much memory."""
    before, after = _measured(_REPAIR, verb, str(path), str(to), repr(argument), str(memory))
    return before, after


def _measured(code: str, *arguments: str) -> list[int]:
    done = subprocess.run([sys.executable, "-c", _PEAK + code, *arguments], check=True, capture_output=True, text=True)
    return [int(number) for number in done.stdout.split()]
