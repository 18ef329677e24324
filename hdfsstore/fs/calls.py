"""Calls to a storage: tried again after what may pass, with a deadline, and left alone when they hang.

how a call ends                                       what happens
it returns, or fails with what no retry would mend    the caller gets that
it fails with what may pass, and may be repeated      a pause, and another try, until the deadline
the deadline is over                                  FileSystemTimeoutError. A call on a thread is abandoned: it
                                                      may still take effect, at any later time
it overwrites, renames or deletes, and was abandoned  nothing more is written under that name until it has ended
"""

from __future__ import annotations

import itertools
import logging
import os
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn, TypeVar

from hdfsstore.errors import FileSystemTimeoutError, StateStoreError
from hdfsstore.fs import threads
from hdfsstore.fs.request_metrics import RequestMetrics

log = logging.getLogger("hdfsstore.fs.calls")

T = TypeVar("T")

DEFAULT_TIMEOUT_S = 120.0
# The n-th pause is about _FIRST_PAUSE_S * 2 ** (n - 1) seconds, and at most _LONGEST_PAUSE_S.
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0
# So many abandoned calls of one storage may hang. Each keeps a thread, so further ones are refused.
_MOST_HANGING = 32
# A signal that arrives just before a wait does not end it, so waits are short.
_INTERRUPTIBLE_S = 1.0
_USER_INFO = re.compile(r"(?<=://)[^/@\s]*@")


class Progress:
    """How far the body of a call has come. Each further byte puts the deadline of the call off.

    The time counts from its making on: make it when the wait begins.

    The code that reads or writes the body calls at(). A try that begins anew only counts when it gets further than any
    before, so tries that are cut short again and again end too.
    """

    def __init__(self) -> None:
        self._furthest = 0
        self._at = time.monotonic()
        self._abandoned = False

    def at(self, position: int) -> None:
        """So many bytes of the body have passed.

        Raises:
            FileSystemTimeoutError: nobody waits for the call any more.
        """
        if self._abandoned:
            raise FileSystemTimeoutError("the call was given up while its body was on the way")
        if position > self._furthest:
            self._furthest = position
            self._at = time.monotonic()


class Calls:
    """Makes the calls of one FileManager. Any number of threads may use it, and a forked child too.

    Args:
        timeout_s: the deadline of a call in seconds, over all of its tries. With a Progress it counts from the last
            byte that made the body longer.
        requests: counts each try.
        retryable: whether an error may pass by itself: a lost connection, an overloaded server.
        identity: of the storage (FileManager.identity). What hangs there is known to all Calls of the process.
        attempt_s: how long one try takes at most, by the timeouts of the client itself, in seconds. No try begins
            that could end after the deadline. It is 0 for a client that has none; its calls go on threads.

    Attributes:
        proxy: that the calls go by, host and port, for messages.
    """

    def __init__(
        self,
        timeout_s: float,
        requests: RequestMetrics,
        retryable: Callable[[Exception], bool],
        *,
        identity: str,
        attempt_s: float = 0.0,
    ) -> None:
        if not timeout_s > 0:
            raise ValueError(f"the timeout of a filesystem is a positive number of seconds, not {timeout_s}")
        self._timeout_s = timeout_s
        self._requests = requests
        self._retryable = retryable
        self._identity = identity
        self._attempt_s = attempt_s
        self.proxy: str | None = None
        self._written = _Written()

    def call(
        self,
        kind: str,
        path: str,
        work: Callable[[], T],
        *,
        repeatable: bool,
        on_thread: bool = False,
        progress: Progress | None = None,
        then: Callable[[T], object] | None = None,
    ) -> T:
        """Returns what `work` returns.

        Args:
            kind: of the request, for the metrics and messages.
            work: makes one request.
            repeatable: whether `work` may be called again when nothing is known of what it did. If not, the caller gets
                its first error.
            on_thread: whether to run it on another thread and to wait no longer than the deadline, for clients without
                timeouts of their own.
            progress: of the body. Without it the deadline holds for the whole call.
            then: is called with what `work` returns, on the thread of the caller, as a part of the try. It reads a body
                by a client that waits for no byte of it longer than the deadline.

        Raises:
            FileSystemTimeoutError: the deadline is over.
            Exception: any error of `work` that is not retryable.
        """
        if on_thread and _hanging.number(self._identity) >= _MOST_HANGING:
            raise FileSystemTimeoutError(
                f"{_MOST_HANGING} earlier calls of {self._identity} were given up and still hang, so `{kind}` was not "
                "tried",
                path,
                remedy="Check that the storage answers",
                tries=0,
            )
        deadline = _Deadline(self._timeout_s, progress)
        failed: str | None = None  # the error itself would hold its traceback, this frame and buffers in it
        for tries in itertools.count(1):
            began = time.monotonic()
            try:
                result = self._on_thread(kind, path, work, tries, failed, deadline) if on_thread else work()
                if then is not None:
                    then(result)
            except Exception as error:
                self._count(kind, began, tries)
                if isinstance(error, FileSystemTimeoutError) or not repeatable or not self._retryable(error):
                    raise
                pause = min(_FIRST_PAUSE_S * 2 ** min(tries - 1, 30), _LONGEST_PAUSE_S) * random.uniform(0.5, 1.0)
                if pause + self._attempt_s >= deadline.left():
                    self._raise_failed(kind, path, tries, deadline, error)
                failed = _said(error)
                log.debug("%s: `%s` is tried again in %.1f s after %s", path, kind, pause, failed)
            else:
                self._count(kind, began, tries)
                return result
            time.sleep(pause)
        raise AssertionError("a call ends with a result or an error")

    @contextmanager
    def writing(self, path: str) -> Iterator[None]:
        """Surrounds the calls that overwrite or delete a file, or rename another one to its name.

        Raises:
            FileSystemTimeoutError: an earlier call of such a block was abandoned and has not ended, so it could land
                over what is written now.
        """
        if _hanging.holds(self._identity, path):
            raise FileSystemTimeoutError(
                "an earlier write or deletion of this file was given up and may still take effect, so nothing is "
                "written or deleted there",
                path,
                remedy="Try again when the storage answers, or restart the process",
                tries=0,
            )
        self._written.paths.append(path)
        try:
            yield
        finally:
            self._written.paths.pop()

    def _on_thread(
        self, kind: str, path: str, work: Callable[[], T], tries: int, failed: str | None, deadline: _Deadline
    ) -> T:
        job = threads.Job(work)
        try:
            job.start()
            ended = deadline.wait(job)
        except RuntimeError as error:
            raise StateStoreError(
                f"`{kind}` needs a thread, and there is none: {error}",
                path,
                remedy="Raise the limit of processes and threads (ulimit -u)",
            ) from error
        except BaseException:  # a KeyboardInterrupt, for instance
            self._abandon(job, path, kind, deadline)
            raise
        if not ended and self._abandon(job, path, kind, deadline):
            again = "" if tries == 1 else f", the last of {tries} tries,"
            before = "" if failed is None else f". The try before it has failed with {failed}"
            raise FileSystemTimeoutError(
                f"the storage has not answered `{kind}`{again} within {self._timeout_s:g} s{before}",
                path,
                remedy=self._remedy(),
                tries=tries,
            )
        try:
            return job.result()
        except Exception:
            raise
        except BaseException as error:  # a panic of a client in Rust
            raise StateStoreError(
                f"the client has crashed in `{kind}`: {_said(error)}",
                path,
                remedy="Try again. If it crashes again, report it",
            ) from error

    def _abandon(self, job: threads.Job[T], path: str, kind: str, deadline: _Deadline) -> bool:
        """Leaves a call to its thread. Returns False if it has ended meanwhile."""
        written = tuple(self._written.paths)
        _hanging.add(self._identity, written)
        if not job.abandon(lambda: _hanging.remove(self._identity, written)):
            _hanging.remove(self._identity, written)
            return False
        deadline.abandon()
        log.warning("%s: %s hangs, and is left to a thread of its own", path, kind)
        return True

    def _raise_failed(self, kind: str, path: str, tries: int, deadline: _Deadline, error: Exception) -> NoReturn:
        again = "once" if tries == 1 else f"{tries} times"
        # A traceback would show the text of the error as it is.
        raise FileSystemTimeoutError(
            f"`{kind}` has failed {again} in {deadline.passed():.1f} s, at last with {_said(error)}",
            path,
            remedy=self._remedy(),
            tries=tries,
        ) from (None if _USER_INFO.search(str(error)) else error)

    def _remedy(self) -> str:
        by = "" if self.proxy is None else f" by the proxy {self.proxy}"
        return (
            f"Check that {self._identity} answers{by}. A larger hdfsstore.fs.timeout, or `timeout` of the storage "
            f"options, waits longer than {self._timeout_s:g} s"
        )

    def _count(self, kind: str, began: float, tries: int) -> None:
        self._requests.request(kind, time.monotonic() - began, retry=tries > 1)


