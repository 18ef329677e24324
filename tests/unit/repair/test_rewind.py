"""Rewind and undo on checkpoints that Sparks wrote."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hdfsstore import Checkpoint
from hdfsstore.checkpoint.guard import Guard, encode_guard
from hdfsstore.errors import (
    BatchNotAvailableError,
    CheckpointNotFoundError,
    MissingFileError,
    NotPromisedError,
    RepairError,
    RepairUnderWayError,
)
from hdfsstore.fs.local_files import LocalFileManager
from hdfsstore.repair.plan import Report
from hdfsstore.repair.rewind import rewind
from hdfsstore.repair.undo import undo
from tests.support.truth import DATA
from tests.unit.repair.folders import content, copy_of, records

AGAIN: dict[str, Any] = {"sink_accepts_batches_again": True}
CASES = ("aggregation", "join_left_outer", "rocksdb_aggregation", "rocksdb_unique_ids", "transform_with_state")


def cases() -> list[Any]:
    """Those with state and a batch to go back to."""
    found = (
        path.parents[2]
        for path in DATA.glob("spark-4.3.0/*/checkpoint/commits/1")
        if (path.parents[1] / "state").exists()
    )
    names = sorted(path.name for path in found)
    return [pytest.param(name, marks=() if name in CASES else pytest.mark.thorough) for name in names]


def committed(root: Path) -> list[int]:
    return [batch.batch_id for batch in Checkpoint(root).batches if batch.committed]


@pytest.mark.parametrize("case", cases())
def test_an_undo_brings_back_what_a_rewind_took_byte_for_byte(case: str, tmp_path: Path) -> None:
    root = copy_of(case, tmp_path / "copy")
    before, batches = content(root), committed(root)
    to = batches[-2]
    state = records(root, to)
    report = rewind(root, to, **AGAIN)
    assert isinstance(report, Report)
    assert committed(root) == batches[:-1]
    after = content(root)
    assert after.items() <= before.items()
    gone = sorted(before.keys() - after.keys())
    assert f"offsets/{batches[-1]}" in gone
    assert f"commits/{batches[-1]}" in gone
    assert not [name for name in after if name.endswith((f"/{to + 2}.delta", f"/{to + 2}.snapshot", f"/{to + 2}.zip"))]
    assert records(root, to) == state
    assert len(report.files) == len(gone)
    undone = undo(root)
    assert content(root) == before
    assert isinstance(undone, Report)
    with pytest.raises(RepairError, match="no repair to undo"):
        undo(root)


def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    root = copy_of("aggregation", tmp_path / "copy")
    before = sorted(root.rglob("*"))
    plan = rewind(root, 0, dry_run=True, **AGAIN)
    assert not isinstance(plan, Report)
    assert "moved to the backup: commits/1" in plan.files
    assert json.loads(json.dumps(plan.as_json()))["batch_id"] == 0
    assert sorted(root.rglob("*")) == before
    rewind(root, 0, **AGAIN)
    files = content(root)
    assert undo(root, dry_run=True).files == [
        f"put back: {line.removeprefix('moved to the backup: ')}" for line in plan.files
    ]
    assert content(root) == files


def test_replay_keeps_the_entry_of_the_next_batch(tmp_path: Path) -> None:
    root = copy_of("aggregation", tmp_path / "copy")
    newest = committed(root)[-1]
    before = content(root)
    rewind(root, newest - 2, replay=True, **AGAIN)
    assert [batch.batch_id for batch in Checkpoint(root).batches if not batch.committed] == [newest - 1]
    assert content(root)[f"offsets/{newest - 1}"] == before[f"offsets/{newest - 1}"]
    undo(root)
    assert content(root) == before


@pytest.mark.parametrize("case", ["aggregation", "offset_log_v2"])
def test_replay_merged_gives_the_next_batch_the_last_offsets(case: str, tmp_path: Path) -> None:
    root = copy_of(case, tmp_path / "copy")
    newest = committed(root)[-1]
    before, last = content(root), Checkpoint(root).batch(newest)
    first = Checkpoint(root).batch(1)
    rewind(root, 0, replay_merged=True, **AGAIN)
    merged = Checkpoint(root).batch(1)
    assert (merged.committed, merged.offsets, merged.source_ids) == (False, last.offsets, last.source_ids)
    assert (merged.watermark_ms, merged.timestamp_ms) == (first.watermark_ms, first.timestamp_ms)
    assert merged.conf == first.conf
    undo(root)
    assert content(root) == before


def test_a_batch_that_has_begun_is_taken_back_too(tmp_path: Path) -> None:
    root = copy_of("unfinished_batch", tmp_path / "copy")
    before = content(root)
    rewind(root, 2, **AGAIN)
    assert [batch.batch_id for batch in Checkpoint(root).batches] == [0, 1, 2]
    undo(root)
    assert content(root) == before


def test_a_rewind_reads_at_most_5_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = copy_of("aggregation", tmp_path / "copy")
    read: Counter[str] = Counter()
    original = LocalFileManager.open_file

    def counted(self: LocalFileManager, path: str, size: int | None = None) -> Any:
        log, _, name = path.rpartition("/")
        read[path] += name.isdecimal() and log.endswith(("/offsets", "/commits"))
        return original(self, path, size)

    monkeypatch.setattr(LocalFileManager, "open_file", counted)
    rewind(root, 0, replay_merged=True, dry_run=True, **AGAIN)
    assert 0 < read.total() <= 5


def test_what_is_refused(tmp_path: Path) -> None:
    root = copy_of("aggregation", tmp_path / "copy")
    newest = committed(root)[-1]
    before = sorted(root.rglob("*"))
    with pytest.raises(RepairError, match="--sink-accepts-batches-again"):
        rewind(root, 0)
    with pytest.raises(BatchNotAvailableError, match=f"newest committed batch is {newest}"):
        rewind(root, newest + 1, **AGAIN)
    with pytest.raises(RepairError, match="is the newest one"):
        rewind(root, newest, **AGAIN)
    with pytest.raises(ValueError, match="exclude"):
        rewind(root, 0, replay=True, replay_merged=True, **AGAIN)
    with pytest.raises(RepairError, match="no log of a file sink"):
        rewind(root, 0, file_sink=tmp_path / "nothing")
    with pytest.raises(RepairError, match="no repair to undo"):
        undo(root)
    with pytest.raises(CheckpointNotFoundError):
        rewind(tmp_path / "nothing", 0, **AGAIN)
    assert sorted(root.rglob("*")) == before
    (root / "hdfsstore").mkdir()
    with pytest.raises(RepairError, match=r"runs with hdfsstore\.spark"):
        rewind(root, 0, **AGAIN)


def test_a_batch_without_an_entry_before_it_is_refused(tmp_path: Path) -> None:
    root = copy_of("aggregation", tmp_path / "copy")
    (root / "offsets/0").unlink()
    with pytest.raises(BatchNotAvailableError, match="entry of the batch before"):
        rewind(root, 1, **AGAIN)


def test_a_state_that_is_not_there_any_more_is_refused(tmp_path: Path) -> None:
    root = copy_of("aggregation", tmp_path / "copy")
    (root / "state/0/0/1.delta").unlink()
    with pytest.raises(MissingFileError, match="it is missing"):
        rewind(root, 0, **AGAIN)
    assert not (root / "_hdfsstore_backup").exists()


def test_unknown_content_of_a_source_is_refused(tmp_path: Path) -> None:
    root = copy_of("aggregation", tmp_path / "copy")
    (root / "sources/0/whatever").write_text("1")
    with pytest.raises(RepairError, match="a source has noted this") as raised:
        rewind(root, 0, **AGAIN)
    assert raised.value.path == f"{root}/sources/0/whatever"


def test_another_verb_is_refused_behind_a_guard(tmp_path: Path) -> None:
    root = copy_of("aggregation", tmp_path / "copy")
    rewind(root, 0, **AGAIN)
    (name,) = [path.name for path in (root / "_hdfsstore_backup").iterdir()]
    (root / "offsets/4").write_bytes(encode_guard(Guard("undo", name)))
    with pytest.raises(RepairUnderWayError, match="Run `hdfsstore undo` again"):
        rewind(root, 0, **AGAIN)
    undo(root)
    assert content(root) == content(DATA / "spark-4.3.0/aggregation/checkpoint")


def test_a_storage_without_promises_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = copy_of("aggregation", tmp_path / "copy")
    monkeypatch.setattr(LocalFileManager, "promises", replace(LocalFileManager.promises, create_if_absent=False))
    with pytest.raises(NotPromisedError, match="create"):
        rewind(root, 0, **AGAIN)


def test_an_undo_after_the_query_has_gone_on_needs_force(tmp_path: Path) -> None:
    root = copy_of("aggregation", tmp_path / "copy")
    before, newest = content(root), committed(root)[-1]
    rewind(root, newest - 1, **AGAIN)
    other = {"offsets": b"v1\n{}\n-", "commits": b"v1\n{}"}
    for log, entry in other.items():
        (root / log / str(newest)).write_bytes(entry)
    (root / f"state/0/0/{newest + 1}.delta").write_bytes(b"another timeline")
    gone_on = content(root)
    with pytest.raises(RepairError, match=f"has gone on since `rewind`: batch {newest}"):
        undo(root)
    assert content(root) == gone_on
    report = undo(root, force=True)
    assert any("is lost" in note for note in report.notes)
    assert content(root) == before
    kept = [path.read_bytes() for path in (root / "_hdfsstore_backup").rglob("*.delta")]
    assert b"another timeline" in kept


@pytest.mark.parametrize(
    ("case", "folder", "names"), [("aggregation", "", "1.delta"), ("rocksdb_unique_ids_zips", "SSTs", "*.sst")]
)
def test_an_undo_that_would_bring_back_a_state_that_cannot_be_read_is_refused(
    case: str, folder: str, names: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Retention has deleted what the backup builds on."""
    root = copy_of(case, tmp_path / "copy")
    before, newest = content(root), committed(root)[-1]
    rewind(root, newest - 1, **AGAIN)
    for log in ("offsets", "commits"):
        shutil.copy(root / log / str(newest - 1), root / log / str(newest))
    partition, kept = root / "state/0/0" / folder, tmp_path / "kept"
    kept.mkdir()
    for path in partition.glob(names):
        path.rename(kept / path.name)
    gone_on = content(root)
    with pytest.raises(RepairError, match=f"the state of batch {newest} could not be read.*Nothing was changed"):
        undo(root, force=True)
    assert content(root) == gone_on
    assert not caplog.records
    for path in kept.iterdir():
        path.rename(partition / path.name)
    assert any("is lost" in note for note in undo(root, force=True).notes)
    assert "is lost" in caplog.text
    assert content(root) == before


