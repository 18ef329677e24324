"""Spark's `statestore` source on Spark's own checkpoints, to which our store has added or in which it has replaced."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import hdfsstore
from tests.spark.support.sparks_rows import sparks_rows
from tests.support.continued_stores import OpenStores, go_on, log_next_batch, read_state, stores_of
from tests.support.rows import counted
from tests.support.truth import Case, cases

# Spark refuses the rows that it wrote itself: docs/formats/spark-quirks.md.
REFUSED = "flat_map_groups_with_state_format1"
CASES = [c for c in cases() if not c.rocksdb and c.facts["spark"] == "4.3.0" and c.folder.name != REFUSED]


@pytest.fixture
def checkpoint(case: Case, tmp_path: Path) -> Path:
    """A copy that may be written to."""
    return Path(shutil.copytree(case.checkpoint, tmp_path / "checkpoint"))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_our_version_after_sparks(spark: SparkSession, case: Case, checkpoint: Path, tmp_path: Path) -> None:
    stores = list(stores_of(checkpoint))
    for store in stores:
        with OpenStores(checkpoint, store, tmp_path / "local", read_state(case, store, checkpoint)) as opened:
            go_on(opened, hdfsstore.Checkpoint(checkpoint).latest_batch_id + 1)
    log_next_batch(checkpoint)
    for store in stores:
        assert counted(sparks_rows(spark, case, store, checkpoint)) == counted(read_state(case, store, checkpoint))


@pytest.mark.parametrize(
    "case", [c for c in CASES if c.folder.name in ("aggregation", "join_inner", "row_checksum")], ids=str
)
def test_our_version_in_the_place_of_sparks(spark: SparkSession, case: Case, checkpoint: Path, tmp_path: Path) -> None:
    """Hadoop's `.N.delta.crc` is that of the file that Spark wrote: it must not outlive it."""
    batch_id = hdfsstore.Checkpoint(checkpoint).latest_batch_id
    for store in stores_of(checkpoint):
        rows = read_state(case, store, checkpoint)
        with OpenStores(checkpoint, store, tmp_path / "local", rows) as opened:
            for i in opened.partitions:
                folder = (
                    hdfsstore.Checkpoint(checkpoint).operator(store.operator_id).store(store.name).partition_path(i)
                )
                assert Path(folder, f".{batch_id + 1}.delta.crc").exists()
            go_on(opened, batch_id)
        ours = read_state(case, store, checkpoint)
        assert counted(ours) != counted(rows)
        assert counted(sparks_rows(spark, case, store, checkpoint)) == counted(ours)
