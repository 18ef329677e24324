"""Counts the round trips that a client makes one after the other, whatever the machine's speed."""

from __future__ import annotations

import threading
import time

from tests.services.fault_proxy import Fault, FaultProxy

_QUIET_S = 1.0


class Rounds:
    """Holds each request for as long as it takes a client to make all that it makes at the same time.

    Attributes:
        count: so many times requests were let through.
    """

    def __init__(self, proxy: FaultProxy) -> None:
        self.count = 0
        self._gate: threading.Event | None = None
        self._lock = threading.Lock()
        proxy.plan(Fault("delay", times=1 << 30, before=self._hold))

    def _hold(self) -> None:
        with self._lock:
            gate, opens = self._gate, self._gate is None
            if gate is None:
                gate = self._gate = threading.Event()
                self.count += 1
        if opens:
            time.sleep(_QUIET_S)
            with self._lock:
                self._gate = None
            gate.set()
        gate.wait()
