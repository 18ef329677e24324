"""Loading a version: cold from snapshot and deltas on one core, beside Spark's load; and from a local image."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pytest_benchmark.fixture import BenchmarkFixture

from bench import spark_store, store_data
from bench.our_store import OurStore
from bench.report import Report
from bench.side_by_side import side_by_side

NUM_KEYS = 1_000_000


@contextmanager
def one_core(*process_ids: int) -> Iterator[None]:
    """All threads of the processes on one and the same core."""
    cores = os.sched_getaffinity(0)

    def pin(to: set[int]) -> None:
        for process in process_ids:
            for thread in Path(f"/proc/{process}/task").iterdir():
                with suppress(ProcessLookupError):  # it has ended meanwhile
                    os.sched_setaffinity(int(thread.name), to)

    pin({min(cores)})
    try:
        yield
    finally:
        pin(cores)


def test_load_cold(benchmark: BenchmarkFixture, spark: SparkSession, report: Report, smoke: bool, rounds: int) -> None:
    num_keys = NUM_KEYS // 100 if smoke else NUM_KEYS
    with store_data.copy_of(num_keys) as folder:
        theirs = spark_store.spark_store(spark, folder, spark_store.HDFS_BACKED, store_data.VERSION)
        mine = OurStore(folder)
        assert theirs.loadCold() == mine.load_cold() == num_keys
        mine.forget_images()
        work = {"Spark HDFS-backed": theirs.loadCold, "hdfsstore": mine.load_cold}
        with one_core(os.getpid(), theirs.processId()):
            seconds = side_by_side(work, rounds, {"hdfsstore": mine.forget_images})
            benchmark.pedantic(mine.load_cold, setup=mine.forget_images, rounds=rounds)
        mine.close()
        theirs.close()
    for name, taken in seconds.items():
        rate = num_keys * store_data.RECORD_BYTES / taken / 1e9
        report.add(f"load {num_keys:,} keys, one core: {name}", f"{taken * 1e3:.1f} ms", f"{rate:.2f} GB/s of records")
    sparks, ours = seconds.values()
    report.add("a cold load is faster than Spark's by", f"{sparks / ours:.1f} x", "goal: 10 x")


FROM_IMAGE = """
import pathlib, statistics, sys, time
from bench import store_data
from bench.our_store import OurStore
import pyarrow as pa

folder, version, unique_id, rounds = sys.argv[1:]
[key] = store_data.rows(pa.array([7], pa.int64()))[0]
store = OurStore(pathlib.Path(folder), int(version), unique_id)
taken = []
for _ in range(int(rounds)):
    start = time.perf_counter()
    store.reopen()
    with store.read() as read:
        assert read.get(key.as_py()) is not None
    taken.append(time.perf_counter() - start)
print(taken[0], statistics.median(taken))
"""


@pytest.mark.parametrize("num_keys", [10**power for power in range(4, 8)])
def test_load_from_image(report: Report, smoke: bool, rounds: int, num_keys: int) -> None:
    if smoke and num_keys > 10**5:
        pytest.skip("small sizes do for a smoke run")
    with store_data.copy_of(num_keys) as folder:
        store = OurStore(folder, min_deltas_for_snapshot=0)
        store.build_image(num_keys)
        store.close()
        arguments = [str(folder), str(store.version), str(store.checkpoint_unique_id), str(rounds)]
        done = subprocess.run(
            [sys.executable, "-c", FROM_IMAGE, *arguments], check=True, capture_output=True, text=True
        )
    first, median = (float(seconds) * 1e3 for seconds in done.stdout.split())
    note = f"the process's first: {first:.1f} ms; goal: below 5 ms"
    report.add(f"{num_keys:,} keys from a local image, one get", f"{median:.2f} ms", note)
