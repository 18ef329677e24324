"""Makes background work wait for the calls that a query waits for."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable

log = logging.getLogger("hdfsstore.state.throttle")

# Background work calls it between two chunks: a Throttle, or no_step.
Step = Callable[[], None]


def no_step() -> None:
    """The step of work that a query waits for: it does nothing."""


# Background work waits at most this multiple of the CPU time that it has used since its last wait. Beside calls without
# a pause it then takes three times as long as alone, and still ends.
_PATIENCE = 2.0
_NICE = 10


class Stopped(Exception):
    """The background work was told to end: its provider is being closed."""


class Foreground:
    """Counts the calls under way that a query waits for. Entered by every commit and every call on many keys.

    Threads share it; entering and leaving cost well below a microsecond.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forgets all calls. In a forked child none goes on: only the thread that forks is left."""
        self._lock = threading.Lock()
        self._count = 0
        self._idle = threading.Event()
        self._idle.set()

    def __enter__(self) -> None:
        with self._lock:
            self._count += 1
            if self._count == 1:
                self._idle.clear()

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._count = max(self._count - 1, 0)
            if not self._count:
                self._idle.set()

    @property
    def busy(self) -> bool:
        """Whether a call is under way."""
        return not self._idle.is_set()

    def wait_until_idle(self, timeout: float) -> bool:
        """Waits until no call is under way, at most `timeout` seconds. Returns whether none is."""
        return self._idle.wait(timeout)


foreground = Foreground()
os.register_at_fork(after_in_child=foreground.reset)


class Throttle:
    """The step of background work: it waits while calls of the query are under way, and raises Stopped at the end.

    Args:
        stopped: whether the work is to end.
        yields_to: the calls to wait for.
    """

    def __init__(self, stopped: Callable[[], bool], yields_to: Foreground = foreground) -> None:
        self._stopped = stopped
        self._foreground = yields_to
        self._thread = threading.get_ident()
        self._worked = time.thread_time()  # of that thread
        self.seconds_waited = 0.0

    def __call__(self) -> None:
        """Waits for the foreground. Raises Stopped if the work is to end."""
        thread, worked = threading.get_ident(), time.thread_time()
        if self._foreground.busy and thread == self._thread:  # another thread has a CPU time of its own
            begun = time.monotonic()
            self._foreground.wait_until_idle(_PATIENCE * (worked - self._worked))
            self.seconds_waited += time.monotonic() - begun
        self._thread, self._worked = thread, worked
        if self._stopped():
            raise Stopped


def lower_priority() -> bool:
    """Lowers the priority of the calling thread, if the system has priorities of threads (Linux).

    Returns:
        Whether it was lowered.
    """
    if not sys.platform.startswith("linux"):
        return False
    thread = threading.get_native_id()
    try:
        os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + _NICE)
        os.sched_setscheduler(thread, os.SCHED_BATCH, os.sched_param(0))
    except OSError as error:  # the steps are short enough without it
        log.debug("background work keeps the priority of the other threads: %s", error)
        return False
    return True
