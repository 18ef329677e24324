"""What a look at a whole checkpoint finds: each damage once, with all the batches that it spoils."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from hdfsstore.checkpoint.number_ranges import number_ranges
from hdfsstore.errors import StateStoreError


@dataclass(frozen=True, slots=True)
class Finding:
    """One damage.

    Attributes:
        kind: the name of the error that a reader of it gets.
        message: what is wrong.
        path: the file or folder; None: not known.
        offset: the byte in that file; None: not known.
        remedy: what the user can do; None: nothing is known.
        batches: the batches that cannot be read, or that the log cannot tell of, because of it, in ascending order.
    """

    kind: str
    message: str
    path: str | None
    offset: int | None
    remedy: str | None
    batches: tuple[int, ...]

    def __str__(self) -> str:
        at = "" if self.offset is None else f", byte {self.offset}"
        where = "" if self.path is None else f"{self.path}{at}: "
        spoilt = f" (batches {number_ranges(self.batches)})" if self.batches else ""
        return f"{where}{self.message}{spoilt}" + ("" if self.remedy is None else f". {self.remedy}")


class Findings:
    """Collects errors. Those at the same place are one finding."""

    def __init__(self) -> None:
        self._found: dict[tuple[str | None, int | None, str], tuple[StateStoreError, set[int]]] = {}

    def add(self, error: StateStoreError, batches: Iterable[int]) -> None:
        key = error.path, error.offset, "" if error.path else error.message
        self._found.setdefault(key, (error, set()))[1].update(batches)

    def all(self) -> list[Finding]:
        """By path."""
        found = [
            Finding(type(error).__name__, error.message, error.path, error.offset, error.remedy, tuple(sorted(batches)))
            for error, batches in self._found.values()
        ]
        return sorted(found, key=lambda each: (each.path or "", each.offset or 0))
