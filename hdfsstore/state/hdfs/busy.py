"""Whether somebody waits for the store: background work looks here between its steps, and lets commits go first."""

from __future__ import annotations

import threading
from types import TracebackType


class Busy:
    """`with busy:` around the work that a caller waits for; background work calls wait_until_idle."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._idle = threading.Event()
        self._idle.set()

    def __enter__(self) -> None:
        with self._lock:
            self._count += 1
            self._idle.clear()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._count -= 1
            if not self._count:
                self._idle.set()

    def wait_until_idle(self, timeout: float) -> bool:
        """Returns as soon as nobody waits for the store, or after `timeout` seconds; whether it is idle."""
        return self._idle.wait(timeout)
