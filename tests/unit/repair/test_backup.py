"""Backups that somebody has changed: nothing outside the checkpoint is written or deleted."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from hdfsstore.checkpoint.guard import Guard, encode_guard
from hdfsstore.errors import CorruptFileError, RepairError
from hdfsstore.repair.backup import FOLDER
from hdfsstore.repair.rewind import rewind
from hdfsstore.repair.undo import undo
from hdfsstore.repair.verbs import repartition
from tests.unit.repair.folders import content, copy_of

AGAIN: dict[str, Any] = {"sink_accepts_batches_again": True}


@pytest.mark.parametrize(
    "changes",
    [
        {"moves": ["checkpoint/../outside"]},
        {"moves": ["checkpoint/state/../../outside"]},
        {"moves": ["checkpoint//etc/passwd"]},
        {"moves": ["checkpoint/metadata"]},
        {"puts": ["checkpoint/offsets/./4"]},
        {"puts": ["offsets/4"]},
        {"copies": ["checkpoint/../outside"]},
        {"moves": ["sink/../outside"], "sink": "/somewhere"},
        {"moves": ["sink/part-0.parquet"], "sink": "/somewhere"},
        {"moves": ["sink/_spark_metadata/../../outside"], "sink": "/somewhere"},
        {"moves": "checkpoint/offsets/4"},
        {"parts": [1]},
        {"guard": "../4"},
        {"guard": -1},
        {"batch_id": None},
        {"state_version": "1"},
        {"sink": 1},
        {"checkpoint": None},
        {"offsets": ["1"]},
    ],
    ids=str,
)
def test_a_manifest_that_leads_elsewhere_is_damaged(tmp_path: Path, changes: dict[str, Any]) -> None:
    root = copy_of("aggregation", tmp_path / "copy")
    rewind(root, 1, **AGAIN)
    (folder,) = (root / FOLDER).iterdir()
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps(manifest | changes))
    (tmp_path / "outside").write_text("mine")
    before = content(root)
    with pytest.raises(CorruptFileError, match="not the manifest of a backup"):
        undo(root)
    assert content(root) == before
    assert (tmp_path / "outside").read_text() == "mine"


@pytest.mark.parametrize("text", ["[]", "1", "null"])
def test_a_manifest_that_is_no_object_is_damaged(tmp_path: Path, text: str) -> None:
    root = copy_of("aggregation", tmp_path / "copy")
    rewind(root, 1, **AGAIN)
    (folder,) = (root / FOLDER).iterdir()
    (folder / "manifest.json").write_text(text)
    with pytest.raises(CorruptFileError, match="not the manifest of a backup"):
        undo(root)


@pytest.mark.parametrize("name", ["../../elsewhere", "/elsewhere", "", "."])
def test_a_guard_that_names_a_folder_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    root = copy_of("aggregation", tmp_path / "copy")
    rewind(root, 1, **AGAIN)
    (folder,) = (root / FOLDER).iterdir()
    folder.rename(tmp_path / "elsewhere")
    (root / "offsets/2").write_bytes(encode_guard(Guard("rewind", name)))
    before = content(root)
    with pytest.raises(RepairError, match="its backup is gone"):
        undo(root)
    assert content(root) == before


def test_an_undo_of_a_backup_that_is_not_whole_needs_force(tmp_path: Path) -> None:
    root = copy_of("aggregation", tmp_path / "copy")
    old = content(root)
    rewind(root, 1, **AGAIN)
    new = content(root)
    (folder,) = (root / FOLDER).iterdir()
    (folder / "moved/checkpoint/offsets/3").unlink()
    with pytest.raises(RepairError, match=r"1 of .* not in the backup any more: checkpoint/offsets/3"):
        undo(root)
    assert content(root) == new
    assert any("is lost" in note for note in undo(root, force=True).notes)
    assert content(root).keys() == old.keys() - {"offsets/3"}


def test_a_copy_of_a_checkpoint_does_not_undo_what_is_in_the_sink(tmp_path: Path) -> None:
    root, log = copy_of("aggregation", tmp_path / "copy"), tmp_path / "sink" / "_spark_metadata"
    log.mkdir(parents=True)
    for number in range(4):
        (log / str(number)).write_text("v1")
    rewind(root, 1, file_sink=tmp_path / "sink")
    copied = shutil.copytree(root, tmp_path / "other")
    with pytest.raises(RepairError, match="if this is a copy"):
        undo(copied)
    assert sorted(path.name for path in log.iterdir()) == ["0", "1"]
    undo(root)
    assert sorted(path.name for path in log.iterdir()) == ["0", "1", "2", "3"]


@pytest.mark.parametrize("log", ["offsets", "commits"])
def test_a_checksum_file_without_its_entry_comes_back(tmp_path: Path, log: str) -> None:
    root = copy_of("aggregation", tmp_path / "copy")
    (root / log / ".4.crc").write_bytes(b"left by a kill")
    old = content(root)
    rewind(root, 1, **AGAIN)
    assert f"{log}/.4.crc" not in content(root)
    undo(root)
    assert content(root) == old
    repartition(root, None, 3)
    assert f"{log}/.4.crc" not in content(root)
    undo(root)
    assert content(root) == old
