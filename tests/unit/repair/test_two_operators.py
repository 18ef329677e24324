"""Two processes at work on one repair: the later one takes it over, and no file is lost."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hdfsstore import Checkpoint
from hdfsstore.errors import RepairError
from hdfsstore.fs.local_files import LocalFileManager
from hdfsstore.repair.backup import Backup
from hdfsstore.repair.edit import Edit
from hdfsstore.repair.rewind import rewind
from hdfsstore.repair.store_job import StoreJob
from hdfsstore.repair.store_writer import StoreWriter
from hdfsstore.repair.undo import undo
from hdfsstore.repair.verbs import edit, repartition
from tests.unit.repair.folders import content, copy_of

AGAIN: dict[str, Any] = {"sink_accepts_batches_again": True}
Step = Callable[..., Any]


def before_the(patch: pytest.MonkeyPatch, where: type, name: str, count: int, other: Callable[[], object]) -> None:
    """Another process does its work before the count-th call of a method."""
    original: Step = getattr(where, name)
    calls = 0

    def step(self: Any, *args: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == count:
            other()
        return original(self, *args)

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
