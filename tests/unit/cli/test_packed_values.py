"""States of mapWithState without a schema, as the command shows them."""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.checkpoint.packed import VALUES, pack, write_checkpoint
from tests.unit.cli.conftest import Run

DIFF = ["--from", 0, "--to", 1]
HISTORY = ["--key", '{"k": "u"}']


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return write_checkpoint(tmp_path / "cp")


def states(lines: list[dict[str, Any]], column: str = "value") -> list[Any]:
    return [line[column]["groupState"]["value"] for line in lines]


def test_json_has_the_values(checkpoint: Path, run: Run) -> None:
    assert states(run("read", checkpoint, "--json").lines) == VALUES[1:]
    assert states(run("history", checkpoint, *HISTORY, "--json").lines) == VALUES
    lines = run("diff", checkpoint, *DIFF, "--json").lines
    assert (states(lines, "before"), states(lines, "after")) == (VALUES[:1], VALUES[1:])


def test_tables_and_csv_have_json(checkpoint: Path, run: Run) -> None:
    before, after = (json.dumps(value, separators=(",", ":")) for value in VALUES)
    assert after in run("read", checkpoint).out
    assert after.replace('"', '""') in run("read", checkpoint, "--format", "csv").out
    assert before in run("history", checkpoint, *HISTORY).out
    assert f"{before} → {after}" in run("diff", checkpoint, *DIFF).out


def test_sql_and_where_take_the_json(checkpoint: Path, run: Run) -> None:
    query = "select json_extract(value.groupState.value, '$.a') as a from state"
    assert run("sql", checkpoint, query, "--json").lines == [{"a": "3"}]
    assert "a" in run("sql", checkpoint, "show tables").out
    where = ["--where", "value.groupState.value like '%\"a\":3%'"]
    assert len(run("read", checkpoint, *where, "--json").lines) == 1


def test_without_msgpack_the_bytes_are_shown_and_a_note(
    checkpoint: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "msgpack", None)
    ran = run("read", checkpoint, "--json")
    assert states(ran.lines) == [base64.b64encode(pack(VALUES[1])).decode()]
    assert "pip install msgpack" in ran.err
    assert len(run("history", checkpoint, *HISTORY, "--json").lines) == 2
    assert len(run("diff", checkpoint, *DIFF, "--json").lines) == 1
