"""repartition and convert beside what they cannot do without, and beside Spark's own repartition in a warm JVM."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pytest_benchmark.fixture import BenchmarkFixture

import hdfsstore
from bench import big_rocksdb
from bench.cache import work_folder
from bench.report import Report
from bench.side_by_side import side_by_side
from hdfsstore._cext.records import encode_records
from hdfsstore.codecs.compression import compress
from hdfsstore.codecs.records import RecordChunk
from hdfsstore.fs.local_files import LocalFileManager
from hdfsstore.fs.publish import publish
from hdfsstore.repair.verbs import convert, repartition
from hdfsstore.state.rocksdb.database_writer import write_version

NUM_KEYS = 2_000_000
PARTITIONS = 10
FS = LocalFileManager()


def chunks_of(checkpoint: Path) -> list[list[RecordChunk]]:
    """The raw rows of each partition."""
    state = hdfsstore.Checkpoint(checkpoint).operator_state()
    (store,) = state.operator.stores
    return [state.files(store, i).load(state.version, RecordChunk.copy) for i in store.partition_ids]


def as_arrays(chunks: list[RecordChunk]) -> tuple[pa.BinaryArray, pa.BinaryArray]:
    keys, values = [], []
    for chunk in chunks:
        for spans, found in ((chunk.keys, keys), (chunk.values, values)):
            numbers = memoryview(spans).cast("B").cast("i")
            found += [bytes(chunk.data[numbers[i] : numbers[i] + numbers[i + 1]]) for i in range(0, len(numbers), 2)]
    return pa.array(keys, pa.binary()), pa.array(values, pa.binary())


def snapshot_writer(checkpoint: Path, folder: Path) -> Callable[[], None]:
    """Writes the rows of an HDFS-backed state as one snapshot a partition."""
    partitions = [as_arrays(chunks) for chunks in chunks_of(checkpoint)]

    def write() -> None:
        for i, rows in enumerate(partitions):
            publish(FS, f"{folder}/{i}/1.snapshot", compress("lz4", encode_records(*rows)), overwrite=True)

    return write


def zip_writer(checkpoint: Path, folder: Path) -> Callable[[], None]:
    """Writes the rows of a state in RocksDB, which are in the order of their keys, as one zip a partition."""
    partitions = chunks_of(checkpoint)

    def write() -> None:
        for i, chunks in enumerate(partitions):
            write_version(FS, f"{folder}/{i}", (1, None), chunks)

    return write


def test_repair(benchmark: BenchmarkFixture, report: Report, spark: SparkSession, smoke: bool, rounds: int) -> None:
    num_keys = NUM_KEYS // 100 if smoke else NUM_KEYS
    rocksdb = big_rocksdb.checkpoint(big_rocksdb.ONE_RUN, num_keys)
    with work_folder() as work:
        hdfs, new = work / "hdfs", work / "new"
        convert(rocksdb, hdfs, "hdfs")
        copies = [Path(shutil.copytree(rocksdb, work / f"copy-{i}")) for i in range(rounds + 1)]
        work_of: dict[str, Callable[[], object]] = {
            "read_state, HDFS-backed": lambda: hdfsstore.Checkpoint(hdfs).read_state(),
            "read_state, RocksDB": lambda: hdfsstore.Checkpoint(rocksdb).read_state(),
            "the rows as snapshots": snapshot_writer(hdfs, new),
            "the rows as zips": zip_writer(rocksdb, new),
            "repartition, HDFS-backed": lambda: repartition(hdfs, new, PARTITIONS),
            "repartition, RocksDB": lambda: repartition(rocksdb, new, PARTITIONS),
            "convert to RocksDB": lambda: convert(hdfs, new, "rocksdb"),
            "convert to HDFS-backed": lambda: convert(rocksdb, new, "hdfs"),
            "Spark's repartition": lambda: spark._streamingCheckpointManager.repartition(str(copies.pop()), PARTITIONS),
        }
        seconds = side_by_side(
            work_of, rounds, {name: lambda: shutil.rmtree(new, ignore_errors=True) for name in work_of}
        )
        benchmark.pedantic(lambda: repartition(rocksdb, new, PARTITIONS), rounds=1)
    for name, took in seconds.items():
        report.add(f"{num_keys:,} rows, {name}", f"{took * 1e3:.0f} ms", "")
    for name, read, written, most in (
        ("repartition, HDFS-backed", "read_state, HDFS-backed", "the rows as snapshots", 2.5),
        ("convert to HDFS-backed", "read_state, RocksDB", "the rows as snapshots", 2.5),
        ("repartition, RocksDB", "read_state, RocksDB", "the rows as zips", 4),
        ("convert to RocksDB", "read_state, HDFS-backed", "the rows as zips", 4),
    ):
        ratio = seconds[name] / (seconds[read] + seconds[written])
        report.add(f"{name}, of read_state and a write", f"{ratio:.2f} x", f"goal: at most {most} x")
    faster = seconds["Spark's repartition"] / seconds["repartition, RocksDB"]
    report.add("repartition is faster than Spark's own", f"{faster:.1f} x", "goal: at least 6 x")
