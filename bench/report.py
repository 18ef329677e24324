"""What the benchmarks found, as one table at the end of the run."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Report:
    """Rows of (what, measured, note)."""

    rows: list[tuple[str, str, str]] = field(default_factory=list)

    def add(self, what: str, measured: str, note: str) -> None:
        """Adds a row."""
        self.rows.append((what, measured, note))

    def lines(self) -> list[str]:
        """The table in Markdown."""
        return ["| what | measured | |", "|---|---|---|", *("| " + " | ".join(row) + " |" for row in self.rows)]
