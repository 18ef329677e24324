"""What maintenance has done, in numbers."""

from __future__ import annotations

from dataclasses import dataclass

from hdfsstore.state.store_id import StateStoreId


@dataclass(slots=True)
class MaintenanceMetrics:
    """Counters of one provider's maintenance since it was opened.

    Only the thread that maintains it writes them, and commits the two that are theirs.

    Attributes:
        snapshots_uploaded, snapshots_failed: snapshots; one that failed counts again at each try.
        snapshot_bytes: compressed bytes of those uploaded.
        snapshot_seconds: time they took, waiting for commits included.
        last_snapshot: version of the newest one, -1 where there was none.
        images_built: new images in memory, with a snapshot or without.
        image_seconds: time their merging took.
        images_committed, image_commit_seconds: the same of those that commits made.
        files_deleted: by the clean-up, checksum files not counted.
        cleanups_failed: clean-ups, of the checkpoint or the local disk, that ended with an error, at each try.
        listings: of the store's folder.
        cleanups_put_off: clean-ups that deleted nothing because the oldest retained version was not certain.
        runs_failed: runs in which any of it failed.
        seconds_waited: time that the work waited to let commits pass.
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
        """As a provider's metrics have them. The last snapshot's name is Spark's (StateStore.scala)."""
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
