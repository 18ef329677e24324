"""The Spark side of the demo: a session that is quiet, the streaming query, and Spark's own reader of its state."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.listener import StreamingQueryProgress

from demo.events import SPARK_SCHEMA

PARTITIONS = 4


def start(folder: Path, log: Path) -> SparkSession:
    """A local Spark with two threads; what it logs goes to the file `log`, as its JVM inherits our stderr."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    with _stderr_to(log):
        return (
            SparkSession.builder.master("local[2]")
            .appName("hdfsstore demo")
            .config("spark.ui.enabled", False)
            .config("spark.ui.showConsoleProgress", False)
            .config("spark.driver.memory", "2g")
            .config("spark.local.dir", str(folder / "spark-local"))
            .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.shuffle.partitions", PARTITIONS)
            .config(
                "spark.sql.streaming.stateStore.providerClass",
                "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
            )
            .getOrCreate()
        )


@contextmanager
def _stderr_to(file: Path) -> Iterator[None]:
    sys.stderr.flush()
    kept = os.dup(2)
    with file.open("ab") as log:
        os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def totals_by_user(spark: SparkSession, clicks: Path) -> DataFrame:
    """The streaming query: of each user the clicks, the seconds on our pages, and the longest look at one."""
    events = spark.readStream.schema(SPARK_SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(clicks))
    return (
        events.withWatermark("event_time", "20 minutes")
        .groupBy("user")
        .agg(F.count("*").alias("clicks"), F.sum("seconds").alias("seconds"), F.max("seconds").alias("longest"))
    )


def start_query(query: DataFrame, checkpoint: Path) -> StreamingQuery:
    """Starts the query on all files that are there, one file a batch; it ends by itself."""
    return (
        query.writeStream.format("noop")
        .outputMode("update")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )


def batches_of(query: StreamingQuery) -> Iterator[StreamingQueryProgress]:
    """The progress of each batch as it ends. Raises the query's own error if it fails."""
    seen = 0
    while query.isActive or seen < len(query.recentProgress):
        progress = query.recentProgress
        yield from progress[seen:]
        seen = len(progress)
        query.awaitTermination(0.1)


def read_state(spark: SparkSession, checkpoint: Path, batch_id: int | None = None) -> pa.Table:
    """The state after a batch (the newest one) as Spark's own `statestore` source reads it, as an Arrow table."""
    reader = spark.read.format("statestore")
    if batch_id is not None:
        reader = reader.option("batchId", batch_id)
    return reader.load(str(checkpoint)).toArrow()
