"""What a child process does to a checkpoint, and may be killed at."""

from __future__ import annotations

from typing import Any

from hdfsstore.repair.edit import Edit
from hdfsstore.repair.rewind import rewind
from hdfsstore.repair.undo import undo
from hdfsstore.repair.verbs import edit, fork
from tests.faults.server import Child


def set_back(_: Child, root: str, to_batch: int, options: dict[str, Any]) -> None:
    rewind(root, to_batch, **options)


def take_back(_: Child, root: str, force: bool = False) -> None:
    undo(root, force=force)


def copy(_: Child, source: str, to: str, options: dict[str, Any]) -> None:
    fork(source, to, **options)


def put_rows(_: Child, root: str, change: Edit) -> None:
    edit(root, None, change)
