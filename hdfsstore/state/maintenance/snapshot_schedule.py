"""Decides when a version gets a snapshot.

A snapshot is due once more than min_deltas_for_snapshot deltas follow the last one. The count is for the version that
was committed last on top of the one that the driver asked for, as Spark counts from the newest file
(HDFSBackedStateStoreProvider.doSnapshot). If this provider has committed several attempts at that version, the next
batch tells which one the driver has taken. If no batch comes in time, all attempts get a snapshot: a guess that is
always wrong would leave the store without any.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic

from hdfsstore.state.conf import StateStoreConf
from hdfsstore.state.versions.cached import CachedVersions, V

# Seconds to wait for the next batch if there is no maintenance interval.
_WAIT = 60.0


class Schedule(Generic[V]):
    """Picks the versions of a store that get a snapshot. One thread at a time."""

    def __init__(self, conf: StateStoreConf, cached: CachedVersions[V]) -> None:
        self._conf = conf
        self._cached = cached
        self._unclear: tuple[int, float] | None = None  # a version with several attempts, and since when

    def due(self, now: float, versions: Sequence[V]) -> list[V]:
        """The versions that get a snapshot now: one, or all attempts of one.

        Args:
            now: on time.monotonic.
            versions: the candidates.
        """
        driver_version = self._cached.driver_version
        if driver_version is None:
            return []
        built = ((), (driver_version,))
        attempts = [
            version
            for version in versions
            if version.committed and version.id[0] == driver_version[0] + 1 and version.lineage[-1:] in built
        ]
        newest = attempts or [version for version in versions if version.id == driver_version]
        due = [v for v in newest if self._cached.lineages.deltas_since_snapshot(v) > self._conf.min_deltas_for_snapshot]
        if len(newest) < 2 or not due:
            self._unclear = None
            return due
        number = newest[0].id[0]
        if self._unclear is None or self._unclear[0] != number:
            self._unclear = number, now
        return due if now - self._unclear[1] >= (self._conf.maintenance_interval or _WAIT) else []
