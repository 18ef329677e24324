"""Our stateful functions on many keys: batches, timeouts, the workers' memory, and how soon a query is up again."""

from __future__ import annotations

import os
import shutil
import statistics
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bench import spark_sides
from bench.cache import work_folder
from bench.events import Events
from bench.our_sides import APIS, IN_ARROW, IN_PANDAS, ours
from bench.page_cache import cached_bytes
from bench.report import Report
from bench.streams import Start, Stream
from bench.workers import end_workers, memory_of_workers

FILL = 1_000_000
NUM_FILLS = 5
RECORD_BYTES = 80  # two lengths of 4, a key row of 32 and a value row of 40
GROUP = 4


@pytest.fixture(scope="module")
def fill(smoke: bool) -> Events:
    """Batches of new users."""
    rows = FILL // 100 if smoke else FILL
    return Events(rows, rows, 0)


def drawn_from(known: int, smoke: bool) -> Events:
    """Batches of 100,000 rows over 50,000 of these users."""
    rows = 1_000 if smoke else 100_000
    return Events(rows, rows // 2, known)


def filled(spark: SparkSession, folder: Path, start: Start, fill: Events, num_fills: int) -> Stream:
    """A stream whose state has all users of `num_fills` batches of new ones; stopped."""
    stream = Stream(spark, folder, start)
    stream.start()
    stream.batches(fill, 0, num_fills)
    stream.query.stop()
    return stream


@pytest.fixture(scope="module")
def held(spark: SparkSession, fill: Events) -> Iterator[dict[bool, Path]]:
    """The folders of streams of mapInArrowWithState with 5 million keys: without timeouts and with."""
    with work_folder() as work:
        for timeouts in (False, True):
            filled(spark, work / str(timeouts), ours(IN_ARROW, timeouts=timeouts), fill, NUM_FILLS)
        yield {timeouts: work / str(timeouts) for timeouts in (False, True)}


def copy_for(api: str, folder: Path, to: Path) -> None:
    """A copy of a stream's folder, files linked, as if that API had made it: the state's rows are the same."""

    def link(source: str, target: str) -> None:
        with suppress(FileNotFoundError):  # maintenance has just removed it
            os.link(source, target)

    shutil.copytree(folder, to, copy_function=link)
    checkpoint = to / "checkpoint"
    for file in (*checkpoint.glob("sources/0/[0-9]*"), checkpoint / "hdfsstore/state/0/_metadata/metadata"):
        said = file.read_text()
        file.unlink()
        file.write_text(said.replace(str(folder), str(to)).replace(IN_ARROW, api))
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


@pytest.mark.parametrize("api", APIS)
def test_many_keys(
    spark: SparkSession, report: Report, smoke: bool, fill: Events, held: dict[bool, Path], api: str
) -> None:
    keys, few = fill.users * NUM_FILLS, 500 if smoke else 50_000
    plain, expiring = f"{keys:,} keys", f"{keys:,} keys, {few // 50:,} expiring a batch"
    events = {
        f"{few:,} keys": drawn_from(few, smoke),
        plain: drawn_from(keys, smoke),
        expiring: drawn_from(keys, smoke),
    }
    taken: dict[str, list[float]] = {name: [] for name in events}
    with ExitStack() as stack:
        work = stack.enter_context(work_folder())
        streams = {}
        for name in events:
            folder = work / str(len(streams))
            if name in (plain, expiring):
                copy_for(api, held[name == expiring], folder)
            stream = streams[name] = Stream(spark, folder, ours(api, timeouts=name == expiring))
            stream.start()
            stack.callback(stream.query.stop)
        for turn in range(1 if smoke else 2 if api == IN_PANDAS else 3):
            for name, stream in streams.items():
                # In the first of a group no key expires: the batch without rows after the last group had its.
                seconds = stream.batches(events[name], NUM_FILLS + turn * GROUP, GROUP)[1:]
                if turn or smoke:
                    taken[name] += seconds
        progress = streams[expiring].query.hdfsstore.recentProgress[-3:]
        removed = [p["stateOperators"][0]["numRowsRemoved"] for p in progress]
    medians = {name: statistics.median(seconds) for name, seconds in taken.items()}
    base = next(iter(medians.values()))
    for name, seconds in medians.items():
        note = f"{seconds / base:.2f} x; goal: at most 1.3 x" if seconds is not base else ""
        report.add(f"{api}, {name}", f"{seconds:.2f} s", note)
    assert max(removed) > 0


def test_memory_of_workers(spark: SparkSession, report: Report, smoke: bool, fill: Events) -> None:
    keys = fill.users * NUM_FILLS
    events = drawn_from(keys, smoke)
    end_workers()
    with work_folder() as work:
        filled(spark, work / "plan", spark_sides.without_state, events, 1 if smoke else 3)
        bare = memory_of_workers()
        images = work / "images"
        start = ours(IN_ARROW, num_partitions=32, local_dir=images)
        stream = filled(spark, work / "state", start, fill, NUM_FILLS)
        end_workers()  # what large batches leave in the allocators' pools is not the state's
        stream.start()
        stream.batches(events, NUM_FILLS, 1 if smoke else 20)
        taken, cached = memory_of_workers(), cached_bytes(images)
        stream.query.stop()
    raw = keys * RECORD_BYTES
    report.add(f"32 partitions, {keys:,} keys: one copy of the records", f"{raw / 1e6:.0f} MB", "")
    report.add("all Python workers together", f"{taken / 1e6:.0f} MB", f"{taken / raw:.2f} x; goal: at most 1.5 x")
    report.add("all Python workers together on the plan without state", f"{bare / 1e6:.0f} MB", "")
    report.add("local images in the system's page cache", f"{cached / 1e6:.0f} MB", f"{cached / raw:.2f} x")


def test_first_batch(spark: SparkSession, report: Report, smoke: bool, fill: Events) -> None:
    keys = fill.users * 2
    small = Events(1_000, 500, keys)
    taken: dict[str, list[float]] = {}
    with work_folder() as work:
        local = work / "local"
        plan = Stream(spark, work / "plan", spark_sides.without_state)
        theirs = filled(spark, work / "theirs", spark_sides.sql_aggregation, fill, 2)
        mine = filled(spark, work / "ours", ours(IN_ARROW, local_dir=local), fill, 2)
        for turn in range(1 if smoke else 4):
            for name, stream in {
                "the plan without state": plan,
                "Spark's SQL aggregation": theirs,
                f"{IN_ARROW}, cold": mine,
                f"{IN_ARROW}, from local images": mine,
            }.items():
                end_workers()
                if name.endswith("cold"):
                    shutil.rmtree(local)
                batch = 2 + 2 * turn + name.endswith("images")
                seconds = stream.first_batch(small, batch)
                if turn or smoke:
                    taken.setdefault(name, []).append(seconds)
    for name, seconds in taken.items():
        report.add(f"start to first batch, {keys:,} keys: {name}", f"{statistics.median(seconds):.2f} s", "")
