"""Runs calls to storages ahead of whoever needs their results, on threads, in bounded memory.

In a process _MOST results at most are ahead: on their way, or there and not yet taken. Each holds about a range of a
file (range_reader.py). Whoever finds no place makes the call when the result is needed, so nobody waits for a place.

Where many files are read at the same time, their readers alone keep the storage busy. So each of them has fewer results
ahead, and from _MOST / 2 + 1 readers on none.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from hdfsstore.fs.threads import Job

T = TypeVar("T")

_MOST = 16
# A signal that arrives just before a wait does not end it, so waits are short.
_INTERRUPTIBLE_S = 1.0


class Ahead(Generic[T]):
    """A call on its way. It has a place until it was dropped and has ended."""

    def __init__(self, job: Job[T]) -> None:
        self._job = job

    @classmethod
    def begin(cls, work: Callable[[], T]) -> Ahead[T] | None:
        """None: all places are taken, or the system has no further thread."""
        if not _places.acquire(blocking=False):
            return None
        job = Job(work)
        try:
            job.start()
        except BaseException as error:
            _places.release()
            if isinstance(error, RuntimeError):
                return None
            raise
        return cls(job)

    def take(self) -> T:
        """Waits for the result, or raises the error of the call, and drops it."""
        try:
            while not self._job.wait(_INTERRUPTIBLE_S):
                pass
            return self._job.result()
        finally:
            self.drop()

    def end(self) -> None:
        """Waits for the end of the call, whatever comes of it, and drops it."""
        try:
            while not self._job.wait(_INTERRUPTIBLE_S):
                pass
        finally:
            self.drop()

    def drop(self) -> None:
        """The result is not wanted any more. It must be called once, or `take` or `end`."""
        if not self._job.abandon(_places.release):
            _places.release()


class InOrder(Iterator[T]):
    """The results of calls, in their order. Up to `most` of the calls are made ahead of their turn.

    Whoever takes no more results calls `drop`.
    """

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

    def drop(self, *, waits: bool = False) -> None:
        """Makes no further calls. With `waits` it waits for the end of those that have begun."""
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


@contextmanager
def reading() -> Iterator[None]:
    """Surrounds what one of several threads does that read files at the same time, each its own."""
    reader = object()
    _readers.add(reader)
    try:
        yield
    finally:
        _readers.discard(reader)


def share() -> int:
    """How many results somebody who reads may have ahead of the one that is waited for."""
    return max(_MOST // max(len(_readers), 1) - 1, 0)


_places = threading.BoundedSemaphore(_MOST)
_readers: set[object] = set()


def _after_fork() -> None:
    global _places
    _places = threading.BoundedSemaphore(_MOST)  # what is ahead is the parent's
    _readers.clear()


os.register_at_fork(after_in_child=_after_fork)
