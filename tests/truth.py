"""The checkpoints of tests/data and what Spark read from them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class Case:
    """One checkpoint that a real Spark wrote."""

    folder: Path

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    @property
    def facts(self) -> dict[str, Any]:
        return _facts(self.folder)

    @property
    def rocksdb(self) -> bool:
        return any(self.checkpoint.glob("state/*/*/**/*.zip")) or any(self.checkpoint.glob("state/*/*/**/*.changelog"))

    def __str__(self) -> str:
        return f"{self.folder.parent.name}-{self.folder.name}"


@cache
def _facts(folder: Path) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads((folder / "truth" / "case.json").read_text(encoding="utf-8"))
    return facts


@dataclass(frozen=True)
class Read:
    """One read of Spark's statestore source."""

    case: Case
    facts: dict[str, Any]

    @property
    def rows(self) -> pa.Table | None:
        """Spark's rows, where it could give them as Arrow."""
        if self.facts["file"] is None or self.facts["projected"]:
            return None
        return pa.ipc.open_file(self.case.folder / "truth" / self.facts["file"]).read_all()

    @property
    def json_rows(self) -> list[Any] | None:
        """Spark's rows as to_json gives them (without null fields), where it could not give them as Arrow."""
        if not self.facts.get("rows") or self.facts["file"] is None:
            return None
        text = (self.case.folder / "truth" / self.facts["rows"]).read_text(encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]

    def __str__(self) -> str:
        name = self.facts["file"] or self.facts.get("rows") or self.facts["store_name"]
        return f"{self.case}-{name.removesuffix('.arrow')}"


def cases() -> list[Case]:
    """All checkpoints."""
    return [Case(path.parent.parent) for path in sorted(DATA.glob("spark-*/*/truth/case.json"))]


def reads() -> Iterator[Read]:
    """All that Spark read from the checkpoints of the HDFS-backed provider."""
    for case in cases():
        if not case.rocksdb:
            for facts in case.facts["reads"]:
                yield Read(case, facts)
