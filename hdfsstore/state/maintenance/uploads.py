"""Uploads the snapshots that maintenance makes, of any backend."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

from hdfsstore.errors import ImageDamagedError, StateStoreError
from hdfsstore.fs.publish import publish, remove
from hdfsstore.fs.reading import modified_at
from hdfsstore.state.maintenance.retries import Retries
from hdfsstore.state.metrics import MaintenanceMetrics
from hdfsstore.state.versions.cached import CachedVersion
from hdfsstore.state.versions.digest import DigestedPieces
from hdfsstore.state.versions.files import StateFiles
from hdfsstore.state.versions.lineages import Lineages
from hdfsstore.state.versions.reader import VersionReader

log = logging.getLogger("hdfsstore.state.uploads")


class Uploads:
    """Uploads snapshots of one store. One thread at a time.

    Args:
        reader: of the store's files; it says where and how they are written.
        lineages: notes the snapshots.
        metrics: counts the snapshots.
        wait: seconds without an upload after one has failed, see Retries.
    """

    def __init__(self, reader: VersionReader, lineages: Lineages, metrics: MaintenanceMetrics, wait: float) -> None:
        self._reader = reader
        self._lineages = lineages
        self._metrics = metrics
        self._retries = Retries(log, f"{reader.folder}: no snapshot", wait)

    @property
    def is_put_off(self) -> bool:
        """Whether it is too early for another upload after a failure."""
        return self._retries.is_put_off

    def upload(self, version: CachedVersion, content: Iterator[bytes]) -> bool:
        """Writes the snapshot of a version. A failure is logged and counted; the store goes on with deltas.

        Args:
            content: of the file.

        Raises:
            ImageDamagedError: the content comes from a damaged image.
        """
        try:
            self._upload(version, content)
        except ImageDamagedError:
            raise
        except StateStoreError as error:
            self.failed(error, version)
            return False
        self._retries.succeeded()
        return True

    def failed(self, error: StateStoreError, version: CachedVersion) -> None:
        """Logs and counts that a version gets no snapshot."""
        self._metrics.snapshots_failed += 1
        self._retries.failed(error, f"{self._reader.folder}: no snapshot of version {version.id[0]}")

    def _upload(self, version: CachedVersion, content: Iterator[bytes]) -> None:
        started = time.monotonic()
        self._lineages.note_attempt(version.id)
        path = self._reader.path(version.id, "snapshot")
        has_id = version.id[1] is not None
        pieces = DigestedPieces(content, "snapshot", has_id=has_id)
        publish(self._reader.fs, path, pieces, overwrite=True, unique_name=has_id)
        # Without ids another attempt may have replaced the delta meanwhile. It then looks for this snapshot, and this
        # looks for its delta now: the later of the two finds the other.
        if not self._reader.is_unchanged(version.id, version.digest):
            listing = StateFiles.list(self._reader.fs, self._reader.folder, self._reader.format.extensions)
            if not listing.needs_snapshot(version.id[0]):
                remove(self._reader.fs, [path])
            raise StateStoreError(
                f"another attempt at version {version.id[0]} has replaced the one of this snapshot", path
            )
        modified = 0 if has_id else modified_at(self._reader.fs, path)
        self._lineages.note_snapshot(version.id, pieces.digest(modified))
        seconds = time.monotonic() - started
        self._metrics.snapshots_uploaded += 1
        self._metrics.snapshot_bytes += pieces.size
        self._metrics.snapshot_seconds += seconds
        self._metrics.last_snapshot = max(self._metrics.last_snapshot, version.id[0])
        log.info("%s: %d bytes after %.3f s", path, pieces.size, seconds)
