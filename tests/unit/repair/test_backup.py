"""Backups that somebody has changed: nothing outside the checkpoint is written or deleted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hdfsstore.checkpoint.guard import Guard, encode_guard
from hdfsstore.errors import CorruptFileError, RepairError
from hdfsstore.repair.backup import FOLDER
from hdfsstore.repair.rewind import rewind
from hdfsstore.repair.undo import undo
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
