"""Reads several files for somebody who needs one after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from hdfsstore.fs.ahead import Ahead
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
    ahead = _InOrder(works, 0 if isinstance(fs, LocalFileManager) else _MOST)
    try:
        yield ahead
    finally:
        ahead.drop(waits=waits)


def both(fs: FileManager, first: Callable[[], T], second: Callable[[], U]) -> tuple[T, U]:
    """The results of two calls that ask `fs`, made side by side; on a local disk one after the other."""
    with in_order(fs, [second]) as seconds:
        return first(), next(seconds)


class _InOrder(Iterator[T]):
    def __init__(self, works: Iterable[Callable[[], T]], most: int) -> None:
        self._works = deque(works)
        self._most = most
        self._ahead: deque[Ahead[T]] = deque()
        self._begin()

    def __next__(self) -> T:
        if self._ahead:
            first = self._ahead.popleft()
            try:
                self._begin()
            except BaseException:
                first.drop()
                raise
            return first.take()
        if not self._works:
            raise StopIteration
        work = self._works.popleft()
        self._begin()
        return work()

    def drop(self, *, waits: bool) -> None:
        self._works.clear()
        try:
            while waits and self._ahead:
                self._ahead.popleft().end()
        finally:  # an interrupt ends the wait
            while self._ahead:
                self._ahead.popleft().drop()

    def _begin(self) -> None:
        while self._works and len(self._ahead) < self._most:
            begun = Ahead.begin(self._works[0])
            if begun is None:
                return
            self._ahead.append(begun)
            self._works.popleft()
