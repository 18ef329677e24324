"""Progress bars: on stderr where that is a terminal, and nowhere else."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.truth import DATA

CHECKPOINT = DATA / "spark-4.3.0/snapshots/checkpoint"


def shown_on_a_terminal(*arguments: str) -> str:
    """What a run of the command writes to a stderr that is a terminal; its stdout is a pipe."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "hdfsstore.cli", *arguments]
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
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_bar_on_a_terminal_and_none_in_a_pipe(arguments: tuple[str, ...], tmp_path: Path) -> None:
    arguments = tuple(argument.replace("FOLDER", str(tmp_path)) for argument in arguments)
    assert "━" in shown_on_a_terminal(*arguments)
    piped = subprocess.run([sys.executable, "-m", "hdfsstore.cli", *arguments], capture_output=True, check=True)
    assert "━" not in piped.stderr.decode()
