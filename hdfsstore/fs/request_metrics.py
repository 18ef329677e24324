"""Counts the requests to storages: those of a FileManager, and those that a store, or whoever else, has caused."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RequestCounts:
    """What was counted until now.

    Attributes:
        requests: each try, by its kind, which the FileManager names ("GET", "rename", ...).
        retries: the tries of these that were not the first of their call.
        bytes_read, bytes_written: of bodies.
        ms: time of all tries together, without the pauses between them. Parallel ones count side by side.
    """

    requests: Mapping[str, int]
    retries: int
    bytes_read: int
    bytes_written: int
    ms: float


class RequestMetrics:
    """Counters that any number of threads add to."""

    def __init__(self) -> None:
        self._requests: Counter[str] = Counter()
        self._retries = 0
        self._bytes_read = 0
        self._bytes_written = 0
        self._seconds = 0.0

    def request(self, kind: str, seconds: float, *, retry: bool = False) -> None:
        """Counts one try of a request."""
        with _lock:
            for each in self._and_who_asks():
                each._requests[kind] += 1
                each._retries += retry
                each._seconds += seconds

    def waited(self, seconds: float) -> None:
        """Counts the time for the rest of an answer whose request was counted before."""
        with _lock:
            for each in self._and_who_asks():
                each._seconds += seconds

    def read(self, size: int) -> None:
        """Counts bytes that have arrived."""
        with _lock:
            for each in self._and_who_asks():
                each._bytes_read += size

    def written(self, size: int) -> None:
        """Counts bytes that were sent."""
        with _lock:
            for each in self._and_who_asks():
                each._bytes_written += size

    def snapshot(self) -> RequestCounts:
        """The counts until now."""
        with _lock:
            return RequestCounts(
                dict(self._requests), self._retries, self._bytes_read, self._bytes_written, self._seconds * 1e3
            )

    def _and_who_asks(self) -> tuple[RequestMetrics, ...]:
        asks = _WHO_ASKS.get()
        return (self,) if asks is None or asks is self else (self, asks)


@contextmanager
def counted_in(metrics: RequestMetrics) -> Iterator[None]:
    """Counts the requests of the block a second time, in `metrics`. One FileManager serves many stores.

    Threads that run a copy of the context (contextvars.copy_context) are counted too.
    """
    token = _WHO_ASKS.set(metrics)
    try:
        yield
    finally:
        _WHO_ASKS.reset(token)


_WHO_ASKS: ContextVar[RequestMetrics | None] = ContextVar("hdfsstore_who_asks", default=None)
_lock = threading.Lock()


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()  # a thread of the parent may hold the old one


os.register_at_fork(after_in_child=_after_fork)
