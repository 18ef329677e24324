"""read_state beside Spark's `statestore` source and beside its limit: decompress, hash and copy the bytes once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lz4.block
import pytest
from pyspark.sql import SparkSession
from pytest_benchmark.fixture import BenchmarkFixture

import hdfsstore
from bench import big_state
from bench.enlarge import enlarged, from_snapshot
from bench.peak_memory import memory
from bench.processes import readers
from bench.report import Report
from bench.side_by_side import side_by_side
from hdfsstore._cext.lz4_block import xxhash32
from hdfsstore.codecs.compression import open_reader
from hdfsstore.codecs.records import CHUNK_BYTES, RecordFormat, read_chunks
from hdfsstore.fs.local_files import LocalFileManager
from hdfsstore.fs.reading import open_input

LZ4_HEADER = 21
SEED = 0x9747B28C
PROCESSES = "a process for each of the 2 partitions"


def lz4_blocks(file: Path) -> list[tuple[memoryview, int, bool]]:
    """Body, raw length and whether it is compressed, of each block of a file."""
    content, at, blocks = memoryview(file.read_bytes()), 0, []
    while at < len(content):
        size, raw_size = (int.from_bytes(content[at + i : at + i + 4], "little") for i in (9, 13))
        if raw_size:
            body = content[at + LZ4_HEADER : at + LZ4_HEADER + size]
            blocks.append((body, raw_size, content[at + 8] & 0xF0 == 0x20))
        at += LZ4_HEADER + size
    return blocks


def limit_of(files: list[Path]) -> tuple[dict[str, Callable[[], object]], int]:
    """The three pieces of work that no reader of these files can do without, and how many bytes they are about."""
    blocks = [block for file in files for block in lz4_blocks(file)]
    raw = [lz4.block.decompress(body, raw_size) if packed else bytes(body) for body, raw_size, packed in blocks]
    total = sum(map(len, raw))
    target = memoryview(bytearray(total))

    def decompress() -> None:
        for body, raw_size, packed in blocks:
            if packed:
                lz4.block.decompress(body, raw_size)

    def hash_all() -> None:
        for block in raw:
            xxhash32(block, SEED)

    def copy() -> None:
        at = 0
        for block in raw:
            target[at : at + len(block)] = block
            at += len(block)

    return {"limit: lz4": decompress, "limit: xxHash32": hash_all, "limit: copy": copy}, total


def stages(files: list[Path]) -> dict[str, Callable[[], object]]:
    """What read_state does on one thread, up to and including one stage after the other."""
    fs, chunk = LocalFileManager(), memoryview(bytearray(CHUNK_BYTES))

    def read() -> None:
        for file in files:
            with open_input(fs, str(file)) as raw:
                while raw.readinto(chunk):
                    pass

    def decompressed() -> None:
        for file in files:
            with open_input(fs, str(file)) as raw:
                reader = open_reader("lz4", raw, path=str(file))
                while reader.readinto(chunk):
                    pass

    def parsed() -> None:
        for file in files:
            with open_input(fs, str(file)) as raw:
                for _ in read_chunks(raw, RecordFormat("lz4"), "delta", str(file)):
                    pass

    return {"stage: read, check .crc": read, "stage: + decompress": decompressed, "stage: + parse records": parsed}


def test_read_state(
    benchmark: BenchmarkFixture, checkpoint: Path, spark: SparkSession, report: Report, num_keys: int, rounds: int
) -> None:
    files = big_state.chain_files(checkpoint)
    one, two = (hdfsstore.Checkpoint(checkpoint, num_threads=threads) for threads in (1, 2))
    assert one.read_state().num_rows == two.read_state().num_rows == num_keys
    assert big_state.spark_read_arrow(spark, checkpoint).num_rows == num_keys
    limits, raw_bytes = limit_of(files)
    work: dict[str, Callable[[], object]] = {
        "Spark statestore to Arrow": lambda: big_state.spark_read_arrow(spark, checkpoint),
        "read_state, 1 thread": one.read_state,
        "read_state, 2 threads": two.read_state,
        **limits,
        **stages(files),
    }
    with readers(checkpoint, big_state.NUM_PARTITIONS) as processes:
        work[PROCESSES] = processes.read
        seconds = side_by_side(work, rounds, {PROCESSES: processes.free})
    benchmark.pedantic(one.read_state, rounds=rounds)
    limit = sum(seconds[name] for name in limits)
    ours, ours_two, sparks = (seconds[n] for n in list(work)[1:3] + list(work)[:1])
    for name, taken in seconds.items():
        report.add(name, f"{taken * 1e3:.1f} ms", f"{raw_bytes / taken / 1e9:.2f} GB/s of the decompressed bytes")
    report.add("1 thread is faster than Spark by", f"{sparks / ours:.1f} x", "goal: 25 x")
    report.add("1 thread reaches of its limit", f"{limit / ours:.0%}", "goal: 35 %")
    report.add("2 threads are faster than 1 by", f"{ours / ours_two:.2f} x", "goal: 1.8 x")
    report.add("2 processes are faster than 1 thread by", f"{ours / seconds[PROCESSES]:.2f} x", "the machine's ratio")


@pytest.mark.parametrize(
    ("chain", "what"),
    [
        (big_state.ONE_LARGE_DELTA, "a delta of all keys, 8 small ones"),
        (big_state.LARGE_DELTAS, "10 deltas of a quarter of the keys"),
        (big_state.LARGE_DELTAS_ON_SNAPSHOT, "a snapshot, 10 deltas of a quarter of the keys"),
    ],
    ids=lambda value: value.name if isinstance(value, big_state.Chain) else "",
)
def test_read_chain(
    chain: big_state.Chain, what: str, spark: SparkSession, report: Report, num_keys: int, rounds: int
) -> None:
    path = big_state.checkpoint(chain, num_keys)
    same_rows = from_snapshot(path)
    one, two, snapshot = (
        hdfsstore.Checkpoint(at, num_threads=threads) for at, threads in ((path, 1), (path, 2), (same_rows, 1))
    )
    rows = big_state.spark_read_arrow(spark, path).num_rows
    assert one.read_state().num_rows == two.read_state().num_rows == snapshot.read_state().num_rows == rows
    with readers(path, big_state.NUM_PARTITIONS) as processes:
        seconds = side_by_side(
            {
                "Spark statestore to Arrow": lambda: big_state.spark_read_arrow(spark, path),
                "read_state, 1 thread": one.read_state,
                "the same rows from a snapshot, 1 thread": snapshot.read_state,
                "read_state, 2 threads": two.read_state,
                PROCESSES: processes.read,
            },
            rounds,
            {PROCESSES: processes.free},
        )
    for name, taken in seconds.items():
        report.add(f"{what}: {name}", f"{taken * 1e3:.1f} ms", f"{rows:,} rows")
    sparks, ours, from_one_file, ours_two, in_processes = seconds.values()
    report.add(f"{what}: 1 thread is faster than Spark by", f"{sparks / ours:.1f} x", "goal: 12 x")
    goal = "goal: 3 x" if chain is big_state.ONE_LARGE_DELTA else ""
    report.add(f"{what}: 1 thread takes of a snapshot's time", f"{ours / from_one_file:.1f} x", goal)
    report.add(f"{what}: 2 threads are faster than 1 by", f"{ours / ours_two:.2f} x", "")
    report.add(f"{what}: 2 processes are faster than 1 thread by", f"{ours / in_processes:.2f} x", "")


def test_memory_of_read_state(checkpoint: Path, report: Report) -> None:
    before, after, size = memory("read", checkpoint)
    report.add("read_state, peak memory beyond the start", f"{(after - before) / size:.2f} x Arrow", "goal: 2.5 x")


def test_memory_of_open_state(checkpoint: Path, report: Report, num_keys: int) -> None:
    _, after, size = memory("open", enlarged(checkpoint, 10 * num_keys))
    report.add(f"open_state of {size / 1e6:,.0f} MB, peak memory", f"{after / 1e6:.0f} MB", "goal: below 300 MB")
