"""Progress bars: on stderr where that is a terminal, and nowhere else."""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.truth import DATA

CHECKPOINT = DATA / "spark-4.3.0/snapshots/checkpoint"


def shown_on_a_terminal(*arguments: str) -> str:
    """What a run of the command writes to a stderr that is a terminal; its stdout is a pipe."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "hdfsstore", *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=theirs, env={**os.environ, "TERM": "xterm-256color"}
    ) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # Linux: the other end is closed
                break
            if not part:
                break
            shown += part
    os.close(ours)
    assert process.returncode == 0, shown
    return shown.decode()


@pytest.mark.thorough
@pytest.mark.parametrize(
    "arguments",
    [
        ("read", str(CHECKPOINT), "-o", "FOLDER/rows.parquet"),
        ("history", str(CHECKPOINT), "--key", "{}", "--json"),
        ("diff", str(CHECKPOINT), "--from", "1", "--to", "9", "--json"),
        ("inspect", str(CHECKPOINT), "--json"),
        ("fork", str(CHECKPOINT), "--to", "FOLDER/new"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_bar_on_a_terminal_and_none_in_a_pipe(arguments: tuple[str, ...], tmp_path: Path) -> None:
    arguments = tuple(argument.replace("FOLDER", str(tmp_path)) for argument in arguments)
    assert "━" in shown_on_a_terminal(*arguments)
    shutil.rmtree(tmp_path / "new", ignore_errors=True)
    piped = subprocess.run([sys.executable, "-m", "hdfsstore", *arguments], capture_output=True, check=True)
    assert "━" not in piped.stderr.decode()


@pytest.mark.thorough
def test_a_bar_has_a_total_and_shares_no_line_with_a_note(tmp_path: Path) -> None:
    case = DATA / "spark-4.3.0/aggregation/checkpoint"
    shown = shown_on_a_terminal("read", str(case), "-o", str(tmp_path / "rows.parquet"))
    assert re.search(r"of \d+ partitions, [\d,]+ rows", shown)
    for line in re.split(r"[\r\n]", shown):
        assert not ("━" in line and "Fields with the same name" in line)
    assert "Fields with the same name" in shown
