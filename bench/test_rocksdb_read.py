"""read_state of RocksDB state beside Spark's `statestore` source, and beside its limit: decompress, hash and copy.

Two threads have a limit of their own, which is the machine's: the same bytes, copied and decompressed in two large
pieces by one thread and by two.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import lz4.block
import numpy as np
import pytest
from pyspark.sql import SparkSession

import hdfsstore
from bench import big_rocksdb, big_state
from bench.peak_memory import memory
from bench.processes import readers
from bench.report import Report
from bench.side_by_side import side_by_side
from hdfsstore._cext.sst import check_block
from hdfsstore.codecs.sst_blocks import read_varint
from hdfsstore.codecs.sst_table import KeyRange, Table, open_table

LZ4 = 4
TRAILER = 5
SPARK = "Spark statestore to Arrow"
ONE = "read_state, 1 thread"
TWO = "read_state, 2 threads"
WITHOUT = "read_state, 1 thread, without the changelogs"
PROCESSES = "a process for each of the 2 partitions"
SMALL = 2_000
KEY = {"key": "user-1000"}


def table_of(content: memoryview, path: Path) -> Table:
    def read(offset: int, size: int) -> memoryview:
        return content[offset : offset + size]

    return open_table(str(path), len(content), read, read, 0, KeyRange(b"", b""))


def handles(index: bytes) -> Iterator[tuple[int, int]]:
    """Offset and size of each data block, by an index that shares no bytes between its keys, as RocksDB writes it."""
    at, count = 0, int.from_bytes(index[-4:], "little")
    for _ in range(count):
        shared, at = read_varint(index, at)
        fresh, at = read_varint(index, at)
        assert shared == 0
        offset, at = read_varint(index, at + fresh)
        size, at = read_varint(index, at)
        yield offset, size


def data_blocks(path: Path) -> list[memoryview]:
    """The data blocks of a file, each with its compression and checksum."""
    content = memoryview(path.read_bytes())
    table = table_of(content, path)
    assert table.delta_values
    blocks = [content[offset : offset + size + TRAILER] for offset, size in handles(table.index)]
    assert len(blocks) == read_varint(table.properties[b"rocksdb.num.data.blocks"], 0)[0]
    return blocks


def limit_of(files: list[Path]) -> tuple[dict[str, Callable[[], object]], int]:
    """The three pieces of work that no reader of these files can do without, and how many bytes they are about."""
    blocks = [block for file in files for block in data_blocks(file)]
    bodies = []
    for block in blocks:
        size, at = read_varint(bytes(block[:10]), 0)
        bodies.append((block[at:-TRAILER], size) if block[-TRAILER] == LZ4 else (block[:-TRAILER], 0))
    raw = [lz4.block.decompress(body, size) if size else bytes(body) for body, size in bodies]
    total = sum(map(len, raw))
    target = memoryview(bytearray(total))

    def decompress() -> None:
        for body, size in bodies:
            if size:
                lz4.block.decompress(body, size)

    def hash_all() -> None:
        assert all(check_block(block, 4, 0, 0) for block in blocks)

    def copy() -> None:
        at = 0
        for block in raw:
            target[at : at + len(block)] = block
            at += len(block)

    return {"limit: lz4": decompress, "limit: XXH3": hash_all, "limit: copy": copy}, total


def halves_of(raw_bytes: int) -> dict[str, Callable[[], object]]:
    """What one thread and two do with two halves of so many bytes, without the interpreter's lock."""
    half = np.arange(raw_bytes // 2 // 8, dtype=np.int64).view(np.uint8)
    targets = [np.empty_like(half) for _ in range(2)]
    packed = lz4.block.compress(half)

    def copy(i: int) -> None:
        np.copyto(targets[i], half)

    def decompress(_: int) -> None:
        lz4.block.decompress(packed)

    def run(work: Callable[[int], None], threads: int) -> None:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, range(2)))

    return {
        f"{name}, {threads} thread{'s' * (threads > 1)}": partial(run, work, threads)
        for name, work in (("copy", copy), ("decompress", decompress))
        for threads in (1, 2)
    }


