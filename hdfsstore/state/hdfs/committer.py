"""Writes the next version as a delta, or as a snapshot if the checkpoint format changes (state/base/committer.py)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pyarrow as pa

from hdfsstore._cext.versioned_map import Layer, Merger
from hdfsstore.codecs.records import FileKind
from hdfsstore.state.base.committer import Committer
from hdfsstore.state.hdfs.cached_versions import HdfsVersion, HdfsVersions, LayerTree
from hdfsstore.state.hdfs.commit_images import CommitImages
from hdfsstore.state.hdfs.snapshots import merged
from hdfsstore.state.indexes import Indexes
from hdfsstore.state.local.store_deltas import Collected, StoreDeltas
from hdfsstore.state.versions.digest import FileDigest
from hdfsstore.state.versions.files import VersionId
from hdfsstore.state.versions.reader import VersionReader


class HdfsCommitter(Committer[HdfsVersion, Layer]):
    """Writes versions of one store. Threads may share it.

    Args:
        indexes: of the images.
        commit_images: makes an image of a version at once if it is overdue; None: the next store that opens it does.
        local_deltas: where deltas are kept for other processes of this host.
    """

    def __init__(
        self,
        reader: VersionReader,
        checkpoint_format_version: int,
        versions: HdfsVersions,
        indexes: Indexes,
        counts: Counter[str],
        commit_images: CommitImages | None = None,
        local_deltas: StoreDeltas | None = None,
    ) -> None:
        super().__init__(reader, checkpoint_format_version, versions.lineages, counts)
        self._versions = versions
        self._indexes = indexes
        self._commit_images = commit_images
        self._local_deltas = local_deltas

    def _records(self, updates: Layer) -> list[pa.Buffer]:
        return [updates.records]

    def _publish_as_is(self, version_id: VersionId, kind: FileKind, pieces: Iterable[bytes]) -> FileDigest | None:
        if self._local_deltas is None or kind != "delta" or version_id[1] is None:
            return super()._publish_as_is(version_id, kind, pieces)
        collected = Collected(pieces)
        digest = super()._publish_as_is(version_id, kind, collected)
        if collected.pieces is not None:
            self._local_deltas.keep(version_id, collected.pieces)
        return digest

    def _cache(
        self,
        base: HdfsVersion,
        updates: Layer,
        version_id: VersionId,
        lineage: tuple[VersionId, ...],
        digest: FileDigest | None,
    ) -> None:
        version = self._commit_images and self._commit_images.make(base, updates, version_id, lineage, digest)
        if version:
            self._versions.add(version)
        else:
            self._versions.append(base, [(version_id, updates)], lineage, digest, committed=True)

    def _write_whole(self, base: HdfsVersion, updates: Layer, version_id: VersionId) -> None:
        layers = [layer for _, layer in base.deltas()]
        merger = Merger(base.tree.image, [*layers, updates], **self._indexes, in_steps=False)
        digest = self._publish(version_id, "snapshot", merged(merger))
        if not self._with_ids:
            self._remove_other(version_id, "delta")
        self._lineages.note_snapshot(version_id, digest)
        while merger.build():
            continue
        tree = LayerTree(merger.finish(), version_id)
        self._versions.add(HdfsVersion(version_id, tree, 0, (), digest, committed=True))
