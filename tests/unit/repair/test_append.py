"""Versions of a few changed rows on top of a store, on checkpoints that Sparks wrote."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from hdfsstore import Checkpoint
from hdfsstore.errors import PlacementError
from hdfsstore.repair.append import can_append
from hdfsstore.repair.backup import Backup
from hdfsstore.repair.edit import Edit
from hdfsstore.repair.undo import undo
from hdfsstore.repair.verbs import edit
from tests.support.rows import counted
from tests.support.truth import DATA
from tests.unit.repair.folders import content, copy_of, kinds_of_new_files, swapped

NAMES = (
    *("aggregation", "window_aggregation", "session_window", "codec_zstd", "row_checksum", "snapshots"),
    *("rocksdb_changelog_later", "rocksdb_unique_ids", "rocksdb_unique_ids_snapshots", "rocksdb_row_checksum"),
)


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_appended(name: str, tmp_path: Path) -> None:
    root = copy_of(name, tmp_path / "copy")
    before = Checkpoint(root).read_state()
    newest, files = Checkpoint(root).latest_batch_id, content(root)
    given = before.slice(0, 2) if "session" in name else swapped(before)
    report = edit(root, None, Edit(rows=given))
    [store] = report.operators[0].stores
    assert (store.rows_in, store.rows_out) == (len(before), len(before))
    assert kinds_of_new_files(root) == {".changelog" if "rocksdb" in name else ".delta"}
    after = Checkpoint(root).read_state()
    rest = before.slice(2)
    assert counted(after) == counted(pa.concat_tables([rest, given.select(rest.column_names).cast(rest.schema)]))
    assert counted(Checkpoint(root).read_state(batch_id=newest)) == counted(before)
    assert files.items() <= content(root).items(), "nothing that was there is written"
    undo(root)
    assert content(root) == files


def test_a_killed_run_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = copy_of("rocksdb_unique_ids", tmp_path / "copy")
    before, files = Checkpoint(root).read_state(), content(root)
    change = Edit(rows=swapped(before))

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Backup, "note_written", killed)
        with pytest.raises(KeyboardInterrupt):
            edit(root, None, change)
    left = set(root.rglob("*.changelog"))
    edit(root, None, change)
    again = set(root.rglob("*.changelog"))
    assert len(left) == len(again)
    assert left != again, "the ids are new"
    assert counted(Checkpoint(root).read_state()) != counted(before)
    undo(root)
    assert content(root) == files


def test_other_stores_of_the_query_get_an_empty_version(tmp_path: Path) -> None:
    root = copy_of("dedup_then_aggregate", tmp_path / "copy")
    rows = [Checkpoint(root).read_state(number) for number in (0, 1)]
    edit(root, None, Edit(operator_id=0, rows=rows[0].slice(0, 1)))
    assert kinds_of_new_files(root) == {".delta"}
    for number in (0, 1):
        assert counted(Checkpoint(root).read_state(number)) == counted(rows[number])


def test_what_removes_rows_or_starts_at_an_older_batch_is_written_whole(tmp_path: Path) -> None:
    for number, (change, batch_id) in enumerate(((Edit(remove="partition_id = 0"), None), (None, 1))):
        root = copy_of("aggregation", tmp_path / f"copy-{number}")
        rows = Checkpoint(root).read_state(batch_id=batch_id)
        edit(root, None, change or Edit(rows=rows.slice(0, 1)), batch_id=batch_id)
        assert kinds_of_new_files(root) == {".snapshot"}
        if batch_id is not None:
            assert counted(Checkpoint(root).read_state()) == counted(rows)


@pytest.mark.parametrize(
    ("case", "attempt", "kind"), [("aggregation", "snapshot", ".snapshot"), ("rocksdb_unique_ids", "zip", ".changelog")]
)
def test_files_of_a_batch_that_was_begun_do_not_hide_the_rows(
    case: str, attempt: str, kind: str, tmp_path: Path
) -> None:
    """A reader would prefer a snapshot to the delta of the same version.

    A delta without a unique id could be written over by a task of that batch which still runs: then it is a snapshot.
    """
    root = copy_of(case, tmp_path / "copy")
    before, newest = Checkpoint(root).read_state(), Checkpoint(root).latest_batch_id
    for folder in (root / "state/0").glob("[0-9]*"):
        (folder / f"{newest + 2}.{attempt}").write_bytes(b"an attempt that did not end")
    (root / f"offsets/{newest + 1}").write_bytes((root / f"offsets/{newest}").read_bytes())
    files = content(root)
    edit(root, None, Edit(rows=swapped(before)), drop_begun=True)
    assert kinds_of_new_files(root) == {kind}
    after = Checkpoint(root).read_state()
    assert counted(after) != counted(before)
    assert len(after) == len(before)
    undo(root)
    assert content(root) == files


@pytest.mark.parametrize("name", ["rocksdb_snapshots", "rocksdb_aggregation", "transform_ttl"])
def test_a_store_in_rocksdb_without_changelogs_gets_none(name: str) -> None:
    state = Checkpoint(DATA / "spark-4.3.0" / name / "checkpoint").operator_state()
    (store,) = state.operator.stores
    there = any(list(Path(store.partition_path(each)).glob("*.changelog")) for each in store.partition_ids)
    assert can_append(state, store) == (there and not store.has_families)


def test_a_partition_without_a_file_gets_no_delta(tmp_path: Path) -> None:
    root = copy_of("aggregation", tmp_path / "copy")
    state = Checkpoint(root).operator_state()
    (store,) = state.operator.stores
    assert can_append(state, store)
    for file in (root / "state/0/1").glob("*.delta"):
        file.unlink()
    assert not can_append(state, store)


def test_nothing_is_written_where_the_rule_does_not_hold(tmp_path: Path) -> None:
    root = copy_of("aggregation", tmp_path / "copy")
    rows = Checkpoint(root).read_state().slice(0, 1)
    folder = root / "state/0"
    for number, other in (("0", "moved"), ("1", "0"), ("moved", "1")):
        (folder / number).rename(folder / other)
    (folder / "1/_metadata").rename(folder / "0/_metadata")
    files = content(root)
    with pytest.raises(PlacementError):
        edit(root, None, Edit(rows=rows))
    assert content(root) == files
