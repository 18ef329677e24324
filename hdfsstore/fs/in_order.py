"""Reads several files for somebody who needs one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from hdfsstore.fs.ahead import InOrder
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.local_files import LocalFileManager

T = TypeVar("T")
U = TypeVar("U")

_MOST = 8


@contextmanager
def in_order(fs: FileManager, works: Iterable[Callable[[], T]], *, waits: bool = False) -> Iterator[Iterator[T]]:
    """The results of calls that read files of `fs`, in their order. Some of the calls are made ahead of their turn.

    The first ones begin at once. On a local disk each call is made when its result is asked for. When the block ends,
    results that were not asked for are dropped.

    Args:
        waits: whether the block ends only when all calls that have begun have ended: they write to a local folder,
            which the caller deletes after an error.
    """
    ahead = InOrder(works, 0 if isinstance(fs, LocalFileManager) else _MOST)
    try:
        yield ahead
    finally:
        ahead.drop(waits=waits)


def both(fs: FileManager, first: Callable[[], T], second: Callable[[], U]) -> tuple[T, U]:
    """The results of two calls that ask `fs`, made side by side; on a local disk one after the other."""
    with in_order(fs, [second]) as seconds:
        return first(), next(seconds)
