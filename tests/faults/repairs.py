"""What a child process does to a checkpoint, and may be killed at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hdfsstore.repair.rewind import rewind
from hdfsstore.repair.undo import undo
from hdfsstore.repair.verbs import convert, edit, fork, repartition
from tests.faults.server import Child

VERBS: dict[str, Callable[..., Any]] = {"edit": edit, "repartition": repartition, "convert": convert}


def set_back(_: Child, root: str, to_batch: int, options: dict[str, Any]) -> None:
    rewind(root, to_batch, **options)


def take_back(_: Child, root: str, force: bool = False) -> None:
    undo(root, force=force)


def copy(_: Child, source: str, to: str, options: dict[str, Any]) -> None:
    fork(source, to, **options)


def add_batch(_: Child | None, root: str, verb: str, change: Any) -> None:
    """Runs a verb in place."""
    VERBS[verb](root, None, change)
