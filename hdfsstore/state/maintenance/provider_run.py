"""Runs a provider's maintenance: snapshots and images, then the clean-up of the checkpoint and the local disk."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from hdfsstore.state.maintenance.retention import Retention
from hdfsstore.state.maintenance.retries import Retries
from hdfsstore.state.maintenance.scheduler import maintenance
from hdfsstore.state.maintenance.throttle import Stopped, Throttle
from hdfsstore.state.metrics import MaintenanceMetrics
from hdfsstore.state.versions.cached import CachedVersions
from hdfsstore.state.versions.files import VersionId

log = logging.getLogger("hdfsstore.state.provider_run")


class Snapshots(Protocol):
    """Makes the snapshots of one provider."""

    def run(self, now: float, step: Callable[[], None], /) -> list[VersionId]:
        """Writes the snapshots that are due, and returns their versions. `step` is called between two chunks."""

    def is_due(self) -> bool:
        """Whether a run would write something for the version that the driver asked for last."""

    def is_overdue(self) -> bool:
        """Whether it is due for so long that the next batch has to wait for it."""


class MaintenanceRun:
    """The maintenance of one provider. Threads share it; one runs while the others wait.

    Args:
        versions: the cached ones.
        clean: cleans the local disk.
        wait: seconds before failed work is tried again, see Retries.

    Attributes:
        metrics: counts the work.
    """

    def __init__(
        self,
        versions: CachedVersions[Any],
        snapshots: Snapshots,
        retention: Retention,
        clean: Callable[[], None],
        metrics: MaintenanceMetrics,
        wait: float,
    ) -> None:
        self._versions = versions
        self._snapshots = snapshots
        self._retention = retention
        self._clean = clean
        self._making = Retries(log, f"{retention.folder}: no snapshots and images are made", wait)
        self._deleting = Retries(log, f"{retention.folder}: the clean-up ended early", wait)
        self._tidying = Retries(log, "the local disk is not cleaned", wait)
        self._stopped = False
        self.metrics = metrics
        self.after_fork()

    def stop(self) -> None:
        """Makes a run under way end soon, and later ones do nothing."""
        self._stopped = True

    def after_fork(self) -> None:
        """In a forked child: no thread is left that could hold the lock."""
        self._one_run = threading.Lock()

    @property
    def is_running(self) -> bool:
        """Whether a run is under way."""
        return self._one_run.locked()

    def is_due(self) -> bool:
        """Whether a run should start before the interval ends. Costs microseconds."""
        return not self._making.is_put_off and self._snapshots.is_due()

    def is_overdue(self) -> bool:
        """Whether the next batch has to wait for a run. Costs microseconds."""
        return not self._making.is_put_off and self._snapshots.is_overdue()

    def run(self, now: float | None = None) -> None:
        """Makes the snapshots that are due, and cleans the checkpoint and the local disk.

        A failure is logged, counted and tried again, and queries go on. A failure of one of the three does not stop the
        others.

        Args:
            now: on time.monotonic; None: the current time.
        """
        with self._one_run:
            before = self.metrics.snapshots_failed, self.metrics.cleanups_failed
            throttle = Throttle(lambda: self._stopped or maintenance.ending)
            try:
                self._run(time.monotonic() if now is None else now, throttle)
            except Stopped:
                log.debug("maintenance ends early, as the provider is closed")
            finally:
                self.metrics.seconds_waited += throttle.seconds_waited
                after = self.metrics.snapshots_failed, self.metrics.cleanups_failed
                self.metrics.runs_failed += after != before

    def _run(self, now: float, throttle: Throttle) -> None:
        throttle()
        if not _tried(self._making, lambda: self._make(now, throttle)):
            self.metrics.snapshots_failed += 1
        for retries, work in ((self._deleting, lambda: self._delete(throttle)), (self._tidying, self._clean)):
            if not _tried(retries, work):
                self.metrics.cleanups_failed += 1

    def _make(self, now: float, throttle: Throttle) -> None:
        for version_id in self._snapshots.run(now, throttle):
            self._retention.note_snapshot(version_id)

    def _delete(self, throttle: Throttle) -> None:
        driver_version = self._versions.driver_version
        if driver_version is not None:
            self._retention.run(driver_version, self._versions.lineage_of(driver_version), throttle)


def _tried(retries: Retries, work: Callable[[], None]) -> bool:
    """Does the work, unless it is put off. Returns False if it has failed."""
    if retries.is_put_off:
        return True
    try:
        work()
    except Stopped:
        raise
    except Exception as error:  # noqa: BLE001  # `failed` logs it, and the batch goes on
        retries.failed(error)
        return False
    retries.succeeded()
    return True
