"""Versions of a few changed rows on top of a store, on checkpoints that Sparks wrote."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from hdfsstore import Checkpoint
from hdfsstore.errors import PlacementError, RepairError
from hdfsstore.repair.append import can_append
from hdfsstore.repair.edit import Edit, StoreEdit
from hdfsstore.repair.placement import placement_of
from tests.support.continued_stores import log_next_batch
from tests.support.rows import counted
from tests.support.truth import DATA

NAMES = (
    *("aggregation", "window_aggregation", "session_window", "codec_zstd", "row_checksum", "snapshots"),
    *("rocksdb_changelog_later", "rocksdb_unique_ids", "rocksdb_unique_ids_snapshots", "rocksdb_row_checksum"),
)


def copied(name: str, tmp_path: Path) -> Path:
    return Path(shutil.copytree(DATA / "spark-4.3.0" / name / "checkpoint", tmp_path / "checkpoint"))


def swapped(rows: pa.Table) -> pa.Table:
    """Two keys, each with the value of the other."""
    order = pa.array([1, 0])
    return rows.slice(0, 2).drop_columns(["value"]).append_column("value", rows["value"].take(order))


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_appended(name: str, tmp_path: Path) -> None:
    path = copied(name, tmp_path)
    state = Checkpoint(path).operator_state()
    (store,) = state.operator.stores
    before = Checkpoint(path).read_state(unique_names=True)
    files = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    placement = placement_of(state, store)
    given = before.slice(0, 2) if "session" in name else swapped(before)
    assert can_append(state, store)
    edit = StoreEdit(state, store, Edit(rows=given), placement.kind)
    for _ in range(2):  # a second run replaces the first one
        written = edit.appended(placement, threads=2)
    ids = [[each.version_id[1] or ""] for _, each in sorted(written.items())]
    assert any(map(any, ids)) == ("unique_ids" in name)
    batch_id = log_next_batch(path, {0: ids} if "unique_ids" in name else None)
    assert {each.version_id[0] for each in written.values()} == {batch_id + 1}
    after = Checkpoint(path).read_state(unique_names=True)
    rest = before.slice(2)
    expected = pa.concat_tables([rest, given.select(rest.column_names).cast(rest.schema)])
    assert counted(after) == counted(expected)
    assert counted(Checkpoint(path).read_state(batch_id=batch_id - 1, unique_names=True)) == counted(before)
    assert {file: file.read_bytes() for file in files} == files, "nothing that was there is written"


@pytest.mark.parametrize("name", ["rocksdb_snapshots", "rocksdb_aggregation", "transform_ttl"])
def test_a_store_in_rocksdb_without_changelogs_gets_none(name: str) -> None:
    state = Checkpoint(DATA / "spark-4.3.0" / name / "checkpoint").operator_state()
    (store,) = state.operator.stores
    there = any(list(Path(store.partition_path(each)).glob("*.changelog")) for each in store.partition_ids)
    assert can_append(state, store) == (there and not store.has_families)


def test_a_partition_without_a_file_gets_no_delta(tmp_path: Path) -> None:
    path = copied("aggregation", tmp_path)
    state = Checkpoint(path).operator_state()
    (store,) = state.operator.stores
    assert can_append(state, store)
    for file in (path / "state/0/1").glob("*.delta"):
        file.unlink()
    assert not can_append(state, store)


def test_only_rows_that_are_put() -> None:
    state = Checkpoint(DATA / "spark-4.3.0/aggregation/checkpoint").operator_state()
    (store,) = state.operator.stores
    placement = placement_of(state, store)
    with pytest.raises(RepairError, match="only rows that are put"):
        StoreEdit(state, store, Edit(remove="key.k is null"), placement.kind).appended(placement)


def test_nothing_is_written_where_the_rule_does_not_hold(tmp_path: Path) -> None:
    path = copied("aggregation", tmp_path)
    rows = Checkpoint(path).read_state(unique_names=True).slice(0, 1)
    for partition in ("0", "1"):
        (path / "state/0" / partition).rename(path / f"state/0/moved-{partition}")
    (path / "state/0/moved-0").rename(path / "state/0/1")
    (path / "state/0/moved-1").rename(path / "state/0/0")
    shutil.move(path / "state/0/1/_metadata", path / "state/0/0/_metadata")
    state = Checkpoint(path).operator_state()
    (store,) = state.operator.stores
    placement = placement_of(state, store)
    files = sorted(path.rglob("*"))
    with pytest.raises(PlacementError):
        StoreEdit(state, store, Edit(rows=rows), placement.kind).appended(placement)
    assert sorted(path.rglob("*")) == files
