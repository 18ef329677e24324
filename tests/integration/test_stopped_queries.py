"""A query is stopped while the storage leaves our requests waiting: stop() returns, and the next run goes on."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from hdfsstore import Checkpoint
from tests.integration.name_node_proxy import NameNodeProxy
from tests.services.fault_proxy import Fault, FaultProxy
from tests.services.hdfs import Hdfs
from tests.services.minio import Minio
from tests.spark.support.totals import Events, totals
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark

TIMEOUT_S = 8
# Spark does much at a stop, too, and the machine may be loaded.
RETURNS_S = 60.0

# Requests with such a part wait for as long as its `with` lasts. It gives what tells whether one does.
Holding = Callable[[str], AbstractContextManager[Callable[[], bool]]]


@pytest.fixture
def on_s3(spark: SparkSession, minio: Minio, proxy: FaultProxy) -> Iterator[tuple[str, Holding]]:
    bucket = f"stopped-{uuid.uuid4()}"
    minio.create_bucket(bucket)
    spark.conf.set(f"fs.s3a.bucket.{bucket}.endpoint", minio.endpoint(proxy.port))

    @contextmanager
    def holding(part: str) -> Iterator[Callable[[], bool]]:
        fault = proxy.plan(Fault("hang", part=part, times=10_000))[0]
        yield lambda: fault.met > 0
        proxy.plan()

    yield f"s3a://{bucket}/query", holding
    spark.conf.unset(f"fs.s3a.bucket.{bucket}.endpoint")


@pytest.fixture
def on_hdfs(hdfs: Hdfs) -> Iterator[tuple[str, Holding]]:
    proxy = NameNodeProxy(hdfs.rpc_ports[0])

    @contextmanager
    def holding(part: str) -> Iterator[Callable[[], bool]]:
        with proxy.holding(part):
            yield proxy.held.is_set

    yield f"hdfs://127.0.0.1:{proxy.port}/{uuid.uuid4()}/query", holding
    proxy.close()


@pytest.mark.parametrize("storage", ["on_s3", "on_hdfs"])
@pytest.mark.parametrize("held", ["/hdfsstore/offsets", "/hdfsstore/state"], ids=["driver", "tasks"])
def test_a_stop_returns_while_the_storage_leaves_our_requests_waiting(
    request: pytest.FixtureRequest, spark: SparkSession, minio: Minio, tmp_path: Path, storage: str, held: str
) -> None:
    uri, holding = request.getfixturevalue(storage)
    (tmp_path / "input").mkdir()
    events = Events(spark, tmp_path / "input")

    def sink(rows: DataFrame, _: int) -> None:
        rows.write.format("noop").mode("overwrite").save()

    def start() -> StreamingQuery:
        return (
            totals(events.stream())
            .writeStream.outputMode("update")
            .option("checkpointLocation", uri)
            .option("hdfsstore.numPartitions", 2)
            .option("hdfsstore.fs.timeout", f"{TIMEOUT_S}s")
            .foreachBatch(sink)
            .start()
        )

    query = start()
    events.add(("ann", 1, 0))
    query.processAllAvailable()
    with holding(held) as is_waiting:
        events.add(("ann", 2, 0), ("bob", 3, 0))
        wait_until(is_waiting)
        stop = threading.Thread(target=query.stop, daemon=True)
        stop.start()
        stop.join(RETURNS_S)
        assert not stop.is_alive()
        assert not query.isActive
    query = start()
    query.processAllAvailable()
    query.stop()
    options = {**minio.storage_options(), "timeout": 60} if storage == "on_s3" else None
    rows = Checkpoint(f"{uri}/hdfsstore", storage_options=options).read_state().to_pylist()
    assert {row["key"]["user"]: row["value"]["groupState"]["total"] for row in rows} == {"ann": 3, "bob": 3}
