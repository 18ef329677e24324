"""Runs the background work of all providers of a process, of any backend, in one daemon thread.

Spark's MaintenanceTask (StateStore.scala) has a pool. Here the work runs in short steps without the interpreter lock,
and one thread keeps it from taking all cores; a second one helps while a snapshot is written.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
import weakref
from typing import Protocol

from hdfsstore.state.maintenance.throttle import lower_priority
from hdfsstore.state.store_id import StateStoreId

log = logging.getLogger("hdfsstore.state.maintenance")

# Seconds for which a provider's close waits for a run under way. A run checks between two steps, of milliseconds each,
# whether it is to end; only a filesystem that hangs takes longer.
CLOSE_TIMEOUT = 30.0
# The same when the process ends.
_EXIT_TIMEOUT = 5.0
# A condition has a longest wait.
_LONGEST_WAIT = 3600.0


class Maintained(Protocol):
    """The parts of a provider that the thread needs."""

    @property
    def id(self) -> StateStoreId: ...

    def do_maintenance(self) -> None: ...


class _Entry:
    def __init__(self, provider: Maintained, interval: float, due: float) -> None:
        self.provider = weakref.ref(provider)
        self.interval = interval
        self.due = due  # on time.monotonic


class Maintenance:
    """Runs do_maintenance of each registered provider again and again, one at a time.

    It has weak references to the providers. The first `ensure` starts the thread. The thread ends when no provider is
    left, and the next `ensure` starts another one. A forked child begins with no provider and no thread: the providers
    that it uses register again, and the others stay the parent's.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forgets all providers and the thread, as in a forked child, which has no other thread."""
        self._changed = threading.Condition(threading.Lock())
        self._entries: dict[int, _Entry] = {}
        self._thread: threading.Thread | None = None
        self._under_way: _Entry | None = None
        self._ending = False

    @property
    def ending(self) -> bool:
        """Whether the process ends: a run under way should then end soon."""
        return self._ending

    def ensure(self, provider: Maintained, interval: float, *, soon: bool = False) -> None:
        """Registers the provider to be maintained every `interval` seconds, first after one interval.

        Cheap if the provider is registered already: providers call it whenever they open a store. 0 means never.

        Args:
            soon: whether the next run should start now and not at the end of the interval.
        """
        if interval <= 0:
            return
        with self._changed:
            entry = self._entries.get(id(provider))
            if entry is None or entry.provider() is not provider:
                entry = self._entries[id(provider)] = _Entry(provider, interval, time.monotonic() + interval)
                self._changed.notify_all()
            if soon and entry is not self._under_way:
                entry.due = min(entry.due, time.monotonic())
                self._changed.notify_all()
            if self._thread is None and not self._ending:
                self._start()

    def forget(self, provider: Maintained, timeout: float = CLOSE_TIMEOUT) -> bool:
        """Removes the provider, and waits for a run of it that is under way.

        Args:
            timeout: seconds to wait at most. A call from within the run itself does not wait.

        Returns:
            Whether no run is under way.
        """
        with self._changed:
            entry = self._entries.get(id(provider))
            if entry is not None and entry.provider() is provider:
                del self._entries[id(provider)]
                self._changed.notify_all()
            own = self._thread is threading.current_thread()
            ended = self._changed.wait_for(lambda: not self._runs(provider), 0 if own else timeout)
        if not own and not ended:
            log.warning("%s: maintenance still runs after %s s; it is left to end by itself", provider.id, timeout)
        return ended

    def end(self) -> None:
        """Ends the thread after the run under way. The interpreter must not end while a thread writes files."""
        with self._changed:
            self._ending = True
            self._entries.clear()
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._thread is None, _EXIT_TIMEOUT)

    def _runs(self, provider: Maintained) -> bool:
        return self._under_way is not None and self._under_way.provider() is provider

    def _start(self) -> None:
        thread = threading.Thread(target=self._run, name="hdfsstore-maintenance", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # no more threads, or the interpreter ends: stores work without, and try again
            log.warning("no maintenance in the background: %s", error)
        else:
            self._thread = thread

    def _run(self) -> None:
        lower_priority()
        while (entry := self._next()) is not None:
            self._maintain(entry)
            with self._changed:
                self._under_way = None
                entry.due = time.monotonic() + entry.interval
                self._changed.notify_all()

    def _next(self) -> _Entry | None:
        """Waits for the next entry that is due, and marks it as under way; None: there is no provider left."""
        with self._changed:
            while True:
                gone = [key for key, entry in self._entries.items() if entry.provider() is None]
                for key in gone:
                    del self._entries[key]
                if not self._entries:
                    self._thread = None
                    self._changed.notify_all()
                    return None
                entry = min(self._entries.values(), key=lambda entry: entry.due)
                left = entry.due - time.monotonic()
                if left <= 0:
                    self._under_way = entry
                    return entry
                self._changed.wait(min(left, _LONGEST_WAIT))

    def _maintain(self, entry: _Entry) -> None:
        provider = entry.provider()
        if provider is None:
            return
        try:
            provider.do_maintenance()
        except Exception:  # an error of one provider must not stop the others
            log.exception("%s: maintenance failed; it is tried again in %s s", provider.id, entry.interval)


maintenance = Maintenance()
os.register_at_fork(after_in_child=maintenance.reset)
atexit.register(maintenance.end)
