"""What a child process does to a checkpoint, and may be killed at."""

from __future__ import annotations

from typing import Any

from hdfsstore.repair.rewind import rewind
from hdfsstore.repair.undo import undo
from tests.faults.server import Child


def set_back(_: Child, root: str, to_batch: int, options: dict[str, Any]) -> None:
    rewind(root, to_batch, **options)


def take_back(_: Child, root: str) -> None:
    undo(root)
