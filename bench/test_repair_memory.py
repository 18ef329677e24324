"""What a repair of many rows takes that may take 256 MiB."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench import big_rocksdb, long_chains
from bench.cache import work_folder
from bench.peak_memory import memory_of_repair
from bench.report import Report
from hdfsstore.repair import convert

NUM_KEYS = 20_000_000
MEMORY = 256 << 20


@pytest.mark.parametrize(
    ("verb", "argument"), [("repartition", 10), ("convert", "hdfs")], ids=["repartition", "convert"]
)
def test_memory_of_a_repair(
    benchmark: BenchmarkFixture, report: Report, smoke: bool, verb: str, argument: int | str
) -> None:
    num_keys = keys(smoke)
    made = big_rocksdb.checkpoint(big_rocksdb.ONE_RUN, num_keys)
    with work_folder() as work:
        measure(benchmark, report, f"{num_keys:,} rows in RocksDB, {verb}", verb, made, work / "new", argument)


@pytest.mark.parametrize("provider", ["hdfs", "rocksdb"])
def test_memory_with_long_chains(benchmark: BenchmarkFixture, report: Report, smoke: bool, provider: str) -> None:
    num_keys = keys(smoke)
    made = big_rocksdb.checkpoint(big_rocksdb.ONE_RUN, num_keys)
    with work_folder() as work:
        if provider == "hdfs":
            convert(made, work / "long", "hdfs")
        else:
            shutil.copytree(made, work / "long")
        long_chains.with_changes(work / "long")
        what = f"{num_keys:,} rows, {provider}, each changed in one of {long_chains.BATCHES} batches, repartition"
        measure(benchmark, report, what, "repartition", work / "long", work / "new", 10)


def keys(smoke: bool) -> int:
    return NUM_KEYS // 100 if smoke else NUM_KEYS


def measure(
    benchmark: BenchmarkFixture, report: Report, what: str, verb: str, path: Path, new: Path, argument: int | str
) -> None:
    def run() -> tuple[int, int]:
        shutil.rmtree(new, ignore_errors=True)
        return memory_of_repair(verb, path, new, argument, MEMORY)

    before, after = benchmark.pedantic(run, rounds=1)
    what = f"{what} with --memory 256m: peak memory above that of the process before"
    report.add(what, f"{after - before >> 20} MiB", "goal: at most 256 MiB")
