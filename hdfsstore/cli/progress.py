"""A bar on stderr while something takes long; nothing where stderr is no terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

import pyarrow as pa
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn

T = TypeVar("T")


def counted(items: Iterable[T], what: str, total: int | None = None) -> Iterator[T]:
    """Passes the items on, with a bar that counts them."""
    with _progress(MofNCompleteColumn()) as bar:
        yield from bar.track(items, total=total, description=what)


def rows_counted(batches: Iterable[pa.RecordBatch], what: str) -> Iterator[pa.RecordBatch]:
    """Passes the batches on and counts their rows; how many there will be, nobody knows."""
    with _progress(TextColumn("{task.completed:,} rows")) as bar:
        task = bar.add_task(what, total=None)
        for batch in batches:
            yield batch
            bar.advance(task, batch.num_rows)


def _progress(count: ProgressColumn) -> Progress:
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), count, TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
