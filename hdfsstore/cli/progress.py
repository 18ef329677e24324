"""Shows a progress bar on stderr, if stderr is a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TypeVar

import pyarrow as pa
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TaskID, TextColumn, TimeElapsedColumn

T = TypeVar("T")

# Notes and bars go through the same console, so that a note never shares a line with a bar.
STDERR = Console(stderr=True)


def counted(items: Iterable[T], what: str, total: int | None = None) -> Iterator[T]:
    """Yields the items, and counts them in a bar."""
    with _progress(MofNCompleteColumn()) as bar:
        yield from bar.track(items, total=total, description=what)


def rows_counted(batches: Iterable[pa.RecordBatch], what: str, partitions: int) -> Iterator[pa.RecordBatch]:
    """Yields the batches of a store, and counts their rows. The bar counts the partitions that have begun.

    Args:
        batches: with the column partition_id.
        partitions: how many there are.
    """
    begun: set[int] = set()
    rows = 0
    with _progress(TextColumn("{task.completed} of {task.total} partitions, {task.fields[rows]:,} rows")) as bar:
        task = bar.add_task(what, total=partitions, rows=0)
        for batch in batches:
            yield batch
            rows += batch.num_rows
            begun.update(batch["partition_id"].unique().to_pylist())
            bar.update(task, completed=len(begun), rows=rows)


@contextmanager
def rows_told() -> Iterator[Callable[[str, int], None]]:
    """Gives a function that is told what is done and how many more rows it was done with, by any thread."""
    with _progress(TextColumn("{task.completed:,} rows")) as bar:
        tasks: dict[str, TaskID] = {}
        lock = Lock()

        def tell(what: str, rows: int) -> None:
            with lock:
                if what not in tasks:
                    tasks[what] = bar.add_task(what, total=None)
            bar.advance(tasks[what], rows)

        yield tell


def _progress(count: ProgressColumn) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), count, TimeElapsedColumn())
    return Progress(*columns, console=STDERR, transient=True, disable=not STDERR.is_terminal)
