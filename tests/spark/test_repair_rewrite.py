"""A query runs, a verb writes its state anew, and Spark goes on: its output and state are those of an unbroken run."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from hdfsstore import Checkpoint
from hdfsstore.repair.plan import Plan, Report
from hdfsstore.repair.verbs import fork, repartition, rewrite
from hdfsstore.repair.verify import verify
from tests.spark.support.repairs import Whole, Wholes, configured, placed, read_alike, states
from tests.support.rows import counted

# Every operator and layout; `make test-all` tries them all.
MATRIX = (
    "aggregation",
    "aggregation_complete",
    "apply_in_pandas_with_state",
    "chained_windows",
    "dedup_then_aggregate",
    "drop_duplicates",
    "drop_duplicates_within_watermark",
    "global_limit",
    "join_inner",
    "join_left_outer",
    "row_checksum",
    "session_window",
    "window_aggregation",
    "rocksdb_aggregation",
    "rocksdb_aggregation_complete",
    "rocksdb_apply_in_pandas_with_state",
    "rocksdb_dedup_then_aggregate",
    "rocksdb_drop_duplicates",
    "rocksdb_drop_duplicates_within_watermark",
    "rocksdb_global_limit",
    "rocksdb_join_format3",
    "rocksdb_join_format4_outer",
    "rocksdb_join_format4_unique_ids",
    "rocksdb_join_left_outer",
    "rocksdb_join_unique_ids",
    "rocksdb_row_checksum",
    "rocksdb_session_window",
    "rocksdb_unique_ids",
    "rocksdb_window_aggregation",
    "transform_event_timers",
    "transform_structures",
    "transform_unique_ids",
)
# They put nothing out after a restart; what they keep tells whether it went right.
SILENT = ("drop_duplicates", "global_limit", "rocksdb_drop_duplicates", "rocksdb_global_limit")
# What Spark's own repartition (4.3.0) does otherwise. What has no keys belongs into partition 0: it moves the row of an
# aggregation, and fails at a limit. Of joins in format 4 it takes the event time for a part of the key, which scatters
# the rows of a key, and drops the sizes in front of the rows of a list.
MISPLACED = ("rocksdb_aggregation_complete", "rocksdb_global_limit", "rocksdb_join_format4")
FAMILIES = ("rocksdb_join_format", "transform_")
WHOLE_MATRIX = bool(os.environ.get("HDFSSTORE_REPAIR_MATRIX"))


def few(*names: str, without: tuple[str, ...] = ()) -> list[str]:
    """The names, or the matrix without names that start like some."""
    return [name for name in MATRIX if not name.startswith(without)] if WHOLE_MATRIX else list(names)


def check(spark: SparkSession, whole: Whole, report: Plan, to: Path) -> None:
    """Spark reads the new checkpoint as we do, goes on from it, and ends where the unbroken run did."""
    assert isinstance(report, Report)
    assert report.verified
    assert states(to) == states(whole.checkpoint, whole.middle)
    with configured(spark, {**whole.confs, **report.session}):
        read_alike(spark, to)
    outputs = whole.goes_on(spark, to, report.session)
    assert outputs == {batch_id: rows for batch_id, rows in whole.outputs.items() if batch_id > whole.middle}
    assert any(outputs.values()) or whole.name in SILENT
    assert states(to) == states(whole.checkpoint)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", few("aggregation", "rocksdb_join_left_outer", "transform_unique_ids"))
def test_fork(spark: SparkSession, wholes: Wholes, tmp_path: Path, name: str) -> None:
    whole = wholes[name]
    source = whole.stopped(whole.middle, tmp_path / "source")
    before, folders = contents(source), {path for path, _, _ in os.walk(source)}
    report = fork(source, tmp_path / "new")
    check(spark, whole, report, tmp_path / "new")
    assert contents(source) == before
    assert {path for path, _, _ in os.walk(source)} == folders


@pytest.mark.parametrize("name", few("transform_structures", "rocksdb_join_left_outer", "session_window"))
def test_repartition(spark: SparkSession, wholes: Wholes, tmp_path: Path, name: str) -> None:
    whole = wholes[name]
    source = whole.stopped(whole.middle, tmp_path / "source")
    check(spark, whole, repartition(source, tmp_path / "new", 5), tmp_path / "new")


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in few("rocksdb_session_window", "rocksdb_join_left_outer", "transform_structures")
        if name.startswith(("rocksdb_", "transform_")) and not name.startswith(MISPLACED)
    ],
)
def test_rows_land_where_sparks_own_repartition_puts_them(
    spark: SparkSession, wholes: Wholes, tmp_path: Path, name: str
) -> None:
    whole = wholes[name]
    source = whole.stopped(whole.middle, tmp_path / "source")
    ours = shutil.copytree(source, tmp_path / "ours")
    repartition(ours, None, 5)
    with configured(spark, whole.confs):
        spark._streamingCheckpointManager.repartition(str(source), 5)
    assert placed(ours) == placed(source)


@pytest.mark.parametrize("name", few("aggregation", "rocksdb_session_window", without=FAMILIES))
def test_convert(spark: SparkSession, wholes: Wholes, tmp_path: Path, name: str) -> None:
    whole = wholes[name]
    source = whole.stopped(whole.middle, tmp_path / "source")
    provider = "hdfs" if name.startswith("rocksdb_") else "rocksdb"
    report = rewrite(source, tmp_path / "new", provider=provider, partitions=3)
    check(spark, whole, report, tmp_path / "new")


@pytest.mark.parametrize(("name", "sound"), [("aggregation", True), ("transform_structures", False)])
def test_verify_calls_sound_what_spark_starts_from(
    spark: SparkSession, wholes: Wholes, tmp_path: Path, name: str, sound: bool
) -> None:
    """Spark writes the metadata of an operator anew where its schema is not in it."""
    whole = wholes[name]
    source = whole.stopped(whole.middle, tmp_path / "source")
    shutil.rmtree(source / "state/0/_metadata")
    assert verify(source).sound == sound
    if sound:
        assert any(whole.goes_on(spark, source).values())
    else:
        with pytest.raises(StreamingQueryException, match="STDS_FAILED_TO_READ_OPERATOR_METADATA"):
            whole.goes_on(spark, source)


def variables(checkpoint: Path) -> dict[str, Counter[str]]:
    """The rows of state variables, without their partitions, and the times at which they end.

    A batch counts these from its own time.
    """
    opened = Checkpoint(checkpoint)
    found = {}
    for name in ("total", "seen", "times"):
        rows = opened.read_state(state_var=name, flatten_columns=True).drop_columns("partition_id")
        (ends,) = (each for each in rows.column_names if each.endswith("ttlExpirationMs"))
        found[name] = counted(rows.drop_columns(ends))
    return found


def test_state_with_a_time_to_live(spark: SparkSession, wholes: Wholes, tmp_path: Path) -> None:
    whole = wholes["transform_ttl"]
    source = whole.stopped(whole.middle, tmp_path / "source")
    new = tmp_path / "new"
    report = repartition(source, new, 5)
    assert isinstance(report, Report)
    assert states(new) == states(source)
    outputs = [rows for rows in whole.goes_on(spark, new, report.session).values() if rows]
    assert outputs == [rows for batch_id, rows in whole.outputs.items() if batch_id > whole.middle and rows] != []
    assert variables(new) == variables(whole.checkpoint)
