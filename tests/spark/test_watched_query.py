"""`hdfsstore watch` on a terminal, of a query that runs, stops and starts again."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from hdfsstore import Checkpoint
from tests.support.pseudo_terminal import OnATerminal


def start(spark: SparkSession, checkpoint: Path) -> StreamingQuery:
    counts = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", 100)
        .load()
        .withWatermark("timestamp", "1 minute")
        .groupBy(F.window("timestamp", "1 second"), (F.col("value") % 7).alias("key"))
        .count()
    )
    writer = counts.writeStream.format("noop").outputMode("update")
    return writer.option("checkpointLocation", str(checkpoint)).start()


def committed(checkpoint: Path) -> int:
    return Checkpoint(checkpoint).latest_batch_id


def test_a_query_that_runs_stops_and_starts_again(spark: SparkSession, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    query = start(spark, checkpoint)
    while query.lastProgress is None:
        query.exception()
    with OnATerminal("watch", str(checkpoint), "--interval", "0.2") as terminal:
        try:
            terminal.wait_for("behind batch")
            terminal.wait_for(" rows  ")
            terminal.wait_for("a batch every ")
        finally:
            query.stop()
        last = committed(checkpoint)
        terminal.wait_for(f"batch       {last} committed")
        assert any("█" in line for line in terminal.screen())
        query = start(spark, checkpoint)
        try:
            terminal.wait_for(f"{last + 2} committed")
        finally:
            query.stop()
        terminal.type("q")
        assert terminal.ended() == 0
        assert terminal.is_restored
    command = [sys.executable, "-m", "hdfsstore", "watch", str(checkpoint), "--json", "--count", "1"]
    line = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert line["batch_id"] == committed(checkpoint)
    assert line["stores"][0]["rows"] == Checkpoint(checkpoint).read_state().num_rows
    assert 0 < line["seconds"] < 600
    assert line["watermark_lag_seconds"] is not None
