"""A batch of updates: Spark's HDFS-backed and RocksDB stores and ours, at few keys and at many."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from pyspark.sql import SparkSession
from pytest_benchmark.fixture import BenchmarkFixture

from bench import spark_store, store_data
from bench.cache import work_folder
from bench.our_store import OurStore
from bench.report import Report
from bench.side_by_side import side_by_side

FEW = 20_000
MANY = 2_000_000
PHASES = ("open", "get", "put", "commit")


def hdfs_backed(stack: ExitStack, spark: SparkSession, num_keys: int) -> Any:
    """Spark's HDFS-backed store on a copy of the files."""
    folder = stack.enter_context(store_data.copy_of(num_keys))
    return _ready(spark_store.spark_store(spark, folder, spark_store.HDFS_BACKED, store_data.VERSION), num_keys)


def rocksdb(stack: ExitStack, spark: SparkSession, num_keys: int, settings: dict[str, str]) -> Any:
    """Spark's RocksDB store, filled with the records of the snapshot."""
    folder = stack.enter_context(work_folder())
    store = spark_store.spark_store(spark, folder, settings)
    store.fill(str(store_data.plain_snapshot(num_keys, folder)))
    return _ready(store, num_keys)


def ours(stack: ExitStack, num_keys: int, **settings: int) -> OurStore:
    """Our store on a copy of the files."""
    store = OurStore(stack.enter_context(store_data.copy_of(num_keys)), **settings)
    store.prepare(store_data.batches(num_keys))
    return store


def _ready(store: Any, num_keys: int) -> Any:
    for file in store_data.update_files(num_keys):
        store.prepare(str(file))
    return store


def batches_in_turn(
    stack: ExitStack, stores: Mapping[str, Any], rounds: int
) -> tuple[dict[str, float], dict[str, list[Sequence[int]]]]:
    """Median seconds of a batch of each store, and the nanoseconds of its phases; maintenance runs between batches."""
    for store in stores.values():
        stack.callback(store.close)
    taken: dict[str, list[Sequence[int]]] = {name: [] for name in stores}

    def batch_of(name: str) -> Callable[[], object]:
        return lambda: taken[name].append(list(stores[name].batch()))

    work = {name: batch_of(name) for name in stores}
    return side_by_side(work, rounds, {name: store.maintain for name, store in stores.items()}), taken


def phases_of(phases: Sequence[Sequence[int]]) -> str:
    """Median milliseconds of the phases of a batch, the first batch left out."""
    medians = (statistics.median(taken) / 1e6 for taken in zip(*phases[1:], strict=True))
    return ", ".join(f"{name} {taken:.1f}" for name, taken in zip(PHASES, medians, strict=True))


def test_batch_of_updates(
    benchmark: BenchmarkFixture, spark: SparkSession, report: Report, smoke: bool, rounds: int
) -> None:
    many = MANY // 100 if smoke else MANY
    with ExitStack() as stack:
        stores = {
            "Spark HDFS-backed": hdfs_backed(stack, spark, many),
            "Spark RocksDB": rocksdb(stack, spark, many, spark_store.ROCKSDB),
            "Spark RocksDB, changelog": rocksdb(stack, spark, many, spark_store.ROCKSDB_CHANGELOG),
            "hdfsstore": ours(stack, many),
        }
        seconds, taken = batches_in_turn(stack, stores, rounds)
        benchmark.pedantic(stores["hdfsstore"].batch, rounds=rounds)
    for name, took in seconds.items():
        report.add(f"batch of updates: {name}", f"{took * 1e3:.1f} ms", phases_of(taken[name]))
    mine = seconds["hdfsstore"]
    report.add("a batch is faster than Spark's RocksDB by", f"{seconds['Spark RocksDB'] / mine:.1f} x", "goal: 15 x")
    report.add("with changelog checkpointing by", f"{seconds['Spark RocksDB, changelog'] / mine:.1f} x", "")
    report.add("than its HDFS-backed store by", f"{seconds['Spark HDFS-backed'] / mine:.1f} x", "goal: 40 x")


def test_batch_at_few_keys_and_at_many(benchmark: BenchmarkFixture, report: Report, smoke: bool, rounds: int) -> None:
    """Each batch syncs its delta, and the disk's share of it varies more than what the number of keys changes.

    So this takes many rounds, without Spark's stores between them, which leave the disk at work.
    """
    many, few = (MANY // 100, FEW // 10) if smoke else (MANY, FEW)
    with ExitStack() as stack:
        stores = {f"{num_keys:,} keys": ours(stack, num_keys) for num_keys in (many, few)}
        seconds, taken = batches_in_turn(stack, stores, rounds * 8)
        benchmark.pedantic(stores[f"{many:,} keys"].batch, rounds=rounds)
    for name, took in seconds.items():
        report.add(f"batch of updates alone: {name}", f"{took * 1e3:.1f} ms", phases_of(taken[name]))
    ratio = seconds[f"{many:,} keys"] / seconds[f"{few:,} keys"]
    report.add(f"time at {many:,} keys / at {few:,}", f"{ratio:.2f}", "goal: at most 1.5")
