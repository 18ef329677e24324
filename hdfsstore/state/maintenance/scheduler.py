"""The background work of all providers of a process, of any backend, in one daemon thread.

Spark's MaintenanceTask (StateStore.scala) has a pool; here the work runs without the interpreter lock in short windows,
and one thread, which a second one helps while a snapshot is written, keeps it from taking all cores.
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

# How long a provider's close waits (seconds) for a run that is under way. A run looks between two windows, of
# milliseconds each, whether it is to end; only a filesystem that hangs takes longer.
CLOSE_TIMEOUT = 30.0
# The same where the process ends.
_EXIT_TIMEOUT = 5.0
# A condition cannot wait for ever so long.
_LONGEST_WAIT = 3600.0


class Maintained(Protocol):
    """What the thread needs of a provider."""

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

    Providers are held weakly. The first `ensure` starts the thread; it ends when there is no provider left, and the
    next `ensure` starts another. A forked child begins with no provider and no thread: those that it uses register
    again, and the ones that it only inherited stay the parent's.
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forgets all providers and the thread, as a forked child does, where no other thread runs on."""
        self._changed = threading.Condition(threading.Lock())
        self._entries: dict[int, _Entry] = {}
        self._thread: threading.Thread | None = None
        self._under_way: _Entry | None = None
        self._ending = False

    @property
    def ending(self) -> bool:
        """Whether the process ends, so that a run under way should end soon."""
        return self._ending

    def ensure(self, provider: Maintained, interval: float, *, soon: bool = False) -> None:
        """Sees to it that the provider is maintained every `interval` seconds, first after one interval.

        Cheap where it is already so: providers call it whenever they open a store. An interval of 0 is never.

        Args:
            soon: there is work, which is not to wait for the end of the interval.
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
        """Maintains the provider no more; waits for a run of it that is under way.

        Args:
            timeout: seconds to wait at most. From within the run itself there is no waiting.

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
        """Ends the thread, after the run under way: the interpreter must not end under a thread that writes files."""
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
        except RuntimeError as error:  # no more threads, or the interpreter ends: stores work without, and ask again
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
        """The entry whose time has come, from now on under way; None when there is no provider left."""
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
        except Exception:  # whatever one provider's run raises, the others' go on
            log.exception("%s: maintenance failed; it is tried again in %s s", provider.id, entry.interval)


maintenance = Maintenance()
os.register_at_fork(after_in_child=maintenance.reset)
atexit.register(maintenance.end)
