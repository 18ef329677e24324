"""Runs calls to storages ahead of whoever needs their results, on threads, in bounded memory.

In a process _MOST results at most are ahead: on their way, or there and not yet taken. Each holds about a range of a
file (range_reader.py). Whoever finds no place makes the call when the result is needed, so nobody waits for a place.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
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


_places = threading.BoundedSemaphore(_MOST)


def _after_fork() -> None:
    global _places
    _places = threading.BoundedSemaphore(_MOST)  # what is ahead is the parent's


os.register_at_fork(after_in_child=_after_fork)
