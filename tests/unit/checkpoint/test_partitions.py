"""How many partitions a state has: a folder that is gone is an error, and never a shorter answer."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hdfsstore import Checkpoint, CheckpointNotFoundError, CorruptFileError
from tests.support.rows import counted
from tests.support.truth import DATA, Case
from tests.unit.checkpoint.build import SHUFFLE_PARTITIONS, change_conf

# Of Sparks that write no operator metadata; 2.1 has no conf in its offset log either.
OLD = [Case(path) for path in sorted(DATA.glob("spark-[23].*/*")) if path.is_dir() and "spark-2.1" not in str(path)]
OLD = [case for case in OLD if not case.rocksdb]


def read(case: Case, path: Path, operator_id: int, store: str, **kwargs: Any) -> pa.Table:
    """The rows of a store, by the schema that Spark 4.3 was lent where the checkpoint has none."""
    if case.facts.get("borrowed_schema"):
        lent = Checkpoint(DATA / f"spark-3.2.1/{case.folder.name}/checkpoint").operator(operator_id).store(store)
        kwargs |= {"key_schema": lent.key_schema, "value_schema": lent.value_schema}
    return Checkpoint(path).read_state(operator_id, store, **kwargs)


@pytest.mark.parametrize("case", OLD, ids=str)
def test_the_last_folder_is_gone_before_spark_4(tmp_path: Path, case: Case) -> None:
    path = Path(shutil.copytree(case.checkpoint, tmp_path / "checkpoint"))
    stores = [store for operator in Checkpoint(path).operators for store in operator.stores]
    assert {store.num_partitions for store in stores} == {int(Checkpoint(path).batches[-1].conf[SHUFFLE_PARTITIONS])}
    for store in stores:
        if store.partition_ids == [0]:  # a global limit
            assert read(case, path, store.operator_id, store.name).num_rows > 0
            assert read(case, path, store.operator_id, store.name, partitions=[1]).num_rows == 0
            continue
        shutil.rmtree(path / f"state/{store.operator_id}/{store.partition_ids[-1]}", ignore_errors=True)
        with pytest.raises(CheckpointNotFoundError, match=f"no partition {store.partition_ids[-1]}"):
            read(case, path, store.operator_id, store.name)


@pytest.mark.parametrize("content", [b"", b"v1", b'v1\n{"batchWatermarkMs":0,"conf":{"spark.sql.shuf'])
@pytest.mark.parametrize("case", OLD[:1] + OLD[-1:], ids=str)
def test_the_entry_of_a_batch_that_was_not_committed_is_not_read(tmp_path: Path, case: Case, content: bytes) -> None:
    path = Path(shutil.copytree(case.checkpoint, tmp_path / "checkpoint"))
    store, last = Checkpoint(path).operators[0].stores[0], Checkpoint(path).latest_batch_id
    wanted = path, store.operator_id, store.name
    before = [counted(read(case, *wanted, batch_id=batch_id)) for batch_id in (last - 1, last)]
    (path / f"offsets/{last + 1}").write_bytes(content)
    assert [op.stores[0].num_partitions for op in Checkpoint(path).operators][:1] == [store.num_partitions]
    assert [counted(read(case, *wanted, batch_id=batch_id)) for batch_id in (last - 1, last)] == before
    assert counted(read(case, *wanted)) == before[-1]


def test_the_log_of_the_batch_that_is_read_tells_or_that_of_the_newest(tmp_path: Path) -> None:
    path = Path(shutil.copytree(DATA / "spark-3.5.9/aggregation/checkpoint", tmp_path / "checkpoint"))
    change_conf(path, SHUFFLE_PARTITIONS, "3")
    shutil.copytree(DATA / "spark-3.5.9/aggregation/checkpoint/offsets", tmp_path / "offsets")
    shutil.copy(tmp_path / "offsets/1", path / "offsets/1")
    (path / "offsets/.1.crc").unlink(missing_ok=True)
    assert [Checkpoint(path).operator(0, batch_id).store().num_partitions for batch_id in (1, None)] == [2, 3]
    (path / "offsets/1").unlink()
    assert Checkpoint(path).operator(0, 1).store().num_partitions == 3
    shutil.rmtree(path / "commits")  # nothing tells that a batch was committed
    assert Checkpoint(path).operator(0, 1).store().num_partitions == 2


def test_a_keyless_aggregation_without_metadata_has_partition_0_alone(tmp_path: Path) -> None:
    case = Case(DATA / "spark-4.3.0/aggregation_complete")
    path = Path(shutil.copytree(case.checkpoint, tmp_path / "checkpoint"))
    (keyless,) = (op for op in Checkpoint(path).operators if op.store().partition_ids == [0])
    before = read(case, path, keyless.operator_id, "default")
    shutil.rmtree(path / f"state/{keyless.operator_id}/_metadata")
    store = Checkpoint(path).operator(keyless.operator_id).store()
    assert (store.partition_ids, store.num_partitions) == ([0], 2)
    assert counted(read(case, path, keyless.operator_id, "default")) == counted(before)


def test_without_a_number_in_the_log_the_folders_are_counted(tmp_path: Path) -> None:
    path = Path(shutil.copytree(DATA / "spark-3.5.9/aggregation/checkpoint", tmp_path / "checkpoint"))
    change_conf(path, SHUFFLE_PARTITIONS, None)
    assert Checkpoint(path).operator().store().num_partitions == 2
    shutil.rmtree(path / "offsets")
    assert Checkpoint(path).operator().store().num_partitions == 2
    assert Checkpoint(DATA / "spark-2.1.3/aggregation/checkpoint").operator().store().num_partitions == 2


@pytest.mark.parametrize("value", ["two", "0", "-1"])
def test_a_number_that_makes_no_sense(tmp_path: Path, value: str) -> None:
    path = Path(shutil.copytree(DATA / "spark-3.5.9/aggregation/checkpoint", tmp_path / "checkpoint"))
    change_conf(path, SHUFFLE_PARTITIONS, value)
    with pytest.raises(CorruptFileError, match=f"shuffle.partitions is '{value}'") as caught:
        Checkpoint(path).operator()
    assert caught.value.path == f"{path}/offsets/{Checkpoint(path).latest_batch_id}"
