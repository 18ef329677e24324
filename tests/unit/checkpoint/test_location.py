"""Which folder of a path is the checkpoint."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from hdfsstore import Checkpoint, CheckpointNotFoundError
from tests.support.truth import DATA
from tests.unit.checkpoint.build import checkpoint, opened

STATE = DATA / "spark-4.3.0" / "aggregation" / "checkpoint"


@pytest.fixture
def location(tmp_path: Path) -> Path:
    """The checkpointLocation of a query of hdfsstore.spark."""
    shutil.copytree(STATE, tmp_path / "hdfsstore")
    return Path(checkpoint(tmp_path, 4))


def test_a_query_of_hdfsstore_is_opened_where_its_state_is(location: Path) -> None:
    opened = Checkpoint(location)
    assert opened.path == f"{location}/hdfsstore"
    assert opened.remark == f"This is a query of hdfsstore.spark, whose state is in {location}/hdfsstore"
    assert opened.read_state().equals(Checkpoint(location / "hdfsstore").read_state())


def test_state_of_sparks_own_operators_comes_first(location: Path) -> None:
    shutil.copytree(STATE / "state", location / "state")
    opened = Checkpoint(location)
    assert opened.path == str(location)
    assert opened.remark is not None
    assert f"{location}/hdfsstore: give that folder" in opened.remark


def test_a_folder_of_that_name_without_state_is_nothing_special(tmp_path: Path) -> None:
    (tmp_path / "hdfsstore").mkdir()
    opened = Checkpoint(checkpoint(tmp_path, 1))
    assert (opened.path, opened.remark) == (str(tmp_path), None)


def test_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(CheckpointNotFoundError, match="no checkpoint here"):
        Checkpoint(tmp_path)


def test_a_file_is_no_checkpoint(root: Any) -> None:
    checkpoint(root, 1)
    with pytest.raises(CheckpointNotFoundError, match="no checkpoint here") as caught:
        opened(root / "offsets" / "0")
    assert caught.value.remedy == f"{root} is one: open that"