def test_undo_goes_back_verb_by_verb(tmp_path: Path) -> None:
    root = copy_of("aggregation", tmp_path / "copy")
    newest = committed(root)[-1]
    whole = content(root)
    rewind(root, newest - 1, **AGAIN)
    once = content(root)
    rewind(root, newest - 2, **AGAIN)
    undo(root)
    assert content(root) == once
    undo(root)
    assert content(root) == whole


@pytest.mark.parametrize("case", cases())
def test_a_batch_is_added_with_the_state_of_an_older_one(case: str, tmp_path: Path) -> None:
    root = copy_of(case, tmp_path / "copy")
    before, batches = content(root), committed(root)
    to, new = batches[-2], batches[-1] + 2
    state = records(root, to)
    report = rewind(root, to, continue_numbers=True)
    assert isinstance(report, Report)
    assert report.verified
    assert committed(root) == [*batches, new - 1, new]
    assert records(root, new - 1) == records(root, new) == state
    after = content(root)
    assert after[f"offsets/{new - 1}"] == after[f"offsets/{new}"] == before[f"offsets/{to}"]
    moved = {line.removeprefix("moved to the backup: ") for line in report.files}
    assert {name for name in before if after.get(name) != before[name]} <= moved
    undo(root)
    assert content(root) == before
