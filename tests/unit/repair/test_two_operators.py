"""Two processes at work on one repair: the later one takes it over, and no file is lost."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hdfsstore import Checkpoint
from hdfsstore.errors import RepairError, StateStoreError
from hdfsstore.fs.local_files import LocalFileManager
from hdfsstore.repair.backup import FOLDER, Backup
from hdfsstore.repair.edit import Edit
from hdfsstore.repair.rewind import rewind
from hdfsstore.repair.store_job import StoreJob
from hdfsstore.repair.store_writer import StoreWriter
from hdfsstore.repair.undo import undo
from hdfsstore.repair.verbs import edit, repartition
from tests.support.rows import counted
from tests.unit.repair.folders import content, copy_of

AGAIN: dict[str, Any] = {"sink_accepts_batches_again": True}
Step = Callable[..., Any]


def before_the(patch: pytest.MonkeyPatch, where: type, name: str, count: int, other: Callable[[], object]) -> None:
    """Another process does its work before the count-th call of a method."""
    original: Step = getattr(where, name)
    calls = itertools.count(1)

    def step(self: Any, *args: Any) -> Any:
        if next(calls) == count:
            other()
        return original(self, *args)

    patch.setattr(where, name, step)


def after_the(patch: pytest.MonkeyPatch, where: type, name: str, count: int, other: Callable[[], object]) -> None:
    """Another process does its work after the count-th call of a method, and before what the call was for."""
    original: Step = getattr(where, name)
    calls = itertools.count(1)

    def step(self: Any, *args: Any) -> Any:
        found = original(self, *args)
        if next(calls) == count:
            other()
        return found

    patch.setattr(where, name, step)


@pytest.mark.parametrize(("method", "count"), [("take", 1), ("take", 3), ("mark", 1)])
def test_an_undo_stops_a_rewind_that_is_at_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, count: int
) -> None:
    root = copy_of("aggregation", tmp_path / "copy")
    old = content(root)
    before_the(monkeypatch, Backup, method, count, partial(undo, root))
    with pytest.raises(RepairError, match="another process has gone on"):
        rewind(root, 1, **AGAIN)
    assert content(root) == old


def test_no_file_is_lost_between_the_copy_and_the_delete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = copy_of("aggregation", tmp_path / "copy")
    old = content(root)
    # The first file that is created is the manifest, the second the guard, the others are copies.
    before_the(monkeypatch, LocalFileManager, "create", 4, partial(undo, root))
    with pytest.raises(RepairError, match="another process has gone on"):
        rewind(root, 1, **AGAIN)
    assert content(root) == old


def test_the_same_rewind_takes_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = copy_of("aggregation", tmp_path / "copy")
    old = content(root)
    before_the(monkeypatch, Backup, "take", 2, partial(rewind, root, 1, **AGAIN))
    with pytest.raises(RepairError, match="another process has gone on"):
        rewind(root, 1, **AGAIN)
    assert "offsets/2" not in content(root)
    undo(root)
    assert content(root) == old


def test_a_batch_since_the_other_process_has_ended_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = copy_of("aggregation", tmp_path / "copy")
    entry = (root / "offsets/1").read_bytes()

    def other() -> None:
        rewind(root, 1, **AGAIN)
        (root / "offsets/2").write_bytes(entry)

    before_the(monkeypatch, Backup, "take", 2, other)
    with pytest.raises(RepairError, match="another process has gone on"):
        rewind(root, 1, **AGAIN)
    assert content(root)["offsets/2"] == entry


def test_an_undo_stops_a_verb_that_has_written_a_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = copy_of("rocksdb_aggregation", tmp_path / "copy")
    old = content(root)
    before_the(monkeypatch, Backup, "put", 1, partial(undo, root))
    with pytest.raises(RepairError, match="another process has gone on"):
        repartition(root, None, 3)
    assert content(root) == old


@pytest.mark.parametrize("case", ["aggregation", "rocksdb_aggregation", "rocksdb_unique_ids"])
@pytest.mark.parametrize("on_top", [False, True])
def test_no_state_appears_after_an_undo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str, on_top: bool
) -> None:
    root = copy_of(case, tmp_path / "copy")
    old, rows = content(root), Checkpoint(root).read_state(unique_names=True)
    before_the(monkeypatch, StoreWriter, "finish", 1, partial(undo, root))
    before_the(monkeypatch, StoreJob, "_appended", 1, partial(undo, root))
    with pytest.raises(RepairError, match="another process has gone on"):
        edit(root, None, Edit(rows=rows.slice(0, 2))) if on_top else repartition(root, None, 3)
    assert content(root) == old


@pytest.mark.parametrize("case", ["aggregation", "rocksdb_unique_ids"])
@pytest.mark.parametrize("count", range(1, 9))
def test_no_file_is_left_by_a_process_that_was_stopped_right_before_it_wrote_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str, count: int
) -> None:
    """It has just seen that the guard is its own."""
    root = copy_of(case, tmp_path / "copy")
    old = content(root)
    after_the(monkeypatch, Backup, "check_held", count, partial(undo, root))
    with pytest.raises(StateStoreError, match=r"another process has gone on|could not be written"):
        repartition(root, None, 3)
    assert content(root) == old


def test_a_file_that_is_deleted_too_late_is_in_the_backup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    root = copy_of("aggregation", tmp_path / "copy")
    old = content(root)
    after_the(monkeypatch, Backup, "check_held", 3, partial(undo, root))
    with pytest.raises(RepairError, match="deleted a moment ago") as raised:
        rewind(root, 1, **AGAIN)
    assert "If that one still runs, end it" in caplog.text
    lost = Path(str(raised.value.path)).relative_to(root).as_posix()
    assert content(root) == {name: data for name, data in old.items() if name != lost}
    assert Path(str(raised.value.remedy).rpartition(": ")[2]).read_bytes() == old[lost]


def test_the_second_undo_takes_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = copy_of("aggregation", tmp_path / "copy")
    old = content(root)
    rewind(root, 1, **AGAIN)
    before_the(monkeypatch, Backup, "give_back", 2, partial(undo, root))
    with pytest.raises(RepairError, match="another process has gone on"):
        undo(root)
    assert content(root) == old


def test_a_query_that_ends_its_batch_meanwhile_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = copy_of("unfinished_batch", tmp_path / "copy")
    old, entry = content(root), (root / "commits/2").read_bytes()

    def commit() -> None:
        (root / "commits/3").write_bytes(entry)

    with monkeypatch.context() as patch:
        before_the(patch, Backup, "take", 1, commit)
        with pytest.raises(RepairError, match="a query runs on the checkpoint"):
            rewind(root, 1, **AGAIN)
    assert Checkpoint(root).repair is not None
    undo(root)
    assert content(root) == old | {"commits/3": entry}


@pytest.mark.parametrize("method", ["note_written", "put"])
def test_a_batch_that_a_query_commits_meanwhile_is_begun_again_by_the_undo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, method: str
) -> None:
    """The query has begun batch 3, and the verb takes its number."""
    root = copy_of("unfinished_batch", tmp_path / "copy")
    old, rows = content(root), counted(Checkpoint(root).read_state())
    entry = (root / "commits/2").read_bytes() + b" "

    def commit() -> None:
        (root / "commits/3").write_bytes(entry)
        (root / "state/0/0/4.delta").write_bytes(old["state/0/0/4.delta"])

    with monkeypatch.context() as patch:
        before_the(patch, Backup, method, 1, commit)
        with pytest.raises(RepairError, match="there is another one"):
            repartition(root, None, 3, drop_begun=True)
    assert "End the query first" in caplog.text
    report = undo(root)
    assert any("batch 3, which a query has committed" in note for note in report.notes)
    assert content(root) == old
    assert counted(Checkpoint(root).read_state()) == rows
    assert [path.read_bytes() for path in (root / FOLDER).rglob("moved/checkpoint/commits/3")] == [entry]
