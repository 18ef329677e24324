"""What a process takes that reads a state."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

MEASURE = """
import pathlib, re, resource, sys
import hdfsstore

def peak():
    status = pathlib.Path("/proc/self/status")
    if status.exists():  # ru_maxrss starts from that of the process that forked us
        return int(re.search(r"VmHWM:\\s+(\\d+) kB", status.read_text())[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

checkpoint = hdfsstore.Checkpoint(sys.argv[2], num_threads=2)
before = peak()
if sys.argv[1] == "read":
    size = checkpoint.read_state().nbytes
else:
    size = sum(batch.nbytes for batch in checkpoint.open_state())
print(before, peak(), size)
"""


def memory(how: str, path: Path) -> tuple[int, int, int]:
    """Peak bytes of a process before and after it has read the state, and bytes of the Arrow result."""
    done = subprocess.run([sys.executable, "-c", MEASURE, how, str(path)], check=True, capture_output=True, text=True)
    before, after, size = map(int, done.stdout.split())
    return before, after, size
