"""Memory of processes that hold a partition: their share of all pages (PSS), beyond what they begin with."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from bench import store_data
from bench.our_store import OurStore
from bench.report import Report

NUM_KEYS = 2_000_000
NUM_PROCESSES = 8

# Waits for a line before each step, so that all processes measure while all are at the same one.
HOLD = """
import pathlib, re, sys
import pyarrow as pa
from bench import store_data
from bench.our_store import OurStore

def report():
    print(re.search(r"^Pss:\\s+(\\d+) kB", pathlib.Path("/proc/self/smaps_rollup").read_text(), re.M)[1], flush=True)

folder, version, unique_id, num_keys, num_batches = sys.argv[1:]
# What the benchmark itself needs is there before the first measurement.
keys = store_data.all_keys(int(num_keys))
batches = store_data.batches(int(num_keys), int(num_batches))
pa.default_memory_pool().release_unused()
print("begun", flush=True)
sys.stdin.readline()
report()
sys.stdin.readline()
store = OurStore(pathlib.Path(folder), int(version), unique_id or None)
store.prepare(batches)
for _ in batches:
    store.batch()
store.get_all(keys)
print("held", flush=True)
sys.stdin.readline()
report()
sys.stdin.readline()
"""


def held_bytes(store: OurStore, folder: Path, num_keys: int, num_processes: int, num_batches: int) -> int:
    """PSS of all the processes while each holds the store, minus what it was before they opened it."""
    arguments = [str(folder), str(store.version), store.checkpoint_unique_id or "", str(num_keys), str(num_batches)]
    with ExitStack() as stack:
        processes = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", HOLD, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
                )
            )
            for _ in range(num_processes)
        ]

        def answers() -> list[str]:
            lines = [process.stdout.readline().strip() for process in processes if process.stdout]
            if not all(lines):
                raise RuntimeError("a process ended before its time; its error stands above")
            return lines

        def go_on() -> None:
            for process in processes:
                if process.stdin:
                    process.stdin.write("\n")
                    process.stdin.flush()

        answers()
        go_on()
        before = sum(map(int, answers()))
        go_on()
        answers()
        go_on()
        after = sum(map(int, answers()))
        go_on()
    return (after - before) * 1024


def test_memory_of_one_process(report: Report, smoke: bool) -> None:
    num_keys = NUM_KEYS // 100 if smoke else NUM_KEYS
    raw = num_keys * store_data.RECORD_BYTES
    with store_data.copy_of(num_keys) as folder:
        store = OurStore(folder)
        store.prepare(store_data.batches(num_keys, 3))
        for _ in range(3):
            store.batch()
        store.close()
        held = held_bytes(store, folder, num_keys, 1, num_batches=2)
    what = f"memory of {num_keys:,} keys ({raw / 1e6:.0f} MB), 2 versions"
    report.add(what, f"{held / raw:.2f} x raw", "loaded from a snapshot and 2 deltas, then 2 batches; goal: 1.3 x")


def test_memory_of_many_processes(report: Report, smoke: bool) -> None:
    num_keys = NUM_KEYS // 100 if smoke else NUM_KEYS
    raw = num_keys * store_data.RECORD_BYTES
    with store_data.copy_of(num_keys) as folder:
        store = OurStore(folder, min_deltas_for_snapshot=0)
        store.build_image(num_keys)
        store.close()
        num_processes = 2 if smoke else NUM_PROCESSES
        held = held_bytes(store, folder, num_keys, num_processes, num_batches=0)
    what = f"memory of {num_processes} processes that read the same {num_keys:,} keys"
    report.add(what, f"{held / raw:.2f} x raw", "through the local image; goal: 1.5 x")
