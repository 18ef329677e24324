"""Spark reads the rows that an edit put on top of its state."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from hdfsstore import Checkpoint
from hdfsstore.repair.edit import Edit
from hdfsstore.repair.verbs import edit
from tests.spark.support.sparks_rows import sparks_rows
from tests.support.continued_stores import StoreName
from tests.support.rows import counted
from tests.support.truth import DATA, Case
from tests.unit.repair.folders import copy_of


@pytest.mark.parametrize(
    "name",
    ["aggregation", "row_checksum", "rocksdb_changelog_later", "rocksdb_unique_ids", "rocksdb_row_checksum"],
)
def test_spark_reads_rows_that_were_appended(name: str, spark: SparkSession, tmp_path: Path) -> None:
    root = copy_of(name, tmp_path / "copy")
    before = Checkpoint(root).read_state(unique_names=True)
    given = before.slice(0, 2).drop_columns(["value"]).append_column("value", before["value"].take(pa.array([1, 0])))
    edit(root, None, Edit(rows=given))
    ours = Checkpoint(root).read_state()
    case = Case(DATA / "spark-4.3.0" / name)
    assert counted(sparks_rows(spark, case, StoreName(0, "default"), root)) == counted(ours)
    assert counted(ours) != counted(before)
