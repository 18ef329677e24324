"""Knows which snapshots exist, and so where the lineages of a provider's versions begin."""

from __future__ import annotations

import threading
from typing import Protocol

from hdfsstore.codecs.lineage import LineageItem, fits, newest_that_fit
from hdfsstore.state.versions.digest import FileDigest
from hdfsstore.state.versions.files import VersionId

EMPTY: VersionId = (0, None)

# At most this many attempts of one version stay in memory: foreachBatch may commit a version again and again.
MAX_ATTEMPTS = 8


class Version(Protocol):
    """A version that a provider has in memory."""

    @property
    def id(self) -> VersionId:
        """Its number and, in checkpoint format version 2, its unique id."""

    @property
    def lineage(self) -> tuple[VersionId, ...]:
        """The versions from the presumed last snapshot up to the one before. Empty: the first one, or a snapshot."""

    @property
    def committed(self) -> bool:
        """Whether this provider wrote it."""


class Lineages:
    """The lineages of a store's versions. Threads share it."""

    def __init__(self) -> None:
        self._snapshots: dict[VersionId, FileDigest | None] = {}  # replaced as a whole
        self._attempts: frozenset[VersionId] = frozenset()
        self._noting = threading.Lock()

    def after_fork(self) -> None:
        """In a forked child: no thread is left that could hold the lock."""
        self._noting = threading.Lock()

    def lineage_after(self, base: Version) -> tuple[VersionId, ...]:
        """The lineage of a version on top of `base`: from the last snapshot known to exist up to `base`."""
        if base.id[0] == 0:
            return ()
        items = (*base.lineage, base.id)
        known = [i for i, item in enumerate(items) if item in self._snapshots]
        return items[known[-1] :] if known else items

    def deltas_since_snapshot(self, version: Version) -> int:
        """Number of deltas after the last snapshot that is known to exist, or that the lineage presumes."""
        if version.id[0] == 0:
            return 0
        first = self.lineage_after(version)[0]
        presumed_delta = first[0] == 1 and first not in self._snapshots
        return version.id[0] - first[0] + presumed_delta

    def pruned(self, lineage: list[LineageItem]) -> list[LineageItem]:
        """The part of the lineage that fits a header. The delta where it begins has the rest in its own lineage."""
        if fits(lineage):
            return lineage
        attempts = [i for i, item in enumerate(lineage) if self.was_attempted(item)]
        if attempts and fits(lineage[attempts[-1] :]):
            return lineage[attempts[-1] :]
        return newest_that_fit(lineage)

    def base_snapshot(self, version: Version) -> tuple[int, FileDigest] | None:
        """The newest known snapshot without an id below the version, and its digest; None: none is known."""
        for item in reversed(version.lineage):
            digest = self._snapshots.get(item)
            if digest is not None:
                return item[0], digest
        return None

    def note_snapshot(self, version_id: VersionId, digest: FileDigest | None = None) -> None:
        """Notes that a snapshot of the version was uploaded or loaded. Lineages begin with it from now on.

        Args:
            digest: of its file, where the version has no id.
        """
        with self._noting:
            kept = _with(frozenset(self._snapshots), version_id)
            self._snapshots = {**{item: self._snapshots.get(item) for item in kept}, version_id: digest}

    def note_removed(self, version_id: VersionId) -> None:
        """Notes that the snapshot of the version was removed."""
        with self._noting:
            self._snapshots = {item: digest for item, digest in self._snapshots.items() if item != version_id}

    def note_attempt(self, version_id: VersionId) -> None:
        """Notes that the upload of a snapshot begins. A lineage that grows too long begins at this version."""
        with self._noting:
            self._attempts = _with(self._attempts, version_id)

    def was_attempted(self, version_id: VersionId) -> bool:
        """Whether note_attempt was called with the version, not too long ago."""
        return version_id in self._attempts


def _with(noted: frozenset[VersionId], version_id: VersionId) -> frozenset[VersionId]:
    """Adds one and keeps the newest others. Those are enough, as few attempts run side by side."""
    return frozenset([*sorted(noted, key=lambda item: item[0])[-MAX_ATTEMPTS:], version_id])
