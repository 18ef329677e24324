"""A section of docs/broken.md, with a checkpoint on which its commands are run."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from typer.testing import CliRunner

from hdfsstore import Checkpoint
from hdfsstore.cli.app import app
from tests.spark.support.clicks import Clicks, Totals, Transform

FENCED = re.compile(r"^```\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Case:
    """A section of the page, and a copy of the query's checkpoint at `/data/checkpoint`."""

    def __init__(self, section: str, clicks: Clicks, folder: Path) -> None:
        self.clicks = clicks
        self.folder = folder
        self.checkpoint = folder / "data/checkpoint"
        self._messages = FENCED.findall(section)
        self._commands = re.findall(r"^    (\S.*)$", FENCED.sub("", section), re.MULTILINE)
        self._ran: set[str] = set()
        self.fresh()

    def fresh(self) -> None:
        """Puts the checkpoint back as the query has left it."""
        shutil.rmtree(self.checkpoint, ignore_errors=True)
        shutil.copytree(self.clicks.checkpoint, self.checkpoint)

    def spark_says(self, number: int, query: Transform | None = None) -> None:
        """Starts the query, or another one, which ends with this message of the section."""
        with pytest.raises(PySparkException) as raised:
            self.clicks.run(self.checkpoint, query)
        pattern = ".*".join(map(re.escape, self.message(number).split("...")))
        assert re.search(pattern, " ".join(str(raised.value).split())), str(raised.value)

    def message(self, number: int) -> str:
        """This message of the section, with a blank for each break of a line."""
        self._ran.add(self._messages[number])
        return self._at_home(" ".join(self._messages[number].split()))

    def do(self, number: int, status: int = 0) -> str:
        """Runs this command of the section, which ends with this status. Returns what it prints."""
        command = self._commands[number]
        self._ran.add(command)
        words = shlex.split(self._at_home(command))
        if words[0] != "hdfsstore":
            done = subprocess.run(["sh", "-c", self._at_home(command)], text=True, capture_output=True)
            assert done.returncode == status, done.stderr
            return done.stdout
        result = CliRunner().invoke(app, words[1:], prog_name="hdfsstore")
        assert result.exit_code == status, result.output
        return result.output

    def goes_on(self, expected: Totals | None = None, checkpoint: Path | None = None) -> None:
        """Starts the query, which reads what is left of the input. The state is then what the files say, or this."""
        self.clicks.run(checkpoint or self.checkpoint)
        assert self.state(checkpoint) == (expected or self.clicks.totals())

    def state(self, checkpoint: Path | None = None) -> Totals:
        rows = Checkpoint(checkpoint or self.checkpoint).read_state().to_pylist()
        found = {row["key"]["user"]: (row["value"]["count"], row["value"]["sum"]) for row in rows}
        assert len(found) == len(rows), "a key is in two partitions"
        return found

    def assert_whole(self) -> None:
        """Nothing of the section was left out."""
        assert {*self._messages, *self._commands} == self._ran

    def _at_home(self, text: str) -> str:
        return re.sub(r"/(?=(data|backup)/)", f"{self.folder}/", text)
