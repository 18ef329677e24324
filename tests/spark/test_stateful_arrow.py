"""mapInArrowWithState on a live Spark."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from hdfsstore.spark import groupBy


def write_batches(folder: Path, batches: Sequence[pa.Table]) -> Path:
    """One file a batch, read in this order with maxFilesPerTrigger=1."""
    folder.mkdir()
    for i, batch in enumerate(batches):
        path = folder / f"{i:03d}.parquet"
        pq.write_table(batch, path)
        os.utime(path, (1_000_000_000 + i, 1_000_000_000 + i))
    return folder


def count(rows: pa.Table, state: object) -> pa.Table:
    groups = rows.group_by("user").aggregate([("v", "sum"), ("v", "count")])
    keys = groups.select(["user"])
    before = state.get(keys)  # type: ignore[attr-defined]
    n = pc.add(groups["v_count"], pc.fill_null(before["n"], 0))
    total = pc.add(groups["v_sum"], pc.fill_null(before["total"], 0))
    state.put(keys, pa.table({"n": n, "total": total}))  # type: ignore[attr-defined]
    return pa.table({"user": groups["user"], "n": n, "total": total})


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
