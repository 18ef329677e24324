"""What the work of a repair may take, and whom it tells how far it is."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Protocol

DEFAULT_MEMORY = 1 << 30
# Each partition is a task of every batch, and has files of its own: more is a slip of the hand.
MOST_PARTITIONS = 100_000
# What a thread takes that reads files, and places, sorts and compresses their rows.
_THREAD_BYTES = 80 << 20


class Progress(Protocol):
    """Is told how far the work is, by any thread."""

    def __call__(self, what: str, rows: int, total: int | None = None, /) -> object:
        """Takes what is done ("operator 0, default: reading"), with how many more rows, and of how many if known."""


def silent(_what: str, _rows: int, _total: int | None = None, /) -> None:
    """Tells nobody."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the work may take.

    Attributes:
        memory: bytes that the work may take, beside what the process takes before it. Threads take 80 MiB each of it.
            Of the rest, which is a quarter at least, one half is for the rows that are held, and the other one for the
            changes since snapshots that threads read.
        tmp: a local folder for what does not fit; None: the system's.
        threads: how many partitions are worked on at a time; None: the number of processors.
    """

    memory: int = DEFAULT_MEMORY
    tmp: str | None = None
    threads: int | None = None

    @property
    def row_memory(self) -> int:
        """Bytes of rows that are held in memory at a time."""
        return max(self.memory - self.workers * _THREAD_BYTES, self.memory // 4) // 2

    @property
    def change_memory(self) -> int:
        """Bytes of changes since a snapshot that one thread holds in memory at a time."""
        return self.row_memory // self.workers

    @property
    def workers(self) -> int:
        return self.threads or os.cpu_count() or 1
