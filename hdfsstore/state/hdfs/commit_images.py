"""Makes an image of a version when it is committed, if the batch has changed so much that one is overdue.

Otherwise the store that opens the version next would make it before its batch begins. Another process would first have
to read the delta and look up each of its keys. Here everything is still in memory. If the batch has put every key of
the store, its updates are the image: they only need an index, and are neither merged nor copied.
"""

from __future__ import annotations

import logging
import time

from hdfsstore._cext.versioned_map import Image, Layer, Merger
from hdfsstore.errors import StateStoreError
from hdfsstore.state.conf import StateStoreConf
from hdfsstore.state.hdfs.cached_versions import HdfsVersion, LayerTree
from hdfsstore.state.hdfs.image_schedule import OVERDUE, has_outgrown
from hdfsstore.state.hdfs.version_images import VersionImages
from hdfsstore.state.indexes import Indexes
from hdfsstore.state.metrics import MaintenanceMetrics
from hdfsstore.state.versions.digest import FileDigest
from hdfsstore.state.versions.files import VersionId
from hdfsstore.state.versions.lineages import Lineages

log = logging.getLogger("hdfsstore.state.hdfs.commit_images")


class CommitImages:
    """Makes the images of one store's commits. Threads may share it.

    Args:
        images: the local images, which other processes use too.
        indexes: of the images.
        lineages: of the store's versions.
        metrics: counts the images.
    """

    def __init__(
        self,
        images: VersionImages,
        indexes: Indexes,
        conf: StateStoreConf,
        lineages: Lineages,
        metrics: MaintenanceMetrics,
    ) -> None:
        self._images = images
        self._indexes = indexes
        self._share = OVERDUE * conf.image_overlay_share
        self._lineages = lineages
        self._metrics = metrics

    def make(
        self,
        base: HdfsVersion,
        updates: Layer,
        version_id: VersionId,
        lineage: tuple[VersionId, ...],
        digest: FileDigest | None,
    ) -> HdfsVersion | None:
        """Makes an image of a version whose file is written; None if it is to be a layer on top of `base`."""
        if not has_outgrown(base.tree.image, updates.nbytes, self._share):
            return None
        started = time.monotonic()
        try:
            tree = LayerTree(self._image(base, updates), version_id)
            version = HdfsVersion(version_id, tree, 0, lineage, digest, committed=True)
            version = self._images.shared(version, self._lineages.base_snapshot(version), before=base.tree.image_id)
        except StateStoreError as error:  # the base's image is damaged, or the provider was closed: the commit stands
            log.warning("no image of version %d is made: %s", version_id[0], error)
            return None
        self._metrics.images_committed += 1
        self._metrics.image_commit_seconds += time.monotonic() - started
        return version

    def _image(self, base: HdfsVersion, updates: Layer) -> Image:
        image = updates.image(**self._indexes)
        if image is not None:
            return image
        layers = [] if updates.is_whole else [layer for _, layer in base.deltas()]
        below = base.tree.image
        if updates.is_whole:
            below = Image.empty(row_checksums=below.row_checksums, **self._indexes)
        merger = Merger(below, [*layers, updates], **self._indexes, in_steps=False)
        while merger.build():
            continue
        return merger.finish()
