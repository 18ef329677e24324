"""Names what a provider counts: the work of maintenance, and the requests to the storage."""

from __future__ import annotations

from dataclasses import dataclass

from hdfsstore.fs.request_metrics import RequestCounts
from hdfsstore.state.store_id import StateStoreId


@dataclass(slots=True)
class MaintenanceMetrics:
    """Counters of one provider's maintenance since it was opened.

    Only the thread of a maintenance run writes them; commits write the two of their own.

    Attributes:
        snapshots_uploaded, snapshots_failed: snapshots; each failed attempt counts.
        snapshot_bytes: compressed bytes of the uploaded ones.
        snapshot_seconds: time of the uploads, with waits for commits.
        last_snapshot: version of the newest one; -1: none yet.
        images_built: new images in memory, with a snapshot or without.
        image_seconds: time of their merges.
        images_committed, image_commit_seconds: the same for images that commits have made.
        files_deleted: files that the clean-up has deleted, without checksum files.
        cleanups_failed: clean-ups of the checkpoint or the local disk that ended with an error.
        listings: of the store's folder.
        cleanups_put_off: clean-ups that deleted nothing because the oldest retained version was not certain.
        runs_failed: maintenance runs with any failure.
        seconds_waited: time that maintenance has waited for commits.
    """

    snapshots_uploaded: int = 0
    snapshots_failed: int = 0
    snapshot_bytes: int = 0
    snapshot_seconds: float = 0.0
    last_snapshot: int = -1
    images_built: int = 0
    image_seconds: float = 0.0
    images_committed: int = 0
    image_commit_seconds: float = 0.0
    files_deleted: int = 0
    cleanups_failed: int = 0
    listings: int = 0
    cleanups_put_off: int = 0
    runs_failed: int = 0
    seconds_waited: float = 0.0

    def named(self, store_id: StateStoreId) -> dict[str, int | float]:
        """By the names of a provider's metrics. The last snapshot's name is Spark's (StateStore.scala)."""
        return {
            "snapshotsUploaded": self.snapshots_uploaded,
            "snapshotsFailed": self.snapshots_failed,
            "snapshotBytes": self.snapshot_bytes,
            "snapshotMs": round(self.snapshot_seconds * 1e3),
            f"SnapshotLastUploaded.partition_{store_id.partition_id}_{store_id.store_name}": self.last_snapshot,
            "imagesBuilt": self.images_built + self.images_committed,
            "imageMs": round((self.image_seconds + self.image_commit_seconds) * 1e3),
            "filesDeleted": self.files_deleted,
            "folderListings": self.listings,
            "cleanupsFailed": self.cleanups_failed,
            "cleanupsPutOff": self.cleanups_put_off,
            "maintenanceRunsFailed": self.runs_failed,
            "maintenanceWaitedMs": round(self.seconds_waited * 1e3),
        }


def named_requests(counts: RequestCounts) -> dict[str, int | float]:
    """Requests by the names of a provider's metrics. The kinds are the FileManager's."""
    return {
        "fsRequests": sum(counts.requests.values()),
        **{f"fsRequests.{kind}": number for kind, number in counts.requests.items()},
        "fsRetries": counts.retries,
        "fsBytesRead": counts.bytes_read,
        "fsBytesWritten": counts.bytes_written,
        "fsRequestMs": round(counts.ms),
    }
