"""State on a real HDFS: beside the bare client on the same HDFS, and beside the same work on a local disk."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from pathlib import Path

import hdfs_native
from pyspark.sql import SparkSession
from pytest_benchmark.fixture import BenchmarkFixture

import hdfsstore
from bench import big_state
from bench.delta_commits import DELTA_BYTES, DeltaCommits
from bench.report import Report
from bench.side_by_side import side_by_side
from hdfsstore.fs.hdfs.hdfs_files import HdfsFileManager
from hdfsstore.fs.hdfs.settings import HdfsSettings
from tests.services.hdfs import Hdfs

PARALLEL = 8


def downloads(client: hdfs_native.Client, paths: list[str]) -> dict[str, Callable[[], object]]:
    """Ways to bring all files here, of which the quickest counts."""

    def whole(path: str) -> int:
        return len(client.read(path).read())

    def streamed(path: str) -> int:
        file = client.read(path)
        return sum(map(len, file.read_range_stream(0, len(file))))

    def in_parallel(each: Callable[[str], int]) -> Callable[[], object]:
        def work() -> int:
            with ThreadPoolExecutor(PARALLEL) as pool:
                return sum(pool.map(each, paths))

        return work

    return {
        "hdfs-native: files one after the other": lambda: sum(map(whole, paths)),
        "hdfs-native: streams one after the other": lambda: sum(map(streamed, paths)),
        "hdfs-native: files in parallel": in_parallel(whole),
        "hdfs-native: streams in parallel": in_parallel(streamed),
    }


def test_read_state_from_hdfs(
    benchmark: BenchmarkFixture,
    hdfs: Hdfs,
    checkpoint: Path,
    spark: SparkSession,
    report: Report,
    num_keys: int,
    rounds: int,
) -> None:
    files = HdfsFileManager(HdfsSettings.of(hdfs.authority, hdfs.client_conf, client="hdfs-native"))
    # Hadoop writes hidden checksum files on a local disk alone: HDFS has checksums of its own.
    inside = [path for path in checkpoint.rglob("*") if path.is_file() and path.suffix != ".crc"]
    for path in inside:
        files.write_unique(f"/{path.relative_to(checkpoint)}", [path.read_bytes()])
    local, remote = hdfsstore.Checkpoint(checkpoint), hdfsstore.Checkpoint((files, "/"))
    assert local.read_state().num_rows == remote.read_state().num_rows == num_keys
    state = big_state.chain_files(checkpoint)
    client = hdfs_native.Client(f"hdfs://{hdfs.authority}", hdfs.client_conf)
    bare = downloads(client, [f"/{path.relative_to(checkpoint)}" for path in state])
    sparks = partial(big_state.spark_read_arrow, spark, f"hdfs://{hdfs.authority}/")
    beside_spark = side_by_side({"Spark, HDFS": sparks, "read_state, HDFS": remote.read_state}, rounds)
    # Not in turns with Spark, whose threads tidy up behind it for a while.
    work = {"read_state, local": local.read_state, "read_state, HDFS": remote.read_state, **bare}
    seconds = side_by_side(work, 2 * rounds)
    quickest = min(seconds[name] for name in bare)
    goal = 1.3 * quickest + 1.1 * seconds["read_state, local"]
    size = sum(path.stat().st_size for path in state)
    share = seconds["read_state, HDFS"] / goal
    for name, taken in [*beside_spark.items(), *seconds.items()]:
        report.add(f"{size / 1e6:.0f} MB of state: {name}", f"{taken * 1e3:.1f} ms", f"{num_keys:,} keys")
    report.add("read_state, HDFS: share of 1.3 downloads + 1.1 local reads", f"{share:.0%}", "goal: 100 %")
    faster = beside_spark["Spark, HDFS"] / beside_spark["read_state, HDFS"]
    report.add("read_state, HDFS: faster than Spark by", f"{faster:.1f} x", "")
    benchmark.pedantic(remote.read_state)


def test_commit_of_a_delta_on_hdfs(
    benchmark: BenchmarkFixture, hdfs: Hdfs, report: Report, rounds: int, tmp_path: Path
) -> None:
    files = HdfsFileManager(HdfsSettings.of(hdfs.authority, hdfs.client_conf, client="hdfs-native"))
    client = hdfs_native.Client(f"hdfs://{hdfs.authority}", hdfs.client_conf)
    content = bytes(DELTA_BYTES)
    numbers = count()

    def bare() -> None:
        path = f"/bare/{next(numbers)}"
        file = client.create(f"{path}.tmp")
        file.write(content)
        file.close()
        client.rename(f"{path}.tmp", path)

    def ours() -> None:
        files.create(f"/ours/{next(numbers)}", [content])

    commit = DeltaCommits(files, "/stores", tmp_path)
    work = {"hdfs-native: create and rename": bare, "our create": ours, "store's commit": commit}
    seconds = side_by_side(work, rounds * 10)
    for name, taken in seconds.items():
        share = taken / seconds["hdfs-native: create and rename"]
        report.add(
            f"HDFS: {DELTA_BYTES:,} bytes, {name}",
            f"{taken * 1e3:.1f} ms",
            f"{share:.2f} x the bare client; goal: 1.3 x",
        )
    benchmark.pedantic(commit)
