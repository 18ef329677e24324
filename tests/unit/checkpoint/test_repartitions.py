"""Checkpoints whose number of partitions changed: by Spark's own repartition, or by hand in the offset log.

That rows are Spark's at every batch is in test_truth.py and test_state_variables.py.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from hdfsstore import BatchNotAvailableError, Checkpoint, CheckpointNotFoundError
from hdfsstore.checkpoint.batch_conf import Repartition
from tests.support.rows import counted
from tests.support.truth import DATA, cases

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
NEWEST = DATA / "spark-4.3.0"
REPARTITIONED = [case for case in cases() if case.repartitioned]


@pytest.fixture
def more(tmp_path: Path) -> Path:
    """2 partitions in batches 0 and 1, and 5 from batch 2 on."""
    return Path(shutil.copytree(NEWEST / "rocksdb_more_partitions/checkpoint", tmp_path / "checkpoint"))


def change_entry(path: Path, batch_id: int, change: Any) -> None:
    entry = path / f"offsets/{batch_id}"
    version, metadata, *sources = entry.read_text().split("\n")
    fields = json.loads(metadata)
    change(fields["conf"])
    entry.write_text("\n".join([version, json.dumps(fields), *sources]))
    entry.with_name(f".{entry.name}.crc").unlink(missing_ok=True)


def test_there_are_such_checkpoints_of_each_kind() -> None:
    names = {case.folder.name for case in REPARTITIONED}
    assert names >= {
        "rocksdb_more_partitions", "rocksdb_fewer_partitions", "rocksdb_fewer_partitions_unique_ids",
        "rocksdb_more_partitions_without_key", "rocksdb_join_fewer_partitions", "transform_fewer_partitions",
        "rocksdb_join_format3_more_partitions", "fewer_partitions_by_hand",
    }  # fmt: skip


@pytest.mark.parametrize("case", REPARTITIONED, ids=str)
def test_partitions_of_a_batch_are_those_of_its_entry(case: Any) -> None:
    checkpoint = Checkpoint(case.checkpoint)
    for batch in checkpoint.batches:
        number = int(batch.conf[SHUFFLE_PARTITIONS])
        assert batch.num_partitions == number
        for operator in checkpoint.operators:
            for store in checkpoint.operator(operator.operator_id, batch.batch_id).stores:
                assert store.num_partitions == number
                assert store.partition_ids == list(range(number))
                folders = case.checkpoint.glob(f"state/{operator.operator_id}/[0-9]*")
                assert store.other_partition_ids == sorted({int(f.name) for f in folders} - set(range(number)))
    assert [op.store(op.stores[0].name).num_partitions for op in checkpoint.operators] == [number]
    assert checkpoint.unfinished_repartition is None


def test_the_nearest_entry_counts_for_a_batch_whose_entry_is_purged(more: Path) -> None:
    expected = Checkpoint(more).read_state(batch_id=0)
    (more / "offsets/0").unlink()
    assert counted(Checkpoint(more).read_state(batch_id=0)) == counted(expected)
    for batch_id in (1, 2):
        (more / f"offsets/{batch_id}").unlink()
    assert Checkpoint(more).operator(0, 2).store().num_partitions == 5


@pytest.mark.parametrize("is_strict", [True, False])
def test_a_folder_above_the_number_counts_if_spark_may_have_written_it(more: Path, is_strict: bool) -> None:
    """Queries begun before Spark 3.3 lack the conf, and may have more partitions than the log says."""
    rows = Checkpoint(more).read_state(batch_id=4)

    def fewer(conf: dict[str, str]) -> None:
        conf[SHUFFLE_PARTITIONS] = "2"
        if not is_strict:
            del conf["spark.sql.streaming.statefulOperator.useStrictDistribution"]

    change_entry(more, 4, fewer)
    change_entry(more, 1, fewer)
    expected = sum(partition < 2 for partition in rows["partition_id"].to_pylist()) if is_strict else len(rows)
    assert expected != len(rows) or not is_strict
    assert Checkpoint(more).read_state(batch_id=4).num_rows == expected
    # Folders 2 to 4 have no file of version 2.
    assert set(Checkpoint(more).read_state(batch_id=1)["partition_id"].to_pylist()) == {0, 1}


def test_a_folder_that_is_gone_is_an_error_at_the_batches_that_have_it(more: Path) -> None:
    rows = Checkpoint(more).read_state(batch_id=1)
    shutil.rmtree(more / "state/0/3")
    assert counted(Checkpoint(more).read_state(batch_id=1)) == counted(rows)
    with pytest.raises(CheckpointNotFoundError, match=r"no partition 3.*\[0, 1, 2, 4\]; 5 are declared"):
        Checkpoint(more).read_state(batch_id=2)
    assert Checkpoint(more).read_state(batch_id=2, partitions=[0, 1]).num_rows > 0


def test_the_row_of_an_operator_without_keys_is_where_spark_moved_it() -> None:
    checkpoint = Checkpoint(NEWEST / "rocksdb_more_partitions_without_key/checkpoint")
    moved = [checkpoint.read_state(batch_id=batch_id)["partition_id"].to_pylist() for batch_id in (2, 3, 4)]
    assert moved == [[0], [42 % 5], [0]]
    # Spark does not look for it there, and begins anew.
    counts = [checkpoint.read_state(batch_id=batch_id)["value"].to_pylist()[0]["count"] for batch_id in (3, 4)]
    assert counts[1] < counts[0]


@pytest.mark.parametrize("feed", [(0, 4), (1, 2), (2, 2), (2, 3)])
def test_a_change_feed_across_a_repartition_says_why_there_is_none(more: Path, feed: tuple[int, int]) -> None:
    with pytest.raises(
        BatchNotAvailableError, match="2 partitions before batch 2, and 5 from it on: no deltas"
    ) as caught:
        Checkpoint(more).read_changes(*feed)
    assert caught.value.path == f"{more}/offsets/2"
    assert "the batches before it and after it" in (caught.value.remedy or "")


@pytest.mark.parametrize("name", ["rocksdb_repartition_unfinished", "transform_repartition_unfinished"])
def test_an_unfinished_repartition(name: str) -> None:
    checkpoint = Checkpoint(NEWEST / name / "checkpoint")
    assert checkpoint.unfinished_repartition == Repartition(2, 2, 5)
    assert [(batch.committed, batch.num_partitions) for batch in checkpoint.batches] == [
        (True, 2),
        (True, 2),
        (False, 5),
    ]
    (operator,) = checkpoint.operators
    assert operator.store().num_partitions == 2
    assert operator.store().other_partition_ids == [2, 3, 4]
    assert Checkpoint(NEWEST / "unfinished_batch/checkpoint").unfinished_repartition is None
