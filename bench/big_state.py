"""The checkpoint that the benchmarks read: real, large, and written by a streaming query of Spark.

Two partitions of string -> (long, double, double), lz4: a snapshot with all keys and three deltas after it. A record
takes 72 bytes: two lengths of 4, a key row of 32 (its string has 9 to 15 bytes) and a value row of 32.
"""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from bench.cache import cache_folder, work_folder

NUM_KEYS = 2_000_000
NUM_PARTITIONS = 2
NUM_DELTAS = 3
UPDATED_SHARE = 100  # one key in so many is updated by each delta
SNAPSHOT_SECONDS = 300


def spark_session() -> SparkSession:
    """The one session of a run, on two cores, with a heap that holds the state twice."""
    return (
        SparkSession.builder.master("local[2]")
        .appName("hdfsstore benchmarks")
        .config("spark.ui.enabled", False)
        .config("spark.ui.showConsoleProgress", False)
        .config("spark.driver.memory", "4g")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", NUM_PARTITIONS)
        .config("spark.sql.streaming.stateStore.maintenanceInterval", "200ms")
        .getOrCreate()
    )


def checkpoint(num_keys: int = NUM_KEYS) -> Path:
    """A checkpoint whose last batch has num_keys keys; made once, then kept in the cache."""
    made = cache_folder() / f"big-state-{num_keys}"
    if not made.exists():
        with work_folder() as work:
            _run_query(work, num_keys)
            (work / "checkpoint").rename(made)
    return made


def spark_read_arrow(spark: SparkSession, path: Path) -> pa.Table:
    """The state of the last batch as Spark's own `statestore` source reads it: key, value, partition_id."""
    return spark.read.format("statestore").load(str(path)).toArrow()


def _run_query(work: Path, num_keys: int) -> None:
    """Batch 0 puts every key, and maintenance writes its snapshot; then a batch for each delta updates some keys."""
    spark = spark_session()
    _add_events(spark, work, num_keys, every=1, amount=1.0)
    snapshots = [work / "checkpoint" / "state" / "0" / str(p) / "1.snapshot" for p in range(NUM_PARTITIONS)]
    # More than 0 deltas call for a snapshot: as soon as batch 0 is committed.
    query = _start(spark, work, min_deltas_for_snapshot=0)
    try:
        deadline = time.monotonic() + SNAPSHOT_SECONDS
        while not all(snapshot.exists() for snapshot in snapshots):
            if error := query.exception():
                raise error
            if time.monotonic() > deadline:
                raise TimeoutError(f"Spark's maintenance wrote no snapshot within {SNAPSHOT_SECONDS} s")
            time.sleep(0.1)
    finally:
        query.stop()
    for delta in range(1, NUM_DELTAS + 1):
        _add_events(spark, work, num_keys, every=UPDATED_SHARE, amount=delta + 0.5)
    query = _start(spark, work, min_deltas_for_snapshot=1000, stop_at_end=True)
    query.awaitTermination()


def _add_events(spark: SparkSession, work: Path, num_keys: int, every: int, amount: float) -> None:
    # Multiplying modulo a prime spreads the keys and keeps them apart.
    key = F.concat(F.lit("user-"), (F.col("id") * 48271 % 2147483647 + 1000).cast("string"))
    events = spark.range(0, num_keys, every).select(key.alias("key"), (F.col("id") * amount).alias("amount"))
    events.coalesce(1).write.mode("append").parquet(str(work / "events"))


def _start(spark: SparkSession, work: Path, min_deltas_for_snapshot: int, stop_at_end: bool = False) -> StreamingQuery:
    spark.conf.set("spark.sql.streaming.stateStore.minDeltasForSnapshot", min_deltas_for_snapshot)
    writer = (
        spark.readStream.schema("key string, amount double")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(work / "events"))
        .groupBy("key")
        .agg(F.count("*").alias("events"), F.sum("amount").alias("total"), F.max("amount").alias("largest"))
        .writeStream.format("noop")
        .outputMode("update")
        .option("checkpointLocation", str(work / "checkpoint"))
    )
    return (writer.trigger(availableNow=True) if stop_at_end else writer).start()
