"""Reading running queries on RocksDB, with changelogs, unique ids and state variables, beside Spark's own reading."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from typer.testing import CliRunner

import hdfsstore
from hdfsstore.checkpoint.conf import PROVIDER, ROCKSDB_PROVIDER
from hdfsstore.cli.app import app
from tests.data.generate.processor import OUTPUT, Totals
from tests.spark.support.own_checkpoint import CHANGELOGS, spark_rows
from tests.support.continued_stores import FORMAT_VERSION
from tests.support.rows import counted

CONFS = {
    PROVIDER: ROCKSDB_PROVIDER,
    CHANGELOGS: "true",
    FORMAT_VERSION: "2",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot": "2",
    "spark.sql.streaming.stateStore.maintenanceInterval": "100ms",
}
ROUNDS = 3
SECONDS_AT_MOST = 600
VARIABLES = ("total", "seen", "times")


@pytest.fixture
def confs(spark: SparkSession) -> Iterator[None]:
    # Maintenance keeps the interval it was first started with.
    spark._jvm.org.apache.spark.sql.execution.streaming.state.StateStore.stop()
    for name, value in CONFS.items():
        spark.conf.set(name, value)
    yield
    for name in CONFS:
        spark.conf.unset(name)


def numbers(spark: SparkSession) -> DataFrame:
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 60).load()
    return rows.select((F.col("value") % 7).cast("string").alias("k"), (F.col("value") % 5).cast("int").alias("n"))


def start(frame: DataFrame, checkpoint: Path) -> StreamingQuery:
    writer = frame.writeStream.format("noop").outputMode("update").option("checkpointLocation", str(checkpoint))
    return writer.trigger(processingTime="500 milliseconds").start()


def newest(checkpoint: Path) -> int:
    """The newest batch; -1 before the first one."""
    try:
        return hdfsstore.Checkpoint(checkpoint).latest_batch_id
    except (hdfsstore.CheckpointNotFoundError, hdfsstore.BatchNotAvailableError):
        return -1


def command(*arguments: object) -> list[Any]:
    """The JSON lines that the command prints."""
    ran = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert ran.exit_code == 0, ran.output
    return [json.loads(line) for line in ran.stdout.splitlines()]


@pytest.mark.usefixtures("confs")
def test_state_variables_and_counts(spark: SparkSession, tmp_path: Path) -> None:
    transformed, count = tmp_path / "transformed", tmp_path / "count"
    totals = numbers(spark).groupBy("k").transformWithStateInPandas(Totals(), OUTPUT, "Update", "None")
    queries = [start(totals, transformed), start(numbers(spark).groupBy("k").count(), count)]
    right: Counter[str] = Counter()
    deadline = time.monotonic() + SECONDS_AT_MOST
    try:
        while min(right[what] for what in (*VARIABLES, "read", "history")) < ROUNDS:
            assert time.monotonic() < deadline, right
            assert all(query.isActive for query in queries)
            if min(newest(transformed), newest(count)) < 6:
                time.sleep(0.2)
                continue
            for variable in VARIABLES:
                batch_id = newest(transformed)
                read = hdfsstore.Checkpoint(transformed).read_state(batch_id=batch_id, state_var=variable)
                theirs = spark_rows(spark, transformed, batchId=batch_id, stateVarName=variable)
                assert counted(read.select(theirs.column_names)) == counted(theirs)
                right[variable] += read.num_rows > 0
            batch_id = newest(count)
            lines = command("read", count, "--batch", batch_id, "--json")
            story = command("history", count, "--key", '{"k": "3"}', "--json")
            rows = spark_rows(spark, count, batchId=batch_id).to_pylist()
            assert sorted(map(json.dumps, lines)) == sorted(map(json.dumps, rows))
            expected = [row["value"] for row in rows if row["key"] == {"k": "3"}]
            assert [line["value"] for line in story if line["batch_id"] == batch_id] == expected
            right["read"] += len(rows) == 7
            right["history"] += len(expected) == 1
    finally:
        for query in queries:
            query.stop()
