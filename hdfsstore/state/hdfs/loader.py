"""Loads a version of a store into memory by the cheapest safe path.

    1  it is cached
    2  the newest version before it that is cached or has a local image, and the deltas after that
    3  the checkpoint's files alone: a snapshot and the deltas after it

Files and images with a unique id never change. A file without one (checkpoint format version 1) may have been replaced
by another attempt. Before a version is built on a cached version or an image, that version's file is therefore read and
compared with its digest.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeAlias

from hdfsstore.errors import (
    AddressSpaceError,
    FileChangedError,
    FileSystemTimeoutError,
    ImageDamagedError,
    StateStoreError,
)
from hdfsstore.state.base.loader import Loader
from hdfsstore.state.hdfs.cached_versions import HdfsVersion, HdfsVersions, LayerTree
from hdfsstore.state.hdfs.layer_reader import Delta, StoreReader
from hdfsstore.state.hdfs.version_images import VersionImages
from hdfsstore.state.versions.files import VersionId
from hdfsstore.state.versions.lineages import EMPTY

log = logging.getLogger("hdfsstore.state.hdfs.loader")

# Finds the newest cached version, or image, among versions that are given newest first.
Newest: TypeAlias = "Callable[[Sequence[VersionId]], HdfsVersion | None]"

# How many versions back a cached version or an image is of use. From further back, loading a snapshot is faster.
_FEW = 50


class HdfsLoader(Loader[HdfsVersion]):
    """Loads versions of one store. Threads may share it; one of them loads at a time.

    Args:
        counts: counts hits and misses.
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
        """Loads a version whose image is damaged from the checkpoint's files alone, and drops the image."""
        with self._loading:
            version = self._versions.find(damaged.id)
            if version is None or version.tree is damaged.tree:
                self._drop_image(damaged.tree)
                if not self._reader.is_unchanged(damaged.id, damaged.digest):
                    raise StateStoreError(
                        f"version {damaged.id[0]} was written again, and the image of its earlier content is damaged",
                        self._reader.folder,
                        remedy="Run the batch again",
                    )
                version = self._load_files(damaged.id)
            return version

    def _drop_image(self, damaged: LayerTree) -> None:
        self._versions.drop_tree(damaged)
        self._images.drop(damaged.image_id)

    def _load_empty(self) -> HdfsVersion:
        return self._build(HdfsVersion(EMPTY, LayerTree(self._reader.empty(), EMPTY), 0), ())

    def _load(self, version_id: VersionId) -> HdfsVersion:
        return self._load_deltas(version_id) or self._load_files(
            version_id, shared_across_workers=self._shared_across_workers
        )

    def _load_deltas(self, wanted: VersionId) -> HdfsVersion | None:
        try:
            way = self._way(wanted, self._newest)
        except AddressSpaceError as error:
            way = self._way(wanted, self._newest_cached)
            if way is None:  # the files' content would take as much room
                raise
            log.warning("%s; version %d is built on version %d, which is in memory", error, wanted[0], way[0].id[0])
        if way is None:
            return None
        try:
            return self._build(*way)
        except ImageDamagedError as error:  # the deltas' keys are looked up in it
            log.warning("%s; version %d is loaded from the checkpoint's files", error, wanted[0])
            self._drop_image(way[0].tree)
            return None

    def _build(self, begin: HdfsVersion, deltas: Sequence[Delta]) -> HdfsVersion:
        """Adds deltas to a version, and caches the result. The versions in between are not cached."""
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
        """A version to build on, and the deltas after it, oldest first; None: there is none in memory or on disk."""
        oldest = min((version for version, _ in self._candidates()), default=wanted[0])
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
            unread = [version_id for version_id in reversed(after) if version_id not in read]
            read.update(zip(unread, self._reader.deltas(unread), strict=True))
            return begin, [read[version_id] for version_id in reversed(after)]
        except (FileNotFoundError, FileChangedError) as error:
            log.info("%s: a delta on the way to version %d is not there: %s", self._reader.folder, wanted[0], error)
            return None

    def _way_by_numbers(self, wanted: VersionId, newest: Newest) -> tuple[HdfsVersion, list[Delta]] | None:
        """The same without ids. It never goes back past a snapshot, where another attempt's versions may begin."""
        exact = newest([wanted])
        if exact is not None:
            return exact, []
        try:
            chain = self._reader.chain(wanted[0])
        except FileSystemTimeoutError:  # to list again would take as long
            raise
        except StateStoreError:
            return None  # loading from the files lists again, and raises the error if it stands
        first = max(1, wanted[0] - len(chain.deltas))
        begin = newest([(number, None) for number in range(wanted[0] - 1, first - 1, -1)])
        if begin is None:
            return None
        try:
            return begin, self._reader.deltas((number, None) for number in range(begin.id[0] + 1, wanted[0] + 1))
        except (FileNotFoundError, FileChangedError) as error:
            log.info("%s: a delta on the way to version %d is gone: %s", self._reader.folder, wanted[0], error)
            return None

    def _load_files(self, wanted: VersionId, *, shared_across_workers: bool = False) -> HdfsVersion:
        loaded = self._reader.version(wanted)
        self._counts["numSnapshotsAutoRepaired"] += loaded.repaired
        tree = LayerTree(loaded.image, loaded.image_id)
        begin = HdfsVersion(loaded.image_id, tree, 0, (), loaded.digest)
        if loaded.image_id != EMPTY:
            self._versions.lineages.note_snapshot(loaded.image_id, loaded.digest)
            self._counts["snapshotsLoaded"] += 1
            # The host's next process then need not load the snapshot, nor hold a copy in memory.
            begin = self._images.shared(begin, None) if shared_across_workers else begin
        return self._build(begin, loaded.deltas)

    def _candidates(self) -> list[VersionId]:
        return [version.id for version in self._versions.cached() if version.id != EMPTY] + self._images.names()

    def _newest(self, candidates: Sequence[VersionId]) -> HdfsVersion | None:
        """The newest of the candidates that is cached or has a local image, and whose file has not changed."""
        cached = self._newest_cached(candidates)
        newer = [candidate for candidate in candidates if cached is None or candidate[0] > cached.id[0]]
        imaged = self._images.newest(newer)
        return cached if imaged is None else imaged

    def _newest_cached(self, candidates: Sequence[VersionId]) -> HdfsVersion | None:
        return next((found for found in map(self._find_unchanged, candidates) if found is not None), None)
