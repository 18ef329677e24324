"""Gets a version of a store into memory by the shortest way that is sure.

    1  it is held
    2  the newest version before it that is held, or has a local image, and the deltas after that
    3  the checkpoint's files alone: a snapshot and the deltas after it

With unique ids an id says all: files and images under it never change. Without (checkpoint format version 1) a file may
have been replaced by another run's since: before anything is built on what is held, or on an image, the file of that
version is read and compared with what it was.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeAlias

from hdfsstore.errors import AddressSpaceError, ImageDamagedError, StateStoreError
from hdfsstore.state.base.loader import Loader
from hdfsstore.state.hdfs.cached_versions import HdfsVersion, HdfsVersions, LayerTree
from hdfsstore.state.hdfs.layer_reader import Delta, StoreReader
from hdfsstore.state.hdfs.version_images import VersionImages
from hdfsstore.state.versions.files import VersionId
from hdfsstore.state.versions.lineages import EMPTY

log = logging.getLogger("hdfsstore.state.hdfs.loader")

# The newest of some versions, which come newest first, that is at hand.
Newest: TypeAlias = "Callable[[Sequence[VersionId]], HdfsVersion | None]"

# So many versions back something in memory or an image is of use; from further back a snapshot is sooner loaded.
_FEW = 50


class HdfsLoader(Loader[HdfsVersion]):
    """Loads versions of one store. Threads may share it; one of them loads at a time.

    Args:
        counts: where hits and misses are counted.
        shared_across_workers: whether a snapshot that was loaded becomes a local image at once.
    """

    _reader: StoreReader
    _versions: HdfsVersions

    def __init__(
        self,
        reader: StoreReader,
        versions: HdfsVersions,
        images: VersionImages,
        counts: Counter[str],
        *,
        shared_across_workers: bool,
    ) -> None:
        super().__init__(reader, versions, counts)
        self._shared_across_workers = shared_across_workers
        self._images = images

    def reload(self, damaged: HdfsVersion) -> HdfsVersion:
        """The same version, from the checkpoint's files alone: its image is damaged, and is let go of."""
        with self._loading:
            held = self._versions.find(damaged.id)
            if held is None or held.tree is damaged.tree:
                self._let_go(damaged.tree)
                if not self._reader.is_unchanged(damaged.id, damaged.digest):
                    raise StateStoreError(
                        f"version {damaged.id[0]} was written again, and the image of its earlier content is damaged",
                        self._reader.folder,
                        remedy="Run the batch again",
                    )
                held = self._from_files(damaged.id)
            return held

    def _let_go(self, damaged: LayerTree) -> None:
        self._versions.drop_tree(damaged)
        self._images.drop(damaged.image_id)

    def _empty(self) -> HdfsVersion:
        return self._built(HdfsVersion(EMPTY, LayerTree(self._reader.empty(), EMPTY), 0), ())

    def _loaded(self, version_id: VersionId) -> HdfsVersion:
        return self._by_deltas(version_id) or self._from_files(
            version_id, shared_across_workers=self._shared_across_workers
        )

    def _by_deltas(self, wanted: VersionId) -> HdfsVersion | None:
        try:
            way = self._way(wanted, self._newest)
        except AddressSpaceError as error:
            way = self._way(wanted, self._newest_held)
            if way is None:  # the files' content would take as much room
                raise
            log.warning("%s; version %d is made of version %d, which is held", error, wanted[0], way[0].id[0])
        if way is None:
            return None
        try:
            return self._built(*way)
        except ImageDamagedError as error:  # the deltas' keys are looked up in it
            log.warning("%s; version %d is loaded from the checkpoint's files", error, wanted[0])
            self._let_go(way[0].tree)
            return None

    def _built(self, begin: HdfsVersion, deltas: Sequence[Delta]) -> HdfsVersion:
        """What the last of the deltas makes of a version that is at hand, held; those in between are not."""
        if not deltas:
            if self._versions.find(begin.id) is None:
                self._versions.add(begin)
            return begin
        self._counts["deltasLoaded"] += len(deltas)
        lineage = deltas[-1].lineage
        if deltas[-1].id[1] is None:
            lineage = (*self._versions.lineages.lineage_after(begin), *(delta.id for delta in deltas[:-1]))
        layers = [(delta.id, delta.layer) for delta in deltas]
        return self._versions.append(begin, layers, lineage, deltas[-1].digest)

    def _way(self, wanted: VersionId, newest: Newest) -> tuple[HdfsVersion, list[Delta]] | None:
        return self._way_by_lineage(wanted, newest) if wanted[1] is not None else self._way_by_numbers(wanted, newest)

    def _way_by_lineage(self, wanted: VersionId, newest: Newest) -> tuple[HdfsVersion, list[Delta]] | None:
        """What the version can be built on, and the deltas after that, oldest first; None: nothing here helps."""
        oldest = min((version for version, _ in self._at_hand()), default=wanted[0])
        ancestors = [wanted]  # newest first
        read: dict[VersionId, Delta] = {}
        begin = newest(ancestors)
        try:
            while begin is None:
                last = ancestors[-1]
                if last[0] <= oldest or wanted[0] - last[0] > _FEW:
                    return None
                read[last] = self._reader.delta(last)
                older = read[last].lineage[::-1]
                if not older:
                    return None
                begin = newest(older)
                ancestors += older
            after = ancestors[: ancestors.index(begin.id)]
            return begin, [read.get(version_id) or self._reader.delta(version_id) for version_id in reversed(after)]
        except FileNotFoundError as error:
            log.info("%s: a delta on the way to version %d is not there: %s", self._reader.folder, wanted[0], error)
            return None

    def _way_by_numbers(self, wanted: VersionId, newest: Newest) -> tuple[HdfsVersion, list[Delta]] | None:
        """The same without ids. Never past a snapshot, which may be where another run's versions begin."""
        exact = newest([wanted])
        if exact is not None:
            return exact, []
        try:
            chain = self._reader.chain(wanted[0])
        except StateStoreError:
            return None  # loading from the files says the same, after another look
        first = max(1, wanted[0] - len(chain.deltas))
        begin = newest([(number, None) for number in range(wanted[0] - 1, first - 1, -1)])
        if begin is None:
            return None
        try:
            return begin, [self._reader.delta((number, None)) for number in range(begin.id[0] + 1, wanted[0] + 1)]
        except FileNotFoundError as error:
            log.info("%s: a delta on the way to version %d is gone: %s", self._reader.folder, wanted[0], error)
            return None

    def _from_files(self, wanted: VersionId, *, shared_across_workers: bool = False) -> HdfsVersion:
        loaded = self._reader.version(wanted)
        self._counts["numSnapshotsAutoRepaired"] += loaded.repaired
        tree = LayerTree(loaded.image, loaded.image_id)
        begin = HdfsVersion(loaded.image_id, tree, 0, (), loaded.digest)
        if loaded.image_id != EMPTY:
            self._versions.lineages.note_snapshot(loaded.image_id, loaded.digest)
            self._counts["snapshotsLoaded"] += 1
            # The host's next process need not load the snapshot, nor have a copy in memory.
            begin = self._images.shared(begin, None) if shared_across_workers else begin
        return self._built(begin, loaded.deltas)

    def _at_hand(self) -> list[VersionId]:
        return [held.id for held in self._versions.cached() if held.id != EMPTY] + self._images.names()

    def _newest(self, candidates: Sequence[VersionId]) -> HdfsVersion | None:
        """The newest of them (they come newest first) that is held, or has an image here, and is still what it was."""
        held = self._newest_held(candidates)
        newer = [candidate for candidate in candidates if held is None or candidate[0] > held.id[0]]
        imaged = self._images.newest(newer)
        return held if imaged is None else imaged

    def _newest_held(self, candidates: Sequence[VersionId]) -> HdfsVersion | None:
        return next((found for found in map(self._cached_version, candidates) if found is not None), None)
