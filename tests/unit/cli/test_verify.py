"""`hdfsstore verify`: its exit status, and what it prints."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hdfsstore.cli.app import app
from tests.support.truth import DATA

RUN = CliRunner()
CHECKPOINT = DATA / "spark-4.3.0/aggregation/checkpoint"


@pytest.mark.parametrize("options", [[], ["--logs"]], ids=str)
def test_a_sound_checkpoint_has_status_0(options: list[str]) -> None:
    done = RUN.invoke(app, ["verify", str(CHECKPOINT), *options])
    assert done.exit_code == 0
    assert done.stdout.startswith("Sound: ")


def test_a_damaged_one_has_status_1_and_names_the_file_and_the_batches(tmp_path: Path) -> None:
    root = Path(shutil.copytree(CHECKPOINT, tmp_path / "checkpoint"))
    (root / "state/0/0/1.delta").unlink()
    shown = RUN.invoke(app, ["verify", str(root)])
    assert shown.exit_code == 1
    assert f"Damaged: {root}/state/0/0/1.delta: " in shown.stdout
    as_json = RUN.invoke(app, ["verify", str(root), "--json"])
    assert as_json.exit_code == 1
    found = json.loads(as_json.stdout)
    assert found["sound"] is False
    assert found["findings"][0]["path"] == f"{root}/state/0/0/1.delta"
    assert found["findings"][0]["batches"][0] == 0


def test_bad_usage_has_status_2() -> None:
    assert RUN.invoke(app, ["verify", str(CHECKPOINT), "--no-such-option"]).exit_code == 2