class _Deadline:
    """Counts from the start of a call, or from its last progress."""

    def __init__(self, timeout_s: float, progress: Progress | None) -> None:
        self._timeout_s = timeout_s
        self._started = time.monotonic()
        self._progress = progress

    def passed(self) -> float:
        """The seconds since the start."""
        return time.monotonic() - self._started

    def left(self) -> float:
        """The seconds that are left; 0 or less if there are none."""
        since = self._started if self._progress is None else self._progress._at
        return since + self._timeout_s - time.monotonic()

    def wait(self, job: threads.Job[T]) -> bool:
        """Waits for the end of a call. Returns False if it has not ended in time."""
        while (left := self.left()) > 0:
            if job.wait(min(left, _INTERRUPTIBLE_S)):
                return True
        return False

    def abandon(self) -> None:
        if self._progress is not None:
            self._progress._abandoned = True


class _Written(threading.local):
    """The files that the thread is about to overwrite."""

    def __init__(self) -> None:
        self.paths: list[str] = []


class _Hanging:
    """The abandoned calls of this process that have not ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: Counter[str] = Counter()
        self._written: Counter[tuple[str, str]] = Counter()

    def add(self, identity: str, written: tuple[str, ...]) -> None:
        with self._lock:
            self._calls[identity] += 1
            self._written.update((identity, path) for path in written)

    def remove(self, identity: str, written: tuple[str, ...]) -> None:
        with self._lock:
            self._calls[identity] -= 1
            self._written.subtract((identity, path) for path in written)
            self._calls, self._written = +self._calls, +self._written

    def number(self, identity: str) -> int:
        with self._lock:
            return self._calls[identity]

    def holds(self, identity: str, path: str) -> bool:
        with self._lock:
            return self._written[identity, path] > 0

    def after_fork(self) -> None:
        """The threads are the parent's. Their writes may still land, and the child never hears of it."""
        self._lock = threading.Lock()
        self._calls = Counter()


_hanging = _Hanging()
os.register_at_fork(after_in_child=_hanging.after_fork)


def _said(error: BaseException) -> str:
    """The type and text of an error, without the user and password of a URL in it."""
    return f"{type(error).__name__}: {_USER_INFO.sub('', str(error))}"
