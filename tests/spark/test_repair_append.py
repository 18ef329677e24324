"""Spark reads versions that hold a few changed rows on top of its own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from hdfsstore import Checkpoint
from hdfsstore.repair.edit import Edit, StoreEdit
from hdfsstore.repair.placement import placement_of
from tests.spark.support.sparks_rows import sparks_rows
from tests.support.continued_stores import StoreName, log_next_batch
from tests.support.rows import counted
from tests.support.truth import DATA, Case


@pytest.mark.parametrize(
    "name",
    ["aggregation", "row_checksum", "rocksdb_changelog_later", "rocksdb_unique_ids", "rocksdb_row_checksum"],
)
def test_spark_reads_rows_that_were_appended(name: str, spark: SparkSession, tmp_path: Path) -> None:
    case = Case(DATA / "spark-4.3.0" / name)
    path = Path(shutil.copytree(case.checkpoint, tmp_path / "checkpoint"))
    state = Checkpoint(path).operator_state()
    (store,) = state.operator.stores
    before = Checkpoint(path).read_state(unique_names=True)
    given = before.slice(0, 2).drop_columns(["value"]).append_column("value", before["value"].take(pa.array([1, 0])))
    placement = placement_of(state, store)
    written = StoreEdit(state, store, Edit(rows=given), placement.kind).appended(placement)
    ids = [[each.version_id[1] or ""] for _, each in sorted(written.items())]
    batch_id = log_next_batch(path, {0: ids} if "unique_ids" in name else None)
    ours = Checkpoint(path).read_state(batch_id=batch_id)
    assert counted(sparks_rows(spark, case, StoreName(0, "default"), path)) == counted(ours)
    assert counted(ours) != counted(Checkpoint(path).read_state(batch_id=batch_id - 1))
