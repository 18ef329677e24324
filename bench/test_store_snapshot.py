"""A snapshot beside lz4's own speed on the same bytes and beside Spark's, and what it does to commits meanwhile."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import lz4.block
from pyspark.sql import SparkSession
from pytest_benchmark.fixture import BenchmarkFixture

from bench import spark_store, store_data
from bench.our_store import OurStore
from bench.report import Report
from bench.side_by_side import side_by_side

NUM_KEYS = 1_000_000
LZ4_BLOCK = 32 << 10


def test_snapshot(benchmark: BenchmarkFixture, spark: SparkSession, report: Report, smoke: bool, rounds: int) -> None:
    num_keys = NUM_KEYS // 100 if smoke else NUM_KEYS
    with store_data.copy_of(num_keys) as ours, store_data.copy_of(num_keys) as folder:
        plain = memoryview(store_data.plain_snapshot(num_keys, folder).read_bytes())

        def compress() -> None:
            for start in range(0, len(plain), LZ4_BLOCK):
                lz4.block.compress(plain[start : start + LZ4_BLOCK], store_size=False)

        theirs = spark_store.spark_store(spark, folder, spark_store.HDFS_BACKED_SNAPSHOTS, store_data.VERSION)
        for file in store_data.update_files(num_keys):
            theirs.prepare(str(file))
        mine = OurStore(ours, min_deltas_for_snapshot=0)
        mine.prepare(store_data.batches(num_keys))
        for store in (theirs, mine):
            store.batch()
        mine.batch()  # the first one was a full snapshot, as the files are of another checkpoint format
        snapshot_ms: list[float] = []

        def maintain() -> None:
            before = mine.provider.metrics["snapshotMs"]
            mine.maintain()
            snapshot_ms.append(mine.provider.metrics["snapshotMs"] - before)

        work = {
            "limit: lz4": compress,
            "Spark HDFS-backed": theirs.maintain,
            "hdfsstore, and a new local image": maintain,
        }
        # A batch after each, so that the next snapshot is due.
        batches = {"Spark HDFS-backed": theirs.batch, "hdfsstore, and a new local image": mine.batch}
        seconds = side_by_side(work, rounds, batches)
        seconds["hdfsstore"] = statistics.median(snapshot_ms[1:]) / 1e3
        benchmark.pedantic(mine.maintain, setup=lambda: mine.batch() and None, rounds=rounds)
        mine.close()
        theirs.close()
    for name, took in seconds.items():
        rate = len(plain) / took / 1e9
        report.add(f"snapshot of {num_keys:,} keys: {name}", f"{took * 1e3:.1f} ms", f"{rate:.2f} GB/s of records")
    share = seconds["limit: lz4"] / seconds["hdfsstore"]
    report.add("a snapshot reaches of lz4's own speed", f"{share:.0%}", "goal: 60 %")
    report.add("and is faster than Spark's by", f"{seconds['Spark HDFS-backed'] / seconds['hdfsstore']:.1f} x", "")


def test_commits_during_a_snapshot(report: Report, smoke: bool) -> None:
    num_keys = NUM_KEYS // 100 if smoke else NUM_KEYS
    samples = 20 if smoke else 300
    alone: list[int] = []
    beside: list[int] = []
    with store_data.copy_of(num_keys) as folder, ThreadPoolExecutor(1) as background:
        store = OurStore(folder, min_deltas_for_snapshot=0)
        store.build_image(num_keys)
        store.prepare(store_data.batches(num_keys))
        while len(beside) < samples or len(alone) < samples:
            snapshot = background.submit(store.maintain)
            before = len(beside)
            while not snapshot.done():
                beside.append(sum(store.batch()))
            snapshot.result()
            alone += [sum(store.batch()) for _ in range(max(1, len(beside) - before))]
        store.close()
    for name, taken in (("alone", alone), ("beside snapshots", beside)):
        median, late = statistics.median(taken) / 1e6, percentile(taken, 99) / 1e6
        note = f"p99 {late:.1f} ms, slowest {max(taken) / 1e6:.1f} ms of {len(taken)}"
        report.add(f"batches {name}, {num_keys:,} keys: median", f"{median:.1f} ms", note)
    delay = (percentile(beside, 99) - percentile(alone, 99)) / 1e6
    report.add("snapshots delay batches at the 99th percentile by", f"{delay:.1f} ms", "goal: at most 10 ms")


def percentile(taken: Sequence[int], percent: int) -> int:
    """The value that so many percent of all do not exceed."""
    return sorted(taken)[min(len(taken) * percent // 100, len(taken) - 1)]
