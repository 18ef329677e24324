"""One run of a provider's maintenance: snapshots, then the clean-up that they allow."""

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
    """What makes snapshots."""

    def run(self, now: float, step: Callable[[], None], /) -> list[VersionId]:
        """Writes those that are due; returns the versions that have one now. `step` is called between two chunks."""

    def is_due(self) -> bool:
        """Whether a run would write something for the version that the driver named last."""

    def is_overdue(self) -> bool:
        """Whether that should have been done long ago."""


class MaintenanceRun:
    """The maintenance of one provider. Threads share it: one runs, the others wait.

    Args:
        versions: the cached ones.
        clean: cleans what lies on the local disk.
        wait: seconds for which what failed is put off, see Retries.

    Attributes:
        metrics: counts what is done.
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
        """A run under way ends soon, and later ones do nothing."""
        self._stopped = True

    def after_fork(self) -> None:
        """In a forked child: no thread is left that could hold the lock."""
        self._one_run = threading.Lock()

    @property
    def is_running(self) -> bool:
        """Whether a run is under way."""
        return self._one_run.locked()

    def is_due(self) -> bool:
        """Whether a run should not wait for the interval's end. Costs microseconds."""
        return not self._making.is_put_off and self._snapshots.is_due()

    def is_overdue(self) -> bool:
        """Whether the next batch is to wait for a run. Costs microseconds."""
        return not self._making.is_put_off and self._snapshots.is_overdue()

    def run(self, now: float | None = None) -> None:
        """Snapshots that are due, the clean-up, and the local disk's own.

        What fails is logged, counted and tried again: queries go on without it. None of the three waits for another.

        Args:
            now: on time.monotonic; None: it is asked.
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
    """Does the work, unless it is put off. Returns whether it has not failed."""
    if retries.is_put_off:
        return True
    try:
        work()
    except Stopped:
        raise
    except Exception as error:  # noqa: BLE001  # it is logged there; whatever it is, the batch goes on
        retries.failed(error)
        return False
    retries.succeeded()
    return True
