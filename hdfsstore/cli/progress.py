"""Shows a progress bar on stderr, if stderr is a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TypeVar

import pyarrow as pa
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.text import Text

from hdfsstore.repair import limits

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
def rows_told() -> Iterator[limits.Progress]:
    """Gives a function that shows what it is told."""
    with _progress(_Rows()) as bar:
        tasks: dict[tuple[str, int | None], TaskID] = {}
        lock = Lock()

        def tell(what: str, rows: int, total: int | None = None, /) -> None:
            with lock:
                task = (what, total)  # what is done a second time has a total, and begins anew
                if task not in tasks:
                    tasks[task] = bar.add_task(what, total=total)
            bar.advance(tasks[task], rows)

        yield tell


class _Rows(ProgressColumn):
    """How many rows, and of how many where that is known."""

    def render(self, task: Task) -> Text:
        of = "" if task.total is None else f" of {int(task.total):,}"
        return Text(f"{int(task.completed):,}{of} rows")


def _progress(count: ProgressColumn) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), count, TimeElapsedColumn())
    return Progress(*columns, console=STDERR, transient=True, disable=not STDERR.is_terminal)
