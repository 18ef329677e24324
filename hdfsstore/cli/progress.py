"""Shows a progress bar on stderr, if stderr is a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

import pyarrow as pa
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn

T = TypeVar("T")


def counted(items: Iterable[T], what: str, total: int | None = None) -> Iterator[T]:
    """Yields the items, and counts them in a bar."""
    with _progress(MofNCompleteColumn()) as bar:
        yield from bar.track(items, total=total, description=what)


def rows_counted(batches: Iterable[pa.RecordBatch], what: str) -> Iterator[pa.RecordBatch]:
    """Yields the batches, and counts their rows. The total is unknown."""
    with _progress(TextColumn("{task.completed:,} rows")) as bar:
        task = bar.add_task(what, total=None)
        for batch in batches:
            yield batch
            bar.advance(task, batch.num_rows)


def _progress(count: ProgressColumn) -> Progress:
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), count, TimeElapsedColumn())
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
