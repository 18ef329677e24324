"""Publishes snapshots that maintenance makes, of any backend."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

from hdfsstore._cext.crc32c import crc32c
from hdfsstore.errors import ImageDamagedError, StateStoreError
from hdfsstore.fs import modified_at
from hdfsstore.publish import publish, remove
from hdfsstore.state.maintenance.retries import Retries
from hdfsstore.state.metrics import MaintenanceMetrics
from hdfsstore.state.versions.cached import CachedVersion
from hdfsstore.state.versions.digest import FileDigest
from hdfsstore.state.versions.files import StateFiles
from hdfsstore.state.versions.lineages import Lineages
from hdfsstore.state.versions.reader import VersionReader

log = logging.getLogger("hdfsstore.state.uploads")


class Uploads:
    """Uploads snapshots of one store. One thread at a time.

    Args:
        files: where, and how.
        lineages: is told of them.
        metrics: counts them.
        wait: seconds for which there is no upload after one failed, see Retries.
    """

    def __init__(self, files: VersionReader, lineages: Lineages, metrics: MaintenanceMetrics, wait: float) -> None:
        self._files = files
        self._lineages = lineages
        self._metrics = metrics
        self._retries = Retries(log, f"{files.folder}: no snapshot", wait)

    @property
    def is_put_off(self) -> bool:
        """Whether none is to be made now, as they failed lately."""
        return self._retries.is_put_off

    def upload(self, version: CachedVersion, content: Iterator[bytes]) -> bool:
        """Writes the snapshot of a version. A failure is logged and counted; the store goes on with deltas.

        Args:
            content: of the file.

        Raises:
            ImageDamagedError: by the content.
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
        """Says and counts that there is no snapshot of a version."""
        self._metrics.snapshots_failed += 1
        self._retries.failed(error, f"{self._files.folder}: no snapshot of version {version.id[0]}")

    def _upload(self, version: CachedVersion, content: Iterator[bytes]) -> None:
        begun = time.monotonic()
        self._lineages.note_attempt(version.id)
        path = self._files.path(version.id, "snapshot")
        size = checksum = 0

        def counted() -> Iterator[bytes]:
            nonlocal size, checksum
            for piece in content:
                size += len(piece)
                if version.id[1] is None:
                    checksum = crc32c(piece, checksum)
                yield piece

        publish(self._files.fs, path, counted(), overwrite=True, unique_name=version.id[1] is not None)
        # Without ids another run may have replaced the delta meanwhile. It looks for this snapshot after that, as this
        # looks for its delta now: whichever comes second finds the other.
        if not self._files.is_unchanged(version.id, version.digest):
            listing = StateFiles.list(self._files.fs, self._files.folder, self._files.format.extensions)
            if not listing.rests_on_snapshot(version.id[0]):
                remove(self._files.fs, [path])
            raise StateStoreError(
                f"another attempt at version {version.id[0]} has replaced that of this snapshot", path
            )
        digest = None
        if version.id[1] is None:
            digest = FileDigest("snapshot", size, checksum, modified_at(self._files.fs, path))
        self._lineages.note_snapshot(version.id, digest)
        seconds = time.monotonic() - begun
        self._metrics.snapshots_uploaded += 1
        self._metrics.snapshot_bytes += size
        self._metrics.snapshot_seconds += seconds
        self._metrics.last_snapshot = max(self._metrics.last_snapshot, version.id[0])
        log.info("%s: %d bytes after %.3f s", path, size, seconds)
