"""Keeps the versions of one store that can be used without loading them, for any backend."""

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
        """Digest of its file; None for version 0, and for versions with a unique id, which need none."""


V = TypeVar("V", bound=CachedVersion)


class CachedVersions(ABC, Generic[V]):
    """The cached versions: all attempts of the `max_retained` version numbers that were used last.

    Threads share it. The lock is never held for long.

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
        """All cached versions, by version number; attempts of one number in the order of their commits."""
        with self._lock:
            return sorted(self._cached.values(), key=lambda version: version.id[0])

    def lineage_of(self, version_id: VersionId) -> tuple[VersionId, ...]:
        """The lineage of a cached version; empty where the version is not cached."""
        version = self._cached.get(version_id)
        return () if version is None else version.lineage

    def find(self, version_id: VersionId) -> V | None:
        """The version; None where it is not cached."""
        return self._cached.get(version_id)

    def use(self, version: V) -> None:
        """Notes that the version was used, so that others are dropped first."""
        with self._lock:
            if version.id in self._cached:
                self._use(version.id[0])

    def add(self, version: V) -> None:
        """Caches a version."""
        with self._lock:
            self._add(version)

    def drop(self, version: V) -> None:
        """Drops a version whose file has changed, and all newer versions without ids."""
        with self._lock:
            if self._cached.get(version.id) is version:
                self._forget(v for v in self._cached if v == version.id or (v[1] is None and v[0] > version.id[0]))

    def release(self) -> None:
        """Drops all cached versions, and forgets which one the driver asked for last."""
        with self._lock:
            self.driver_version = None
            self._forget(self._cached)

    def clear(self) -> None:
        """Drops all cached versions. Versions that are committed later are not cached."""
        with self._lock:
            self._max_retained = 0
            self._cached.clear()
            self._recent.clear()

    def after_fork(self) -> None:
        """In a forked child: no thread is left that could hold a lock."""
        self.lineages.after_fork()
        self._lock = threading.Lock()

    def _add(self, version: V) -> None:
        number = version.id[0]
        if version.committed and version.id[1] is None:  # newer ones build on an earlier attempt
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
