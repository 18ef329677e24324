"""mapInArrowWithState on a live Spark."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from hdfsstore.spark import groupBy
from tests.spark.support.counts import count, write_batches


def test_counts_are_those_of_all_batches_so_far(spark: SparkSession, tmp_path: Path) -> None:
    chance = random.Random(1)
    data = [
        pa.table({name: [chance.randrange(n) for _ in range(200)] for name, n in (("user", 50), ("v", 9))})
        for _ in range(3)
    ]
    source = write_batches(tmp_path / "in", data)
    found: dict[int, dict[int, tuple[int, int]]] = {}

    def sink(output: DataFrame, batch_id: int) -> None:
        found[batch_id] = {row.user: (row.n, row.total) for row in output.collect()}

    rows = spark.readStream.schema("user long, v long").option("maxFilesPerTrigger", 1).parquet(str(source))
    counts = groupBy(rows, "user").mapInArrowWithState(
        count, "user long, n long, total long", "n long, total long", "update", "NoTimeout"
    )
    query = (
        counts.writeStream.outputMode("update")
        .option("checkpointLocation", str(tmp_path / "cp"))
        .trigger(availableNow=True)
        .foreachBatch(sink)
        .start()
    )
    query.awaitTermination()
    n: Counter[int] = Counter()
    total: Counter[int] = Counter()
    for batch_id, batch in enumerate(data):
        for user, v in zip(batch["user"].to_pylist(), batch["v"].to_pylist(), strict=True):
            n[user] += 1
            total[user] += v
        assert found[batch_id] == {user: (n[user], total[user]) for user in set(batch["user"].to_pylist())}
    assert [progress["stateOperators"][0]["numRowsTotal"] for progress in query.hdfsstore.recentProgress][-1] == len(n)
