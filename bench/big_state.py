"""The checkpoints that the benchmarks read: real, large, and written by a streaming query of Spark.

Two partitions of string -> (long, double, double), lz4. A record takes 72 bytes: two lengths of 4, a key row of 32 (its
string has 9 to 15 bytes) and a value row of 32.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from bench.cache import cache_folder, work_folder
from tests.services import s3a

NUM_KEYS = 2_000_000
NUM_PARTITIONS = 2
SNAPSHOT_SECONDS = 300


@dataclass(frozen=True)
class Chain:
    """What the last version is made of.

    Attributes:
        every: for each batch, and so for each delta: it puts one key in so many, drawn anew.
        snapshot: whether there is a snapshot of the first batch.
    """

    name: str
    every: tuple[int, ...]
    snapshot: bool


SMALL_DELTAS = Chain("big-state", (1, 100, 100, 100), snapshot=True)
ONE_LARGE_DELTA = Chain("one-large-delta", (1,) + 8 * (100,), snapshot=False)
LARGE_DELTAS = Chain("large-deltas", 10 * (4,), snapshot=False)
LARGE_DELTAS_ON_SNAPSHOT = Chain("large-deltas-on-snapshot", (1,) + 10 * (4,), snapshot=True)


def spark_session() -> SparkSession:
    """The one session of a run, on two cores, with a heap that holds the state twice."""
    return (
        SparkSession.builder.master("local[2]")
        .appName("hdfsstore benchmarks")
        .config("spark.ui.enabled", False)
        .config("spark.ui.showConsoleProgress", False)
        .config("spark.driver.memory", "4g")
        .config("spark.driver.extraClassPath", os.pathsep.join(map(str, s3a.jars())))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", NUM_PARTITIONS)
        .config("spark.sql.streaming.stateStore.maintenanceInterval", "200ms")
        .getOrCreate()
    )


def checkpoint(chain: Chain = SMALL_DELTAS, num_keys: int = NUM_KEYS) -> Path:
    """A checkpoint of that many keys; made once, then kept in the cache."""
    made = cache_folder() / f"{chain.name}-{num_keys}"
    if not made.exists():
        with work_folder() as work:
            _run_query(work, chain, num_keys)
            (work / "checkpoint").rename(made)
    return made


def spark_read_arrow(spark: SparkSession, path: Path | str) -> pa.Table:
    """The state of the last batch as Spark's own `statestore` source reads it: key, value, partition_id."""
    return spark.read.format("statestore").load(str(path)).toArrow()


def _run_query(work: Path, chain: Chain, num_keys: int) -> None:
    """A batch for each delta; maintenance writes a snapshot of the first, where there is to be one."""
    spark = spark_session()
    batches = list(enumerate(chain.every))
    if chain.snapshot:
        add_events(spark, work, num_keys, *batches.pop(0))
        _run_first_batch(spark, work)
    for batch in batches:
        add_events(spark, work, num_keys, *batch)
    query = start(spark, work, min_deltas_for_snapshot=1000, stop_at_end=True)
    query.awaitTermination()


def _run_first_batch(spark: SparkSession, work: Path) -> None:
    snapshots = [work / "checkpoint" / "state" / "0" / str(p) / "1.snapshot" for p in range(NUM_PARTITIONS)]
    # More than 0 deltas call for a snapshot: as soon as batch 0 is committed.
    query = start(spark, work, min_deltas_for_snapshot=0)
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


def add_events(spark: SparkSession, work: Path, num_keys: int, batch: int, every: int, part: int | None = None) -> None:
    """Adds the events of a batch, on one key in `every`: drawn anew, or those of a part of all keys, from 0 on."""
    drawn = F.pmod(F.xxhash64("id", F.lit(batch if part is None else 0)), F.lit(every)) == (part or 0)
    # Multiplying modulo a prime spreads the keys and keeps them apart.
    key = F.concat(F.lit("user-"), (F.col("id") * 48271 % 2147483647 + 1000).cast("string"))
    events = spark.range(num_keys).where(drawn).select(key.alias("key"), (F.col("id") * (batch + 1.0)).alias("amount"))
    events.coalesce(1).write.mode("append").parquet(str(work / "events"))


def start(spark: SparkSession, work: Path, min_deltas_for_snapshot: int, stop_at_end: bool = False) -> StreamingQuery:
    """Starts the query on the events of a folder."""
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


def chain_files(path: Path) -> list[Path]:
    """The snapshot and the deltas that the last version needs, of all partitions."""
    files = []
    for folder in sorted((path / "state" / "0").glob("[0-9]*")):
        newest = max(folder.glob("*.snapshot"), key=lambda file: int(file.stem))
        files += [newest, *(file for file in folder.glob("*.delta") if int(file.stem) > int(newest.stem))]
    return files
