"""What the work of a repair may take, and whom it tells how far it is."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

DEFAULT_MEMORY = 1 << 30

# Told what is done ("operator 0, default: reading") and how many more rows it was done with.
Progress: TypeAlias = Callable[[str, int], object]


def silent(_: str, __: int) -> None:
    """Tells nobody."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the work may take.

    Attributes:
        memory: bytes of rows that are held in memory at a time.
        tmp: a local folder for what does not fit; None: the system's.
        threads: how many partitions are worked on at a time; None: the number of processors.
    """

    memory: int = DEFAULT_MEMORY
    tmp: str | None = None
    threads: int | None = None

    @property
    def workers(self) -> int:
        return self.threads or os.cpu_count() or 1
