"""What a repair of many rows takes that may take 256 MiB."""

from __future__ import annotations

import shutil

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench import big_rocksdb
from bench.cache import work_folder
from bench.peak_memory import memory_of_repair
from bench.report import Report

NUM_KEYS = 20_000_000
MEMORY = 256 << 20


@pytest.mark.parametrize(
    ("verb", "argument"), [("repartition", 10), ("convert", "hdfs")], ids=["repartition", "convert"]
)
def test_memory_of_a_repair(
    benchmark: BenchmarkFixture, report: Report, smoke: bool, verb: str, argument: int | str
) -> None:
    num_keys = NUM_KEYS // 100 if smoke else NUM_KEYS
    made = big_rocksdb.checkpoint(big_rocksdb.ONE_RUN, num_keys)
    with work_folder() as work:

        def run() -> tuple[int, int]:
            shutil.rmtree(work / "new", ignore_errors=True)
            return memory_of_repair(verb, made, work / "new", argument, MEMORY)

        before, after = benchmark.pedantic(run, rounds=1)
    what = f"{num_keys:,} rows in RocksDB, {verb} with --memory 256m: peak memory above that of the process before"
    report.add(what, f"{after - before >> 20} MiB", "goal: at most 256 MiB")