@pytest.mark.parametrize(
    ("layout", "what"),
    [(big_rocksdb.ONE_RUN, "RocksDB, one run"), (big_rocksdb.FOUR_RUNS, "RocksDB, four overlapping runs")],
    ids=lambda value: value.name if isinstance(value, big_rocksdb.Layout) else "",
)
def test_read_rocksdb(
    layout: big_rocksdb.Layout, what: str, spark: SparkSession, report: Report, num_keys: int, rounds: int
) -> None:
    path = big_rocksdb.checkpoint(layout, num_keys)
    files = big_rocksdb.sst_files(path)
    assert len(files) == big_state.NUM_PARTITIONS * layout.runs
    one, two = (hdfsstore.Checkpoint(path, num_threads=threads) for threads in (1, 2))
    assert one.read_state().num_rows == two.read_state().num_rows == num_keys
    assert big_state.spark_read_arrow(spark, path).num_rows == num_keys
    limits, raw_bytes = limit_of(files)
    beside_spark = side_by_side({SPARK: partial(big_state.spark_read_arrow, spark, path), ONE: one.read_state}, rounds)
    # Not in turns with Spark, whose threads tidy up behind it for a while: here both cores are wanted.
    with readers(path, big_state.NUM_PARTITIONS) as processes:
        seconds = side_by_side(
            {ONE: one.read_state, TWO: two.read_state, **limits, **halves_of(raw_bytes), PROCESSES: processes.read},
            4 * rounds,
            {PROCESSES: processes.free},
        )
    limit = sum(seconds[name] for name in limits)
    for name, taken in {**beside_spark, **seconds}.items():
        report.add(f"{what}: {name}", f"{taken * 1e3:.1f} ms", f"{raw_bytes / taken / 1e9:.2f} GB/s of the blocks")
    report.add(
        f"{what}: 1 thread is faster than Spark by", f"{beside_spark[SPARK] / beside_spark[ONE]:.1f} x", "goal: 12 x"
    )
    report.add(f"{what}: 1 thread reaches of its limit", f"{limit / seconds[ONE]:.0%}", "goal: 45 %")
    report.add(f"{what}: 2 threads are faster than 1 by", f"{seconds[ONE] / seconds[TWO]:.2f} x", "goal: 1.8 x")
    for name in ("copy", "decompress"):
        times = seconds[f"{name}, 1 thread"] / seconds[f"{name}, 2 threads"]
        report.add(f"{what}: 2 threads {name} faster than 1 by", f"{times:.2f} x", "what the machine gives")
    ours = seconds[ONE]
    report.add(f"{what}: 2 processes are faster than 1 thread by", f"{ours / seconds[PROCESSES]:.2f} x", "")


def test_read_rocksdb_with_changelogs(spark: SparkSession, report: Report, num_keys: int, rounds: int) -> None:
    without, path = (
        big_rocksdb.checkpoint(layout, num_keys) for layout in (big_rocksdb.ONE_RUN, big_rocksdb.CHANGELOGS)
    )
    plain, changed = (hdfsstore.Checkpoint(at, num_threads=1) for at in (without, path))
    assert plain.read_state().num_rows == changed.read_state().num_rows == num_keys
    beside_spark = side_by_side(
        {SPARK: partial(big_state.spark_read_arrow, spark, path), ONE: changed.read_state}, rounds
    )
    seconds = side_by_side({ONE: changed.read_state, WITHOUT: plain.read_state}, 4 * rounds)
    for name, taken in {**beside_spark, **seconds}.items():
        report.add(f"RocksDB, 8 changelogs: {name}", f"{taken * 1e3:.1f} ms", "")
    times = beside_spark[SPARK] / beside_spark[ONE]
    report.add("RocksDB, 8 changelogs: 1 thread is faster than Spark by", f"{times:.1f} x", "")
    share = seconds[ONE] / seconds[WITHOUT]
    report.add("RocksDB, 8 changelogs take of the time without them", f"{share:.2f} x", "goal: 1.3 x")


def one_key_of(path: Path) -> None:
    assert hdfsstore.Checkpoint(path).read_state(key=KEY).num_rows == 1


def history_of_one_key(path: Path) -> None:
    assert hdfsstore.Checkpoint(path).history(KEY).num_rows > 0


@pytest.mark.parametrize(
    ("what", "read"), [("read_state(key=)", one_key_of), ("history(key)", history_of_one_key)], ids=["state", "history"]
)
def test_read_one_key_of_rocksdb(
    what: str, read: Callable[[Path], None], report: Report, num_keys: int, rounds: int
) -> None:
    """`history(key)` is what `hdfsstore history --key` calls."""
    paths = [big_rocksdb.checkpoint(big_rocksdb.ONE_RUN, count) for count in (num_keys, SMALL)]
    names = [f"RocksDB, {what}, one of {count:,} keys, files not in the page cache" for count in (num_keys, SMALL)]
    for path in paths:
        drop_pages(path)
    seconds = side_by_side(
        {name: partial(read, path) for name, path in zip(names, paths, strict=True)},
        4 * rounds,
        {name: partial(drop_pages, path) for name, path in zip(names, paths, strict=True)},
    )
    for name, taken in seconds.items():
        report.add(name, f"{taken * 1e3:.1f} ms", "")
    large, small = seconds.values()
    report.add(f"RocksDB, {what}: the larger state takes longer by", f"{(large - small) * 1e3:.1f} ms", "goal: 20 ms")


def drop_pages(folder: Path) -> None:
    """Lets the system drop the files of a folder from its page cache, where it can be asked to (Linux)."""
    if hasattr(os, "posix_fadvise"):
        for path in folder.rglob("*"):
            if path.is_file():
                with path.open("rb") as file:
                    os.fsync(file.fileno())
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def test_memory_of_open_rocksdb(report: Report, num_keys: int) -> None:
    _, after, size = memory("open", big_rocksdb.checkpoint(big_rocksdb.ONE_RUN, 10 * num_keys))
    report.add(f"RocksDB, open_state of {size / 1e6:,.0f} MB, peak memory", f"{after / 1e6:.0f} MB", "goal: 200 MB")
