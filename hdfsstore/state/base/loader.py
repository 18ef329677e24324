"""Loads versions of a store, of any backend, or takes them from the cache if their files have not changed.

Files with a unique id never change. A file without one (checkpoint format version 1) may have been replaced by another
attempt: it is read and compared with its digest.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections import Counter
from typing import Generic

from hdfsstore.state.versions.cached import CachedVersions, V
from hdfsstore.state.versions.files import VersionId
from hdfsstore.state.versions.lineages import EMPTY
from hdfsstore.state.versions.reader import VersionReader

log = logging.getLogger("hdfsstore.state.loader")


class Loader(ABC, Generic[V]):
    """Loads versions of one store. Threads may share it; one of them loads at a time.

    Args:
        reader: of the store's files.
        versions: the cached ones.
        counts: counts hits and misses.
    """

    def __init__(self, reader: VersionReader, versions: CachedVersions[V], counts: Counter[str]) -> None:
        self._reader = reader
        self._versions = versions
        self._counts = counts
        self.after_fork()

    def after_fork(self) -> None:
        """In a forked child: no thread is left that could hold the lock."""
        self._loading = threading.Lock()

    def load(self, version_id: VersionId) -> V:
        """Returns the version, and caches it.

        Raises:
            BatchNotAvailableError, MissingFileError: the files that make up the version are not there.
            CorruptFileError: one of them is damaged.
        """
        version = self._find_unchanged(version_id)
        if version is None:
            with self._loading:
                version = self._find_unchanged(version_id)  # another thread may have loaded it meanwhile
                if version is None:
                    if version_id == EMPTY:
                        return self._load_empty()
                    self._counts["loadedMapCacheMissCount"] += 1
                    return self._load(version_id)
        self._counts["loadedMapCacheHitCount"] += 1
        self._versions.use(version)
        return version

    @abstractmethod
    def _load_empty(self) -> V:
        """Makes version 0, and caches it."""

    @abstractmethod
    def _load(self, version_id: VersionId) -> V:
        """Loads a version, and caches it."""

    def _find_unchanged(self, version_id: VersionId) -> V | None:
        """The cached version; None where it is not cached, or its file has changed since."""
        version = self._versions.find(version_id)
        if version is None or self._reader.is_unchanged(version_id, version.digest):
            return version
        log.warning(
            "%s: another attempt has written version %d: it is loaded again", self._reader.folder, version_id[0]
        )
        self._versions.drop(version)
        return None
