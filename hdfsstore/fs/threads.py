"""Runs calls that may hang on threads that are used again and again.

They are daemon threads: one that hangs does not hold up the end of the process, as those of ThreadPoolExecutor would. A
forked child starts with none.
"""

from __future__ import annotations

import contextvars
import itertools
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

T = TypeVar("T")

# So many threads wait for work. Those beyond end after their call.
_MOST_IDLE = 16
# A signal that arrives just before a wait does not end it, so waits are short.
_INTERRUPTIBLE_S = 1.0


class Job(Generic[T]):
    """A call on a thread of its own."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work: Callable[[], T] | None = work
        self._context = contextvars.copy_context()  # who asks, for the metrics
        self._started = False
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._at_end: Callable[[], None] | None = None
        self._result: T
        self._error: BaseException | None = None

    def start(self) -> None:
        """Begins the call.

        Raises:
            RuntimeError: the system has no further thread, or the interpreter is about to end.
        """
        with _lock:
            thread = _idle.pop() if _idle else None
        if thread is None:
            thread = _Thread()
        self._started = True
        thread.run(self)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits for the end of the call. Returns False if it has not ended in time."""
        return self._ended.wait(timeout_s)

    def result(self) -> T:
        """What the call has returned, when it has ended. Raises what the call has raised."""
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None  # its traceback holds this frame
        return self._result

    def abandon(self, at_end: Callable[[], None]) -> bool:
        """Nobody waits any more. The thread will call `at_end`. Returns False if the call has ended, or never began."""
        with self._lock:
            if self._ended.is_set() or not self._started:
                return False
            self._at_end = at_end
            return True

    def _run(self) -> None:
        assert self._work is not None
        try:
            self._result = self._context.run(self._work)
        except BaseException as error:  # noqa: BLE001 - raised again by who waits
            self._error = error
        self._work = None  # and what it holds

    def _end(self) -> None:
        with self._lock:
            self._ended.set()
        if self._at_end is not None:
            self._at_end()


def beside(work: Callable[[], T], here: Callable[[], object]) -> T:
    """Makes a call on a thread and another one here, and returns the result of the first one when both have ended.

    Raises what `here` raises, otherwise what `work` raises.
    """
    job = Job(work)
    job.start()
    try:
        here()
    finally:
        while not job.wait(_INTERRUPTIBLE_S):
            pass
    return job.result()


class _Thread:
    def __init__(self) -> None:
        self._jobs: SimpleQueue[Job[Any]] = SimpleQueue()
        threading.Thread(target=self._loop, name=f"hdfsstore-fs-{next(_numbers)}", daemon=True).start()

    def run(self, job: Job[Any]) -> None:
        self._jobs.put(job)

    def _loop(self) -> None:
        while True:
            job = self._jobs.get()
            job._run()
            stays = self._is_idle()  # before the end is told: the next call then finds this thread
            job._end()
            del job
            if not stays:
                return

    def _is_idle(self) -> bool:
        with _lock:
            if len(_idle) >= _MOST_IDLE:
                return False
            _idle.append(self)
            return True


_numbers = itertools.count()
_lock = threading.Lock()
_idle: list[_Thread] = []


def _after_fork() -> None:
    global _lock, _idle
    _lock, _idle = threading.Lock(), []  # the threads are the parent's


os.register_at_fork(after_in_child=_after_fork)
