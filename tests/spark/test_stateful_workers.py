"""Python workers that take turns with the partitions, are killed between batches, or live for one task only."""

from __future__ import annotations

import os
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from hdfsstore.spark import groupBy
from tests.spark.support.counts import write_batches
from tests.support.images import resident
from tests.support.waiting import wait_until

USERS = 40


def count(rows: pa.Table, state: Any) -> pa.Table:
    """Counts rows, and tells which process did, and for which partition."""
    groups = rows.group_by("user").aggregate([("user", "count")])
    keys = groups.select(["user"])
    n = pc.add(groups["user_count"], pc.fill_null(state.get(keys)["n"], 0))
    state.put(keys, pa.table({"n": n}))
    task: Any = TaskContext.get()
    here = {"pid": os.getpid(), "part": task.partitionId()}
    return pa.table({"user": groups["user"], "n": n} | {k: pa.array([v] * len(n), pa.int32()) for k, v in here.items()})


class Run:
    """A query, a batch a file, that ran to its end; every output was that of all batches so far.

    Args:
        between: called after each batch, with all workers that had a part of the query so far. They are idle.
        options: hdfsstore.*, without that.

    Attributes:
        pids: of the workers of each batch.
        tasks: of each batch: which worker had which partition.
        loads: what each batch's tasks did to get the state to hand: deltas and snapshots read, local images found.
    """

    def __init__(
        self,
        spark: SparkSession,
        folder: Path,
        num_batches: int,
        between: Callable[[int, set[int]], object] = lambda *_: None,
        **options: Any,
    ) -> None:
        self.images = folder / "images"
        self.state = folder / "cp" / "hdfsstore" / "state" / "0"
        self.pids: list[set[int]] = []
        self.tasks: list[set[tuple[int, int]]] = []
        batches = [pa.table({"user": [(7 * i + batch) % USERS for i in range(60)]}) for batch in range(num_batches)]
        expected: Counter[int] = Counter()

        def sink(output: DataFrame, batch_id: int) -> None:
            rows = output.collect()
            users = batches[batch_id]["user"].to_pylist()
            expected.update(users)
            assert {row.user: row.n for row in rows} == {user: expected[user] for user in set(users)}
            self.pids.append({row.pid for row in rows})
            self.tasks.append({(row.pid, row.part) for row in rows})
            between(batch_id, set.union(*self.pids))

        source = write_batches(folder / "in", batches)
        rows = spark.readStream.schema("user long").option("maxFilesPerTrigger", 1).parquet(str(source))
        counts = groupBy(rows, "user").mapInArrowWithState(
            count, "user long, n long, pid int, part int", "n long", "update", "NoTimeout"
        )
        query = (
            counts.writeStream.option("checkpointLocation", str(folder / "cp"))
            .options(**{f"hdfsstore.{name}": value for name, value in options.items()})
            .option("hdfsstore.localDir", str(self.images))
            .trigger(availableNow=True)
            .foreachBatch(sink)
            .start()
        )
        query.awaitTermination()
        names = "deltasLoaded", "snapshotsLoaded", "localImageHitCount"
        operators = [progress["stateOperators"][0] for progress in query.hdfsstore.recentProgress]
        self.loads = [{name: operator["customMetrics"][name] for name in names} for operator in operators]

    def snapshots(self) -> list[int]:
        """How many each partition has."""
        return [len(list(folder.glob("*.snapshot"))) for folder in sorted(self.state.glob("[0-9]*"))]


def remove(folder: Path) -> None:
    """Removes a folder in which workers may be writing."""

    def is_gone() -> bool:
        shutil.rmtree(folder, ignore_errors=True)
        return not folder.exists()

    wait_until(is_gone)


def kill(pids: set[int]) -> None:
    """Kills those of them that live; until they are reaped, Spark would give them tasks, which would fail."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))


@contextmanager
def single_use_workers(spark: SparkSession) -> Iterator[None]:
    """Spark starts a process for each task."""
    conf = spark.sparkContext._jsc.sc().conf()
    conf.set("spark.python.worker.reuse", "false")
    try:
        yield
    finally:
        conf.set("spark.python.worker.reuse", "true")


def test_snapshots_are_made_by_workers_that_take_turns(spark: SparkSession, tmp_path: Path) -> None:
    run = Run(spark, tmp_path, 10, numPartitions=4, minDeltasForSnapshot=3)
    wait_until(lambda: all(run.snapshots()))
    assert len(run.snapshots()) == 4
    met: set[tuple[int, int]] = set()
    for tasks, load in zip(run.tasks, run.loads, strict=True):
        if tasks <= met:
            assert load["snapshotsLoaded"] == 0, "a swap costs what was missed"
        met |= tasks


def test_killed_workers_and_a_lost_disk_cost_time_only(spark: SparkSession, tmp_path: Path) -> None:
    num_batches, lost, killed, unlinked = 13, 8, 9, 10

    def between(batch_id: int, pids: set[int]) -> None:
        if batch_id in (2, lost - 1, killed - 1):
            kill(pids)
        if batch_id == lost - 1:
            # Each has a snapshot by now; the batch itself made it where the background did not come to that.
            remove(tmp_path / "images")
        if batch_id == unlinked - 1:
            remove(tmp_path / "images")  # under workers that have the images mapped

    run = Run(spark, tmp_path, num_batches, between, numPartitions=2, minDeltasForSnapshot=0)
    for batch_id in (3, lost, killed):
        assert not run.pids[batch_id] & run.pids[batch_id - 1]
    assert run.loads[lost]["snapshotsLoaded"] == 2
    assert run.loads[lost]["localImageHitCount"] == 0
    # Others have the images that were lost from those that loaded the snapshots.
    assert run.loads[killed]["snapshotsLoaded"] == 0
    assert run.loads[killed]["localImageHitCount"] == 2
    # A snapshot is due with every batch, so that few deltas follow an image.
    assert run.loads[killed]["deltasLoaded"] <= 2 * 5


def test_a_worker_keeps_pages_of_the_image_only_that_it_works_on(spark: SparkSession, tmp_path: Path) -> None:
    num_partitions, maintained, looked_at = 8, 3, 5
    mapped: list[dict[str, int]] = []

    def between(batch_id: int, pids: set[int]) -> None:
        if batch_id == maintained:
            wait_until(lambda: len(list(tmp_path.glob("images/*/*.image"))) >= num_partitions)
        if batch_id == looked_at:  # in between no other image was made
            wait_until(lambda: all(sum(size > 0 for size in sizes.values()) <= 1 for sizes in images_of(pids)))
            mapped.extend(images_of(pids))

    def images_of(pids: set[int]) -> list[dict[str, int]]:
        return [resident(tmp_path / "images", pid) for pid in pids if Path(f"/proc/{pid}").exists()]

    options = {"minDeltasForSnapshot": maintained - 1, "maintenanceInterval": "1h"}
    Run(spark, tmp_path, looked_at + 1, between, numPartitions=num_partitions, **options)
    assert sum(map(len, mapped)) > 2 * len(mapped)


def test_workers_that_live_for_one_task_leave_snapshots(spark: SparkSession, tmp_path: Path) -> None:
    with single_use_workers(spark):
        run = Run(spark, tmp_path, 7, numPartitions=2, minDeltasForSnapshot=0)
    assert len(set.union(*run.pids)) == 2 * 7
    assert all(run.snapshots())
    # A batch makes the snapshot before it does anything else where five deltas follow the one before.
    assert run.loads[-1]["deltasLoaded"] <= 2 * 6
