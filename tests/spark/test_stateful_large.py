"""Partitions of more rows than a worker may hold: sorted by Spark, in several calls, streamed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Row, SparkSession

from hdfsstore.codecs.murmur3 import partition_ids
from hdfsstore.codecs.types import LongType, StructField, StructType
from hdfsstore.spark import groupBy
from tests.spark.support.counts import write_batches

MiB = 1 << 20


def resident_bytes() -> int:
    """Of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def calls(rows: pa.Table, state: Any) -> pa.Table:
    """Counts rows, and tells of each call what it was given."""
    keys = rows.group_by("user").aggregate([("user", "count")])
    before = state.get(keys)
    state.put(keys, pa.table({"n": pc.add(keys["user_count"], pc.fill_null(before["n"], 0))}))
    users = pc.unique(rows["user"]).to_pylist()
    return pa.table({"users": [users], "rows": [rows.num_rows], "size": [rows.nbytes], "resident": [resident_bytes()]})


def partition_of(user: int) -> int:
    """The partition of a key."""
    keys = pa.StructArray.from_arrays([pa.array([user])], ["user"])
    return int(partition_ids(keys, StructType((StructField("user", LongType()),)), 2)[0].as_py())


def run(spark: SparkSession, tmp_path: Path, batches: list[pa.Table], schema: str, limit: str) -> list[list[Row]]:
    """What the calls of each run of the sink told, the state being checked too."""
    source = write_batches(tmp_path / "in", batches)
    found: list[list[Row]] = []

    def sink(output: DataFrame, _: int) -> None:
        found.append([])
        found[-1] += output.collect()

    rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(source))
    told = groupBy(rows, "user").mapInArrowWithState(
        calls, "users array<long>, rows long, size long, resident long", "n long", "update", "NoTimeout"
    )
    query = (
        told.writeStream.option("checkpointLocation", str(tmp_path / "cp"))
        .options(**{"hdfsstore.maxBytesPerCall": limit, "hdfsstore.numPartitions": 2})
        .trigger(availableNow=True)
        .foreachBatch(sink)
        .start()
    )
    query.awaitTermination()
    return found


def test_a_large_partition_comes_in_calls_of_whole_keys_and_takes_little_memory(
    spark: SparkSession, tmp_path: Path
) -> None:
    num_rows, payload = 400_000, 1024
    users = pa.array([i * 7919 % 1000 for i in range(num_rows)])
    batch = pa.table({"user": users, "payload": pa.repeat(pa.scalar(bytes(payload)), num_rows)})
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 1000)
    try:
        ((*told,),) = run(spark, tmp_path, [batch], "user long, payload binary", "2m")
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert sum(row.rows for row in told) == num_rows
    assert len(told) > 100
    assert max(row.size for row in told) < 2 * MiB + 1_100 * payload, "the limit, and a batch of Spark's more"
    times = Counter(user for row in told for user in row.users)
    assert set(times.values()) == {1}, "no key's rows are in two calls"
    assert len(times) == 1000
    for partition in range(2):  # each in a worker of its own
        resident = [row.resident for row in told if partition_of(row.users[0]) == partition]
        assert max(resident) - resident[0] < num_rows * payload / 2 / 10, "a tenth of its rows"


def test_one_key_with_five_million_rows_is_one_call(spark: SparkSession, tmp_path: Path) -> None:
    few = pa.array([1, 2, 3] * 1000)
    users = pa.chunked_array([few, pa.repeat(pa.scalar(7), 5_000_000), few])
    ((*told,),) = run(spark, tmp_path, [pa.table({"user": users})], "user long", "1m")
    assert sum(row.rows for row in told) == 5_006_000
    (large,) = (row for row in told if 7 in row.users)
    assert large.rows == 5_000_000
    assert large.users == [7]


def test_a_batch_that_grows_beyond_what_may_be_held_fails_no_task_and_is_given_to_the_sink_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    few, many = (pa.table({"user": [i % 10 for i in range(n)]}) for n in (10, 50_000))
    first, second, third = run(spark, tmp_path, [few, many, few], "user long", "64k")
    assert sum(row.rows for row in first) == sum(row.rows for row in third) == 10
    assert sum(row.rows for row in second) == 50_000
    assert len(second) > 2
    times = Counter(user for row in second for user in row.users)
    assert set(times.values()) == {1}, "no key's rows are in two calls"
