from pathlib import Path

from tests.unit.cli.conftest import Run
from tests.unit.repair.folders import content, copy_of


def test_a_query_is_set_back_and_the_undo_puts_everything_back(run: Run, tmp_path: Path) -> None:
    root = copy_of("aggregation", tmp_path / "copy")
    before = content(root)
    plan = run("rewind", root, "--to-batch", 1, "--sink-accepts-batches-again", "--dry-run").out
    assert f"rewind {root} at batch 1, in place" in plan
    assert "batches 2 to 3 are taken back" in plan
    assert "  moved to the backup: commits/3" in plan
    assert content(root) == before
    done = run("rewind", root, "--to-batch", 1, "--sink-accepts-batches-again").out
    assert "done in" in done
    assert run("inspect", root, "--json").lines[0]["committed_batches"] == [0, 1]
    (report,) = run("undo", root, "--json").lines
    assert report["verb"] == "undo"
    assert "put back: offsets/3" in report["files"]
    assert content(root) == before


def test_the_remedy_names_the_option_that_is_missing(run: Run, tmp_path: Path) -> None:
    root = copy_of("aggregation", tmp_path / "copy")
    assert "--file-sink" in run("rewind", root, "--to-batch", 1, exit_code=1).err
    assert "exclude each other" in run("rewind", root, "--to-batch", 1, "--replay", "--replay-merged", exit_code=2).err
    assert "there is no repair to undo" in run("undo", root, exit_code=1).err
