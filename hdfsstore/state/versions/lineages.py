"""What a provider knows of snapshots, and so where the lineages of its versions begin."""

from __future__ import annotations

import threading
from typing import Protocol

from hdfsstore.codecs.lineage import LineageItem, fits, newest_that_fit
from hdfsstore.state.versions.digest import FileDigest
from hdfsstore.state.versions.files import VersionId

EMPTY: VersionId = (0, None)

# A version that is committed again and again (a loop of actions in foreachBatch) keeps so many attempts in memory.
MAX_ATTEMPTS = 8


class Version(Protocol):
    """A version that a provider holds."""

    @property
    def id(self) -> VersionId:
        """Its number and, in checkpoint format version 2, its unique id."""

    @property
    def lineage(self) -> tuple[VersionId, ...]:
        """From the presumed last snapshot to the version before this one. Empty: it is the first, or a snapshot."""

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
        """How many deltas follow the last snapshot that is known to exist, or that the lineage presumes."""
        if version.id[0] == 0:
            return 0
        first = self.lineage_after(version)[0]
        presumed_delta = first[0] == 1 and first not in self._snapshots
        return version.id[0] - first[0] + presumed_delta

    def pruned(self, lineage: list[LineageItem]) -> list[LineageItem]:
        """What a header can hold of it. A load goes on from there by the lineage of the delta at its begin."""
        if fits(lineage):
            return lineage
        attempts = [i for i, item in enumerate(lineage) if self.was_attempted(item)]
        if attempts and fits(lineage[attempts[-1] :]):
            return lineage[attempts[-1] :]
        return newest_that_fit(lineage)

    def base_snapshot(self, version: Version) -> tuple[int, FileDigest] | None:
        """The last snapshot without an id below the version, and its digest; None: none is known."""
        for item in reversed(version.lineage):
            digest = self._snapshots.get(item)
            if digest is not None:
                return item[0], digest
        return None

    def note_snapshot(self, version_id: VersionId, digest: FileDigest | None = None) -> None:
        """A snapshot of that version exists: it was uploaded, or loaded from. Lineages begin with it from now on.

        Args:
            digest: of its file, where it has no id.
        """
        with self._noting:
            kept = _with(frozenset(self._snapshots), version_id)
            self._snapshots = {**{item: self._snapshots.get(item) for item in kept}, version_id: digest}

    def note_removed(self, version_id: VersionId) -> None:
        """The snapshot of that version was removed."""
        with self._noting:
            self._snapshots = {item: digest for item, digest in self._snapshots.items() if item != version_id}

    def note_attempt(self, version_id: VersionId) -> None:
        """The upload of a snapshot of that version begins: where a lineage grows too long, it begins here."""
        with self._noting:
            self._attempts = _with(self._attempts, version_id)

    def was_attempted(self, version_id: VersionId) -> bool:
        """Whether note_attempt was called with it, not too long ago."""
        return version_id in self._attempts


def _with(noted: frozenset[VersionId], version_id: VersionId) -> frozenset[VersionId]:
    """One more, and the newest of those before: lineages begin at the newest, and few attempts go on side by side."""
    return frozenset([*sorted(noted, key=lambda item: item[0])[-MAX_ATTEMPTS:], version_id])
