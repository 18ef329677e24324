"""Runs the command on the checkpoints of tests/data."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hdfsstore.cli.app import app
from tests.support.truth import DATA

Run = Callable[..., "Ran"]


@dataclass(frozen=True)
class Ran:
    """What a run of the command left."""

    exit_code: int
    out: str
    err: str

    @property
    def lines(self) -> list[Any]:
        """The JSON objects on stdout."""
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs `hdfsstore` with these arguments and looks at its exit code; paths and numbers become text."""
    monkeypatch.setenv("COLUMNS", "100")

    def run(*arguments: object, exit_code: int = 0) -> Ran:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments], prog_name="hdfsstore")
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == exit_code, result.output
        return Ran(result.exit_code, result.stdout, result.stderr)

    return run


def checkpoint(case: str, spark: str = "4.3.0") -> Path:
    """The checkpoint of a case of tests/data."""
    return DATA / f"spark-{spark}" / case / "checkpoint"
