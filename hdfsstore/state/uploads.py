"""Publishes snapshots that maintenance makes, of any backend."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

from hdfsstore._cext.crc32c import crc32c
from hdfsstore.errors import ImageDamagedError, StateStoreError
from hdfsstore.fs import modified_at
from hdfsstore.publish import publish, remove
from hdfsstore.state.digest import FileDigest
from hdfsstore.state.files import StateFiles
from hdfsstore.state.held import Held
from hdfsstore.state.lineages import Lineages
from hdfsstore.state.metrics import MaintenanceMetrics
from hdfsstore.state.reader import VersionReader

log = logging.getLogger(__name__)


class Uploads:
    """Uploads snapshots of one store. One thread at a time.

    Args:
        files: where, and how.
        lineages: is told of them.
        metrics: counts them.
    """

    def __init__(self, files: VersionReader, lineages: Lineages, metrics: MaintenanceMetrics) -> None:
        self._files = files
        self._lineages = lineages
        self._metrics = metrics

    def upload(self, version: Held, content: Iterator[bytes]) -> bool:
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
        except StateStoreError:
            self._metrics.snapshots_failed += 1
            what = f"{self._files.folder}: no snapshot of version {version.id[0]}; the next run tries again"
            log.warning(what, exc_info=True)
            return False
        return True

    def _upload(self, version: Held, content: Iterator[bytes]) -> None:
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
            raise StateStoreError(f"another run of version {version.id[0]} has replaced the one it was made of", path)
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
