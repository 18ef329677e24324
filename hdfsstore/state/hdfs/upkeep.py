"""One run of a provider's maintenance: snapshots, then the clean-up that they allow."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from hdfsstore.state.hdfs.metrics import MaintenanceMetrics
from hdfsstore.state.hdfs.retention import Retention
from hdfsstore.state.hdfs.snapshots import Snapshots
from hdfsstore.state.hdfs.versions import Versions
from hdfsstore.state.maintenance import maintenance
from hdfsstore.state.pace import Pace, Stopped

log = logging.getLogger(__name__)


class Upkeep:
    """The maintenance of one provider. Threads share it: one runs, the others wait.

    Args:
        clean_images: cleans the cache of local images.
        metrics: counts what is done.
    """

    def __init__(
        self,
        versions: Versions,
        snapshots: Snapshots,
        retention: Retention,
        clean_images: Callable[[], None],
        metrics: MaintenanceMetrics,
    ) -> None:
        self._versions = versions
        self._snapshots = snapshots
        self._retention = retention
        self._clean_images = clean_images
        self._stopped = False
        self._metrics = metrics
        self.after_fork()

    def stop(self) -> None:
        """A run under way ends soon, and later ones do nothing."""
        self._stopped = True

    def after_fork(self) -> None:
        """In a forked child: no thread is left that could hold the lock."""
        self._one_run = threading.Lock()

    def run(self, now: float | None = None) -> None:
        """Snapshots and images that are due, the clean-up, and the local images' own.

        Args:
            now: on time.monotonic; None: it is asked.

        Raises:
            StateStoreError: the clean-up failed; a snapshot that failed is logged and counted only.
        """
        with self._one_run:
            pace = Pace(lambda: self._stopped or maintenance.ending)
            try:
                self._run(time.monotonic() if now is None else now, pace)
            except Stopped:
                log.debug("maintenance ends early, as the provider is closed")
            finally:
                self._metrics.seconds_waited += pace.seconds_waited

    def _run(self, now: float, pace: Pace) -> None:
        pace()
        for version_id in self._snapshots.run(now, pace):
            self._retention.note_snapshot(version_id)
        confirmed = self._versions.confirmed
        if confirmed is not None:
            lineages = (version.lineage for version in self._versions.held() if version.id == confirmed)
            self._retention.run(confirmed, next(lineages, ()), pace)
        self._clean_images()
