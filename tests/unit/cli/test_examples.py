"""The example in the help of each repair runs, on a checkpoint of a real query, with another batch and folders."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from hdfsstore import Checkpoint
from hdfsstore.cli.app import app
from tests.unit.cli.conftest import Run, checkpoint

REPAIRS = ("verify", "fork", "repartition", "convert", "edit", "rewrite", "rewind", "undo")


def example_of(name: str) -> list[str]:
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    found = re.search(r"^Example: hdfsstore (.*)$", group.commands[name].help or "", re.MULTILINE)
    assert found is not None, name
    return shlex.split(found[1])


@pytest.fixture
def data(tmp_path: Path, run: Run) -> Path:
    """What the examples have in /data, and the rows that one of them puts."""
    root = Path(shutil.copytree(checkpoint("aggregation"), tmp_path / "checkpoint"))
    run("read", root, "-o", tmp_path / "rows.parquet")
    for batch in Checkpoint(root).batches:
        entry = tmp_path / f"out/_spark_metadata/{batch.batch_id}"
        entry.parent.mkdir(parents=True, exist_ok=True)
        entry.write_text("v1", "utf-8")
    return tmp_path


@pytest.mark.parametrize("name", REPAIRS)
def test_the_example_runs(name: str, data: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(data)
    if name == "undo":
        run("repartition", data / "checkpoint", "--partitions", 3, "--in-place")
    arguments = [each.replace("/data/", f"{data}/").replace("56", "1") for each in example_of(name)]
    assert arguments[0] == name
    run(*arguments)
    if "--to" in arguments:
        made = Checkpoint(arguments[arguments.index("--to") + 1])
        assert made.latest_batch_id == (1 if "--batch" in arguments else 3)
        assert made.read_state().num_rows
    if name == "rewind":
        assert Checkpoint(data / "checkpoint").latest_batch_id == 1
    assert run("verify", data / "checkpoint").exit_code == 0
