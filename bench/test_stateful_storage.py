"""Stateful queries whose checkpoint is on a local disk, on HDFS and on S3: time and requests of a batch.

The servers are on this machine, so they take their share of its cores, and the way to them takes no time.
"""

from __future__ import annotations

import statistics
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from bench import spark_sides
from bench.conftest import BUCKET
from bench.events import Events
from bench.our_sides import IN_ARROW, ours
from bench.report import Report
from bench.streams import Start, Stream, started, take_turns
from tests.services.fault_proxy import FaultProxy
from tests.services.hdfs import Hdfs
from tests.services.minio import Minio
from tests.services.s3_requests import by_kind

SQL = "Spark's SQL aggregation"
COUNTED = "counted"
PARTITIONS = 4
LOCAL = "a local disk"
WARM_UP = 4
# spark.sql.streaming.numRecentProgressUpdates is 100, and batches without rows are among them.
_PROGRESS_KEPT = 40
# latestOffset: the source writes a log of its own into the checkpoint.
SHOWN = ("addBatch", "commitOffsets", "latestOffset", "walCommit")


@pytest.fixture(scope="module")
def proxy(minio: Minio) -> Iterator[FaultProxy]:
    minio.create_bucket(COUNTED)
    with FaultProxy(minio.port) as running:
        yield running


@pytest.fixture
def storages(spark: SparkSession, minio: Minio, hdfs: Hdfs, proxy: FaultProxy) -> Iterator[SparkSession]:
    """The session, which knows how to reach the servers. The bucket COUNTED is reached through the proxy."""
    settings = minio.storage_options() | {
        f"fs.s3a.bucket.{COUNTED}.endpoint": minio.endpoint(proxy.port),
        "dfs.replication": hdfs.client_conf["dfs.replication"],
    }
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield spark
    for name in settings:
        spark.conf.unset(name)
    # Else Spark's one maintenance thread waits for the servers when they have ended, and does nothing for others.
    spark._jvm.org.apache.spark.sql.execution.streaming.state.StateStore.stop()


def at(root: str, start: Start) -> Start:
    """The same query with its checkpoint below a URI."""

    def begin(rows: DataFrame, _: Path | str) -> StreamingQuery:
        return start(rows, f"{root}/{uuid.uuid4()}")

    return begin


def test_a_batch(storages: SparkSession, hdfs: Hdfs, report: Report, smoke: bool, rounds: int) -> None:
    rows = 1_000 if smoke else 100_000
    events = Events(rows, rows // 2, rows // 2)
    places = {LOCAL: None, "HDFS": hdfs.uri("bench"), "MinIO": f"s3a://{BUCKET}"}
    queries = {IN_ARROW: ours(IN_ARROW), SQL: spark_sides.sql_aggregation}
    sides = {
        (what, where): start if root is None else at(root, start)
        for what, start in queries.items()
        for where, root in places.items()
    }
    with started(storages, sides) as streams:
        take_turns(streams, events, rounds if smoke else 4 * rounds, warm_up=0 if smoke else WARM_UP)
        found = {side: phases(stream) for side, stream in streams.items()}
    for (what, where), taken in found.items():
        ms, local = without_sparks_log(taken), without_sparks_log(found[what, LOCAL])
        goal = "" if what == SQL or where == LOCAL else ", goal: at most 1.2 x"
        of_these = ", ".join(f"{name} {taken[name]:.0f}" for name in sorted(taken) if name in SHOWN)
        report.add(
            f"{rows:,} rows, checkpoint on {where}: {what}",
            f"{ms:.0f} ms",
            f"{ms / local:.2f} x {LOCAL}{goal} ({of_these})",
        )


def phases(stream: Stream) -> dict[str, float]:
    """Median milliseconds of each phase of a batch, under Spark's names."""
    done = [progress.durationMs for progress in stream.query.recentProgress if progress.numInputRows]
    counted = done[WARM_UP:] or done
    return {name: statistics.median(each.get(name, 0) for each in counted) for name in counted[-1]}


def without_sparks_log(taken: Mapping[str, float]) -> float:
    """The milliseconds of a batch but those in which Spark writes its own log."""
    return taken["triggerExecution"] - taken["walCommit"] - taken["commitOffsets"]


def test_requests_of_a_batch(storages: SparkSession, proxy: FaultProxy, report: Report, smoke: bool) -> None:
    events = Events(1000, 500, 500)  # more rows need no more requests
    batches, retained = (2, 2) if smoke else (20, 100)  # 100 is Spark's default
    storages.conf.set("spark.sql.streaming.minBatchesToRetain", retained)
    counted = f"s3a://{COUNTED}"
    sides = {
        IN_ARROW: at(counted, ours(IN_ARROW, num_partitions=PARTITIONS)),
        SQL: at(counted, partial(spark_sides.sql_aggregation, partitions=PARTITIONS)),
    }
    for name, start in sides.items():
        with started(storages, {name: start}) as streams:
            # By then every worker deletes old files of every partition.
            found = requests_of(streams[name], proxy, events, 3 * retained // 2, batches)
        for who, kinds in found.items():
            if kinds:
                each = ", ".join(f"{number / batches:.1f} {kind}" for kind, number in kinds.most_common())
                goal = "; goal: at most 12" if who == "ours" else ""
                report.add(f"requests of a batch, {name}: {who}", f"{kinds.total() / batches:.1f}", each + goal)
    storages.conf.unset("spark.sql.streaming.minBatchesToRetain")


def requests_of(
    stream: Stream, proxy: FaultProxy, events: Events, before: int, batches: int
) -> Mapping[str, Counter[str]]:
    """The requests of so many batches, with the maintenance behind them, after those `before` that do not count."""
    for first in range(0, before, _PROGRESS_KEPT):
        stream.batches(events, first, min(_PROGRESS_KEPT, before - first))
    proxy.take()
    stream.batches(events, before, batches)
    return by_kind(proxy.take_with_agents())
