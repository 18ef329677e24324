"""Makes an image of a version when it is committed, where the batch has changed so much that one is overdue.

The store that opens the version next would make it otherwise, before its batch begins; where that is another process,
after it has read the delta and looked up each of its keys. Here all is still at hand, and where the batch has put every
key that there is, its updates are the image: they need an index, and are neither merged nor copied.
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
        images: where they are kept, for other processes too.
        indexes: of the images.
        metrics: counts them.
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

    def made(
        self,
        base: HdfsVersion,
        updates: Layer,
        version_id: VersionId,
        lineage: tuple[VersionId, ...],
        digest: FileDigest | None,
    ) -> HdfsVersion | None:
        """A version whose file is written, as an image; None where it is to be a layer on top of `base`."""
        if not has_outgrown(base.tree.image, updates.nbytes, self._share):
            return None
        begun = time.monotonic()
        try:
            tree = LayerTree(self._image(base, updates), version_id)
            version = HdfsVersion(version_id, tree, 0, lineage, digest, committed=True)
            version = self._images.shared(version, self._lineages.base_snapshot(version), before=base.tree.image_id)
        except StateStoreError as error:  # the base's image is damaged, or the provider was closed: the commit stands
            log.warning("no image of version %d is made: %s", version_id[0], error)
            return None
        self._metrics.images_committed += 1
        self._metrics.image_commit_seconds += time.monotonic() - begun
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
