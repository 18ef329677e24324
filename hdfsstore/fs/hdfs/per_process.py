"""One client in each process: those of HDFS do not survive a fork."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from hdfsstore.fs.hdfs.client import HdfsClient


class PerProcess:
    """Makes a client when a process first needs one. Any number of threads may use it."""

    def __init__(self, make: Callable[[], HdfsClient]) -> None:
        self._make = make
        self._mine = _OfOneProcess()

    def get(self) -> HdfsClient:
        """The client of this process."""
        if self._mine.pid != os.getpid():
            self._mine = _OfOneProcess()  # a thread of the parent may hold its lock
        mine = self._mine
        with mine.lock:
            if mine.client is None:
                mine.client = self._make()
            return mine.client

    def forget(self, client: HdfsClient) -> None:
        """Has the next call make a new client, if this one has not been replaced already.

        It does not wait for another thread that makes a client, which may hang. At worst one more client is made.
        """
        mine = self._mine
        if mine.client is client:
            mine.client = None


class _OfOneProcess:
    def __init__(self) -> None:
        self.pid = os.getpid()
        self.lock = threading.Lock()
        self.client: HdfsClient | None = None
