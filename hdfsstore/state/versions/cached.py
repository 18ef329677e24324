"""The versions of one store that are held at hand, of any backend."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

from hdfsstore.state.versions import lineages
from hdfsstore.state.versions.digest import FileDigest
from hdfsstore.state.versions.files import VersionId
from hdfsstore.state.versions.lineages import MAX_ATTEMPTS, Lineages


class CachedVersion(lineages.Version, Protocol):
    """A version that can be used without loading it. It stays readable for whoever has it."""

    @property
    def digest(self) -> FileDigest | None:
        """Of its file; None where the unique id tells enough, and for version 0."""


V = TypeVar("V", bound=CachedVersion)


class CachedVersions(ABC, Generic[V]):
    """Which versions are at hand: of the last `max_retained` version numbers that were used, every attempt.

    Threads share it. Nothing here takes long under the lock.

    Attributes:
        driver_version: the (version, id) at which a store was opened last, which the driver chose. It and its lineage
            are committed for sure; other attempts of the same version number have lost. None: no store was opened yet.
        lineages: the lineages of the versions.
    """

    def __init__(self, max_retained: int) -> None:
        self.driver_version: VersionId | None = None
        self.lineages = Lineages()
        self._max_retained = max_retained
        self._cached: dict[VersionId, V] = {}
        self._recent: list[int] = []  # version numbers, the one used last at the end
        self._lock = threading.Lock()

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of memory that the versions take."""

    def cached(self) -> list[V]:
        """All that are held, by version number; attempts of one number in the order of their commits."""
        with self._lock:
            return sorted(self._cached.values(), key=lambda version: version.id[0])

    def lineage_of(self, version_id: VersionId) -> tuple[VersionId, ...]:
        """What the version is built on, where it is held; else nothing."""
        held = self._cached.get(version_id)
        return () if held is None else held.lineage

    def find(self, version_id: VersionId) -> V | None:
        """The version if it is held."""
        return self._cached.get(version_id)

    def use(self, version: V) -> None:
        """The version was used, and is let go of later than others."""
        with self._lock:
            if version.id in self._cached:
                self._use(version.id[0])

    def add(self, version: V) -> None:
        """Holds a version that was loaded."""
        with self._lock:
            self._hold(version)

    def drop(self, version: V) -> None:
        """Lets go of a version, as its file has changed, and of those without ids after it."""
        with self._lock:
            if self._cached.get(version.id) is version:
                self._forget(v for v in self._cached if v == version.id or (v[1] is None and v[0] > version.id[0]))

    def release(self) -> None:
        """Lets go of all until a version is asked for, none of which is the one that the driver named last."""
        with self._lock:
            self.driver_version = None
            self._forget(self._cached)

    def clear(self) -> None:
        """Lets go of all, and holds nothing any more, whoever commits later."""
        with self._lock:
            self._max_retained = 0
            self._cached.clear()
            self._recent.clear()

    def after_fork(self) -> None:
        """In a forked child: no thread is left that could hold a lock."""
        self.lineages.after_fork()
        self._lock = threading.Lock()

    def _hold(self, version: V) -> None:
        number = version.id[0]
        if version.committed and version.id[1] is None:  # what is newer builds on an earlier run
            self._forget(v for v in self._cached if v[0] > number and v[1] is None)
        self._cached[version.id] = version
        self._use(number)
        attempts = [v for v in self._cached if v[0] == number and v != self.driver_version]
        self._forget(attempts[:-MAX_ATTEMPTS])

    def _use(self, number: int) -> None:
        if number in self._recent:
            self._recent.remove(number)
        self._recent.append(number)
        over = set(self._recent[: max(0, len(self._recent) - self._max_retained)])
        if over:
            self._forget(v for v in self._cached if v[0] in over)

    def _forget(self, ids: Iterable[VersionId]) -> None:
        for version_id in list(ids):
            del self._cached[version_id]
        left = {v[0] for v in self._cached}
        self._recent = [number for number in self._recent if number in left]
