"""Gets versions of a store to hand, of any backend: one that is held is used, if it is still what it was.

With unique ids an id says all: files under it never change. Without (checkpoint format version 1) a file may have been
replaced by another run's since: it is read and compared with what it was.
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
        counts: where hits and misses are counted.
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
        """The version, which is held from now on.

        Raises:
            BatchNotAvailableError, MissingFileError: the files that make up the version are not there.
            CorruptFileError: one of them is damaged.
        """
        held = self._cached_version(version_id)
        if held is None:
            with self._loading:
                held = self._cached_version(version_id)  # another thread may have loaded it meanwhile
                if held is None:
                    if version_id == EMPTY:
                        return self._empty()
                    self._counts["loadedMapCacheMissCount"] += 1
                    return self._loaded(version_id)
        self._counts["loadedMapCacheHitCount"] += 1
        self._versions.use(held)
        return held

    @abstractmethod
    def _empty(self) -> V:
        """Version 0, held."""

    @abstractmethod
    def _loaded(self, version_id: VersionId) -> V:
        """A version that is not held, held."""

    def _cached_version(self, version_id: VersionId) -> V | None:
        held = self._versions.find(version_id)
        if held is None or self._reader.is_unchanged(version_id, held.digest):
            return held
        log.warning(
            "%s: version %d was written anew by somebody: it is loaded again", self._reader.folder, version_id[0]
        )
        self._versions.drop(held)
        return None
