"""repartition and convert on the checkpoints that Sparks left: there and back, every row is where it was."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hdfsstore import Checkpoint
from hdfsstore.checkpoint.conf import HDFS_PROVIDER, PROVIDER, SHUFFLE_PARTITIONS
from hdfsstore.checkpoint.operator_metadata import read_operator_metadata
from hdfsstore.errors import PlacementError, RepairError
from hdfsstore.fs.local_files import LocalFileManager
from hdfsstore.repair.verbs import convert, fork, repartition, rewrite
from tests.support.truth import DATA, Case, cases, few_cases
from tests.unit.repair.folders import content
from tests.unit.repair.states import raw_rows

SPARK = DATA / "spark-4.3.0"
# Spark 2 wrote no schema files, without which nothing tells what keys are.
WITH_SCHEMAS = [case for case in cases() if not str(case).startswith("spark-2")]


@pytest.mark.parametrize("case", few_cases(WITH_SCHEMAS), ids=str)
def test_other_partitions_and_back(case: Case, tmp_path: Path) -> None:
    opened = Checkpoint(case.checkpoint)
    before = max(store.num_partitions for operator in opened.operators for store in operator.stores)
    if case.folder.name == "fewer_partitions_by_hand":
        with pytest.raises(PlacementError, match="in partition 1 of 2, and belongs into 0"):
            repartition(case.checkpoint, tmp_path / "more", 5)
        return
    number = 5 if before != 5 else 6
    there = repartition(case.checkpoint, tmp_path / "more", number, drop_begun=True)
    assert there.conf == {SHUFFLE_PARTITIONS: (str(before), str(number))}
    rows, moved = raw_rows(case.checkpoint), raw_rows(tmp_path / "more")
    assert sum(each.total() for each in moved.values()) == sum(each.total() for each in rows.values())
    repartition(tmp_path / "more", tmp_path / "back", before)
    assert raw_rows(tmp_path / "back") == rows


@pytest.mark.parametrize("case", few_cases(case for case in WITH_SCHEMAS if not case.families), ids=str)
def test_the_other_provider_and_back(case: Case, tmp_path: Path) -> None:
    opened = Checkpoint(case.checkpoint)
    there, back = ("hdfs", "rocksdb") if case.rocksdb else ("rocksdb", "hdfs")
    convert(case.checkpoint, tmp_path / "other", there, drop_begun=True)
    other = Checkpoint(tmp_path / "other")
    assert (other.provider == HDFS_PROVIDER) == case.rocksdb
    for operator in opened.operators:
        for store in operator.stores:
            where = operator.operator_id, store.name
            assert other.read_state(*where).num_rows == opened.read_state(*where).num_rows
    convert(tmp_path / "other", tmp_path / "back", back)
    assert raw_rows(tmp_path / "back") == raw_rows(case.checkpoint)


def test_both_at_once(tmp_path: Path) -> None:
    source = SPARK / "session_window" / "checkpoint"
    plan = rewrite(source, tmp_path / "new", partitions=7, provider="rocksdb")
    assert sorted(plan.conf) == [SHUFFLE_PARTITIONS, PROVIDER]
    new = Checkpoint(tmp_path / "new").read_state()
    old = Checkpoint(source).read_state()
    columns = ["key", "value"]
    assert sorted(map(str, new.select(columns).to_pylist())) == sorted(map(str, old.select(columns).to_pylist()))
    assert set(new["partition_id"].to_pylist()) > {0, 1}
    metadata = read_operator_metadata(LocalFileManager(), f"{tmp_path}/new/state/0")
    assert metadata is not None
    assert [store.num_partitions for store in metadata.stores] == [7]


@pytest.mark.parametrize("case", ["global_limit", "rocksdb_global_limit", "rocksdb_aggregation_complete"])
def test_what_has_no_key_stays_in_partition_0(case: str, tmp_path: Path) -> None:
    repartition(SPARK / case / "checkpoint", tmp_path / "new", 5)
    keyless = {operator for operator, _, _ in raw_rows(tmp_path / "new")} if "limit" in case else set()
    for operator in keyless:
        assert sorted(path.name for path in (tmp_path / f"new/state/{operator}").iterdir()) == ["0", "_metadata"]


def test_unique_ids_are_new_and_those_of_the_log(tmp_path: Path) -> None:
    source = SPARK / "rocksdb_unique_ids" / "checkpoint"
    report = repartition(source, tmp_path / "new", 3)
    assert report.session == {"spark.sql.streaming.stateStore.checkpointFormatVersion": "2"}
    logged = re.findall(r"[0-9a-f]{8}-[0-9a-f-]{27}", (tmp_path / "new/commits/2").read_text())
    named = [path.stem for path in (tmp_path / "new").rglob("*.zip")]
    assert sorted(named) == sorted(f"3_{unique_id}" for unique_id in logged)
    assert len(logged) == 3
    report = convert(source, tmp_path / "hdfs", "hdfs")
    assert report.session == {"spark.sql.streaming.stateStore.checkpointFormatVersion": "1"}
    assert (tmp_path / "hdfs/commits/2").read_text().startswith("v1\n")


@pytest.mark.parametrize("case", ["transform_structures", "rocksdb_join_format3"])
def test_families_stay_with_rocksdb(case: str, tmp_path: Path) -> None:
    with pytest.raises(RepairError, match="only RocksDB has"):
        convert(SPARK / case / "checkpoint", tmp_path / "new", "hdfs")
    assert not (tmp_path / "new").exists()


def test_a_row_in_the_wrong_partition_is_refused_and_nothing_stays(tmp_path: Path) -> None:
    fork(SPARK / "aggregation" / "checkpoint", tmp_path / "source")
    files = [tmp_path / "source/state/0" / partition / "4.snapshot" for partition in "01"]
    contents = [file.read_bytes() for file in files]
    for file, other in zip(files, reversed(contents), strict=True):
        file.write_bytes(other)
    with pytest.raises(PlacementError, match="are not where the rule puts them"):
        repartition(tmp_path / "source", tmp_path / "new", 5)
    assert not [path for path in (tmp_path / "new").rglob("*") if path.is_file()]
    before = content(tmp_path / "source")
    with pytest.raises(PlacementError):
        repartition(tmp_path / "source", None, 5)
    assert content(tmp_path / "source") == before
    fork(SPARK / "aggregation" / "checkpoint", tmp_path / "new")


def test_arguments_that_make_no_sense(tmp_path: Path) -> None:
    source = SPARK / "aggregation" / "checkpoint"
    for partitions in (0, -3, 100_001, 10**9):
        with pytest.raises(ValueError, match="give 1 to 100,000"):
            repartition(source, tmp_path / "new", partitions, dry_run=True)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(RepairError, match="this is a file, and no folder"):
        repartition(source, tmp_path / "file", 3)
    with pytest.raises(ValueError, match="not one of hdfs, rocksdb"):
        convert(source, tmp_path / "new", "cassandra")
