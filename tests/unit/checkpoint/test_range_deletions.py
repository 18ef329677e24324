"""Ranges of keys that changelogs delete, as changes and between batches. test_truth.py has what Spark gives of them."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

import hdfsstore
from hdfsstore.codecs.compression import compress
from tests.support.changelogs import DELETE_RANGE, PUT, TypedRecord, encode_typed
from tests.support.rows import counted
from tests.support.truth import DATA

PATH = DATA / "spark-4.3.0/rocksdb_range_deletions_in_changelogs/checkpoint"


def test_they_are_told_as_spark_tells_them() -> None:
    changes = hdfsstore.Checkpoint(PATH).read_changes(1, 2)
    kinds = Counter(changes["change_type"].to_pylist())
    assert kinds == {"update": 54, "delete": 2, "delete_range": 6}
    only = hdfsstore.Checkpoint(PATH).read_changes(1, 2, where="change_type = 'delete_range'", columns=["key.n"])
    assert only.num_rows == kinds["delete_range"]


def test_the_history_of_a_key_within_a_range_and_the_difference_of_the_states() -> None:
    checkpoint = hdfsstore.Checkpoint(PATH)
    states = {batch_id: checkpoint.read_state(batch_id=batch_id).drop_columns("partition_id") for batch_id in range(3)}
    gone = counted(states[1].select(["key"])) - counted(states[2].select(["key"]))
    found = [key for key in states[1]["key"].to_pylist() if counted(pa.table({"key": [key]})) <= gone]
    assert len(found) == gone.total() > 4
    for key in found:
        assert checkpoint.history(key, changes_only=True)["change"].to_pylist()[-1] == "removed"
    removed = [row["key"] for row in checkpoint.diff(1, 2).to_pylist() if row["change"] == "removed"]
    assert sorted(map(str, removed)) == sorted(map(str, found))


def with_changelog(folder: Path, records: list[TypedRecord]) -> hdfsstore.Checkpoint:
    """A copy in which these are the last changes of partition 0."""
    copy = Path(shutil.copytree(PATH, folder / "checkpoint"))
    file = copy / "state/0/0/3.changelog"
    file.with_name(f".{file.name}.crc").unlink()
    file.write_bytes(compress("lz4", b"\0\2v2" + encode_typed(records)))
    return hdfsstore.Checkpoint(copy)


def stored(copy: hdfsstore.Checkpoint) -> tuple[bytes, bytes]:
    """A key and a value as the changelogs have them."""
    state = copy.operator_state()
    chunk = state.first_chunk(state.operator.store())
    assert chunk is not None
    (key, value) = (memoryview(spans).cast("B").cast("i")[:2].tolist() for spans in (chunk.keys, chunk.values))
    return bytes(chunk.data[key[0] : sum(key)]), bytes(chunk.data[value[0] : sum(value)])


def test_a_range_whose_end_is_no_value_is_told_by_name(tmp_path: Path) -> None:
    key, value = stored(hdfsstore.Checkpoint(PATH))
    checkpoint = with_changelog(tmp_path, [(PUT, key, value), (DELETE_RANGE, key, b"\0end")])
    with pytest.raises(hdfsstore.BatchNotAvailableError, match="a range of keys was deleted") as caught:
        checkpoint.read_changes(2, 2)
    assert caught.value.path is not None
    assert caught.value.path.endswith("state/0/0/3.changelog")
    assert checkpoint.diff(1, 2).num_rows
    assert checkpoint.history({}).num_rows


def test_damage_beside_a_range_is_damage(tmp_path: Path) -> None:
    key, value = stored(hdfsstore.Checkpoint(PATH))
    checkpoint = with_changelog(tmp_path, [(PUT, key, value[:-8]), (DELETE_RANGE, key, b"\0end")])
    with pytest.raises(hdfsstore.StateStoreError, match=r"3\.changelog.*value") as caught:
        checkpoint.read_changes(2, 2)
    assert not isinstance(caught.value, hdfsstore.BatchNotAvailableError)
