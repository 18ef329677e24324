"""A snapshot beside lz4's own speed on the same bytes and beside Spark's, and what it does to commits meanwhile."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import lz4.block
from pyspark.sql import SparkSession
from pytest_benchmark.fixture import BenchmarkFixture

from bench import spark_store, store_data
from bench.our_store import OurStore
from bench.report import Report
from bench.side_by_side import side_by_side

NUM_KEYS = 1_000_000
LZ4_BLOCK = 32 << 10
BLOCK = 50  # batches


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
    """Batches without a pause, in blocks: of a store whose background maintenance makes a snapshot of every delta that
    it comes across, and of one that is maintained between its blocks."""
    num_keys = NUM_KEYS // 100 if smoke else NUM_KEYS
    blocks = 1 if smoke else 8
    with store_data.copy_of(num_keys) as one, store_data.copy_of(num_keys) as other:
        alone = OurStore(one, min_deltas_for_snapshot=0)
        beside = OurStore(other, min_deltas_for_snapshot=0, maintenance_interval=0.001)
        taken: dict[str, list[int]] = {"alone": [], "beside snapshots": []}
        for store in (alone, beside):
            store.build_image(num_keys)
            store.prepare(store_data.batches(num_keys))
            store.settle()
        for _ in range(blocks):
            taken["alone"] += [sum(alone.batch()) for _ in range(BLOCK)]
            alone.maintain()
            taken["beside snapshots"] += [sum(beside.batch()) for _ in range(BLOCK)]
            beside.settle()
        snapshots = beside.provider.metrics["snapshotsUploaded"]
        alone.close()
        beside.close()
    for name, times in taken.items():
        late, latest = percentile(times, 99) / 1e6, max(times) / 1e6
        note = f"p99 {late:.1f} ms, slowest {latest:.1f} ms of {len(times)}"
        report.add(f"batches {name}, {num_keys:,} keys: median", f"{statistics.median(times) / 1e6:.1f} ms", note)
    delay = (percentile(taken["beside snapshots"], 99) - percentile(taken["alone"], 99)) / 1e6
    what = f"{snapshots} snapshots delay batches at the 99th percentile by"
    report.add(what, f"{delay:.1f} ms", "goal: at most 10 ms")


def percentile(taken: Sequence[int], percent: int) -> int:
    """The value that so many percent of all do not exceed."""
    return sorted(taken)[min(len(taken) * percent // 100, len(taken) - 1)]
