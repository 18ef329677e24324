"""A query runs, a verb writes its state anew, and Spark goes on: its output and state are those of an unbroken run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from hdfsstore.repair.plan import Plan, Report
from hdfsstore.repair.verbs import fork
from tests.spark.support.repairs import Whole, Wholes, states

STOPPED_AFTER = 1


@pytest.fixture(scope="session")
def wholes(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Wholes:
    return Wholes(spark, tmp_path_factory.mktemp("repairs"))


def check(spark: SparkSession, whole: Whole, report: Plan, to: Path, confs: Mapping[str, str] | None = None) -> None:
    """Spark goes on at the new checkpoint, and ends where the unbroken run did."""
    assert isinstance(report, Report)
    assert report.verified
    assert states(to) == states(whole.checkpoint, STOPPED_AFTER)
    outputs = whole.goes_on(spark, to, confs)
    assert outputs == {batch_id: rows for batch_id, rows in whole.outputs.items() if batch_id > STOPPED_AFTER}
    assert any(outputs.values())
    assert states(to) == states(whole.checkpoint)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["aggregation", "rocksdb_join_left_outer", "transform_unique_ids"])
def test_fork(spark: SparkSession, wholes: Wholes, tmp_path: Path, name: str) -> None:
    whole = wholes[name]
    source = whole.stopped(STOPPED_AFTER, tmp_path / "source")
    before, folders = contents(source), {path for path, _, _ in os.walk(source)}
    report = fork(source, tmp_path / "new")
    check(spark, whole, report, tmp_path / "new")
    assert contents(source) == before
    assert {path for path, _, _ in os.walk(source)} == folders
