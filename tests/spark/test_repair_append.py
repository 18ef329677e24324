"""Spark reads the rows that an edit put on top of its state."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from hdfsstore import Checkpoint
from hdfsstore.checkpoint.conf import PROVIDER, ROCKSDB_PROVIDER
from hdfsstore.repair.edit import Edit
from hdfsstore.repair.rewind import rewind
from hdfsstore.repair.verbs import edit
from tests.data.generate.case import CASES, Inputs
from tests.spark.support.own_checkpoint import CHANGELOGS
from tests.spark.support.repairs import configured, run
from tests.spark.support.sparks_rows import sparks_rows
from tests.support.continued_stores import FORMAT_VERSION, StoreName
from tests.support.rows import counted
from tests.support.truth import DATA, Case
from tests.unit.repair.folders import copy_of, kinds_of_new_files, swapped


@pytest.mark.parametrize(
    "name",
    ["aggregation", "row_checksum", "rocksdb_changelog_later", "rocksdb_unique_ids", "rocksdb_row_checksum"],
)
def test_spark_reads_rows_that_were_appended(name: str, spark: SparkSession, tmp_path: Path) -> None:
    root = copy_of(name, tmp_path / "copy")
    before = Checkpoint(root).read_state()
    edit(root, None, Edit(rows=swapped(before)))
    ours = Checkpoint(root).read_state()
    case = Case(DATA / "spark-4.3.0" / name)
    assert counted(sparks_rows(spark, case, StoreName(0, "default"), root)) == counted(ours)
    assert counted(ours) != counted(before)


@pytest.mark.parametrize(
    "settings",
    [{}, {PROVIDER: ROCKSDB_PROVIDER, CHANGELOGS: "true", FORMAT_VERSION: "2"}],
    ids=["HDFS-backed", "RocksDB V2"],
)
def test_spark_goes_on_from_rows_that_were_appended(
    settings: dict[str, str], spark: SparkSession, tmp_path: Path
) -> None:
    """As it goes on from a new checkpoint, which has the same rows in whole files."""
    whole, new = tmp_path / "whole", tmp_path / "new"
    with configured(spark, settings):
        query = CASES["aggregation"].build(Inputs(spark, tmp_path / "input"))
        run(query, whole)
        part = shutil.copytree(whole, tmp_path / "part")
        rewind(part, 1, sink_accepts_batches_again=True)
        change = Edit(rows=swapped(Checkpoint(part).read_state()))
        edit(part, new, change)
        edit(part, None, change)
        assert kinds_of_new_files(part) == {".changelog" if settings else ".delta"}
        outputs = [[rows for rows in run(query, each).values() if rows] for each in (part, new)]
    assert outputs[0] == outputs[1] != []
    final = [counted(Checkpoint(each).read_state()) for each in (part, new, whole)]
    assert final[0] == final[1] != final[2]
