"""What a batch of a stateful query on s3a asks of the server, beside what Spark's own log asks."""

from __future__ import annotations

import uuid
from pathlib import Path

from pyspark.sql import SparkSession

from tests.services.fault_proxy import FaultProxy
from tests.services.minio import Minio
from tests.services.s3_requests import by_kind
from tests.spark.support.totals import Events, finished, totals

PARTITIONS = 4
RETAINED = 2
# Until old entries and files are deleted in each batch; and those whose requests count.
BEFORE, BATCHES = 5, 6


def test_a_batch_of_four_partitions_is_at_most_twelve_requests(
    spark: SparkSession, minio: Minio, proxy: FaultProxy, tmp_path: Path
) -> None:
    bucket = f"counted-{uuid.uuid4()}"
    minio.create_bucket(bucket)
    spark.conf.set(f"fs.s3a.bucket.{bucket}.endpoint", minio.endpoint(proxy.port))
    spark.conf.set("spark.sql.streaming.minBatchesToRetain", RETAINED)
    (tmp_path / "input").mkdir()
    events = Events(spark, tmp_path / "input")
    query = (
        totals(events.stream())
        .writeStream.outputMode("update")
        .option("checkpointLocation", f"s3a://{bucket}/query")
        .option("hdfsstore.numPartitions", PARTITIONS)
        .foreachBatch(lambda rows, _: rows.write.format("noop").mode("overwrite").save())
        .start()
    )
    try:
        for batch in range(BEFORE + BATCHES):
            if batch == BEFORE:
                proxy.take()
            events.add(*((f"user {user}", user, 0) for user in range(40)))
            query.processAllAvailable()
        found = by_kind(proxy.take_with_agents())
    finally:
        query.stop()
        finished(query)
        spark.conf.unset("spark.sql.streaming.minBatchesToRetain")
        spark.conf.unset(f"fs.s3a.bucket.{bucket}.endpoint")
    ours = found["ours"]
    told = [each["stateOperators"][0]["customMetrics"] for each in finished(query).hdfsstore.recentProgress[BEFORE:]]
    # Spark may give a partition to another worker, which reads what it lacks.
    reads = sum(number for kind, number in ours.items() if kind in ("GET delta", "GET snapshot"))
    assert ours["PUT delta"] == PARTITIONS * BATCHES, ours
    assert sum(metrics["fsRequests.PUT"] for metrics in told) == ours["PUT delta"]
    assert sum(metrics["fsRequests"] for metrics in told) >= ours["PUT delta"] + reads
    for kind in ("GET offsets", "PUT offsets", "PUT commits"):
        assert ours[kind] == BATCHES, ours
    assert ours.total() - reads <= 12 * BATCHES, ours
    assert found["Spark's log"].total() > 12 * BATCHES  # they are told apart
    assert not found["Spark's state"]
