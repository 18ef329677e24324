"""Makes zips of versions in the background; state/maintenance/snapshot_schedule.py says when one is due.

A commit waits only while RocksDB links the files of a checkpoint and writes the updates since the flush before it.
"""

from __future__ import annotations

from contextlib import ExitStack

from hdfsstore.errors import StateStoreError
from hdfsstore.state.conf import StateStoreConf
from hdfsstore.state.maintenance.snapshot_schedule import Schedule
from hdfsstore.state.maintenance.uploads import Uploads
from hdfsstore.state.metrics import MaintenanceMetrics
from hdfsstore.state.rocksdb.archive_upload import Step, Zips
from hdfsstore.state.rocksdb.cached_versions import RocksDbVersions
from hdfsstore.state.rocksdb.transaction import RocksDbVersion
from hdfsstore.state.versions.files import VersionId


class RocksDbSnapshots:
    """Makes the zips of one provider. One thread at a time."""

    def __init__(
        self, zips: Zips, conf: StateStoreConf, versions: RocksDbVersions, metrics: MaintenanceMetrics
    ) -> None:
        self._zips = zips
        self._versions = versions
        self._schedule: Schedule[RocksDbVersion] = Schedule(conf, versions)
        self._uploads = Uploads(zips.reader, versions.lineages, metrics, conf.maintenance_interval)

    def run(self, now: float, step: Step) -> list[VersionId]:
        """Writes the zips that are due. A version that is no longer its RocksDB's tip waits for the next run.

        Args:
            now: on time.monotonic.
            step: called between two blocks.

        Returns:
            The versions that have a zip now.
        """
        due = [] if self._uploads.is_put_off else self._schedule.due(now, self._versions.cached())
        return [version.id for version in due if self._work(version, step)]

    def is_due(self) -> bool:
        """Never: RocksDB has its state on disk, and a zip is best made while no batch builds on its version."""
        return False

    def is_overdue(self) -> bool:
        """Never, likewise."""
        return False

    def _work(self, version: RocksDbVersion, step: Step) -> bool:
        instance = version.instance
        with ExitStack() as stack:
            try:
                instance.flush()
                step()
                with instance.lock:
                    if instance.tip != version.id:
                        return False
                    folder = stack.enter_context(instance.checkpoint())
            except StateStoreError as error:
                # RocksDB takes no more writes after a failed one: the next version is loaded into another instance.
                with instance.lock:
                    instance.tip = None
                self._uploads.failed(error, version)
                return False
            content = self._zips.content(instance, folder, version.num_keys, version.id, step)
            return self._uploads.upload(version, content)
