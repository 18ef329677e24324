"""When a version gets a snapshot.

One is due once more than min_deltas_for_snapshot deltas follow the last one, counted for the version that was committed
last on top of the one that the driver named, as Spark counts from the newest file
(HDFSBackedStateStoreProvider.doSnapshot). Where this provider has committed that version more than once, nobody knows
yet which attempt the driver takes: the next batch tells, and where none comes in time, all of them get a snapshot:
always taking the wrong one would leave the store without any.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic

from hdfsstore.state.conf import StateStoreConf
from hdfsstore.state.versions.cached import CachedVersions, V

# How long to wait for the next batch where there is no maintenance interval, in seconds.
_WAIT = 60.0


class Schedule(Generic[V]):
    """Tells which versions of a store are to get a snapshot. One thread at a time."""

    def __init__(self, conf: StateStoreConf, cached: CachedVersions[V]) -> None:
        self._conf = conf
        self._cached = cached
        self._unclear: tuple[int, float] | None = None  # a version with several attempts, and since when

    def due(self, now: float, versions: Sequence[V]) -> list[V]:
        """The versions that are to get a snapshot: one, or all attempts of one.

        Args:
            now: on time.monotonic.
            versions: that are at hand.
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
