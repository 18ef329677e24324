"""Who reads the state of a stateful query of ours while it runs: Spark's `statestore` source, and the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import hdfsstore.spark
from hdfsstore.cli.app import app
from hdfsstore.repair.verify import verify
from tests.spark.support import jobs
from tests.spark.support.runs import run
from tests.support.rows import counted


def command(*arguments: object) -> list[Any]:
    """The JSON objects that `hdfsstore` prints."""
    result = CliRunner().invoke(app, [*map(str, arguments), "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.parametrize("version", [1, 2])
def test_inspect_verify_and_history_tell_what_each_batch_left(
    spark: SparkSession, tmp_path: Path, version: int
) -> None:
    seen = []

    def look(checkpoint: Path) -> None:
        if version == 1:
            compare_with_spark(spark, checkpoint / "hdfsstore")
        (inspected,) = command("inspect", checkpoint / "hdfsstore")
        (operator,) = inspected["operators"]
        (store,) = operator["stores"]
        history = command("history", checkpoint / "hdfsstore", "--key", '{"k": "a"}')
        values = [entry["value"]["groupState"] for entry in history]
        rows = sum(partition["rows"] for partition in store["partitions"])
        verified = verify(checkpoint)
        assert (verified.path, verified.findings) == (str(checkpoint / "hdfsstore"), [])
        assert verified.batches == inspected["committed_batches"]
        assert verified.rows
        seen.append((inspected["committed_batches"], operator["name"], rows, values))

    run(spark, jobs.COUNT, hdfsstore.spark.groupBy, tmp_path, options=format_version(version), look=look)
    lost = tmp_path / "checkpoint/sources/0/1"
    lost.unlink()
    assert [finding.path for finding in verify(tmp_path / "checkpoint").findings] == [str(lost)]
    values = [{"rows": 2, "total": 1}, *[{"rows": 3, "total": 11}] * 3]
    rows = [5, 5, 5, 6]
    assert seen == [(list(range(n)), "applyInPandasWithState", rows[n - 1], values[:n]) for n in range(1, 5)]


@pytest.mark.parametrize("job", [jobs.STATE_COLLECTIONS, jobs.STATE_TYPES, jobs.BETWEEN], ids=str)
def test_spark_reads_the_state_in_format_version_1(spark: SparkSession, tmp_path: Path, job: jobs.Job) -> None:
    run(spark, job, hdfsstore.spark.groupBy, tmp_path, options=format_version(1))
    compare_with_spark(spark, tmp_path / "checkpoint/hdfsstore")


def compare_with_spark(spark: SparkSession, checkpoint: Path) -> None:
    """Row for row what the `statestore` source reads and what the package does."""
    theirs = spark.read.format("statestore").load(str(checkpoint)).toArrow()
    ours = hdfsstore.Checkpoint(checkpoint).read_state()
    assert ours.num_rows
    assert theirs.schema.names == ours.schema.names
    assert counted(theirs) == counted(ours)


def format_version(version: int) -> dict[str, Any]:
    return {"hdfsstore.checkpointFormatVersion": version}
