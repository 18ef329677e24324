"""A store's versions as local images: what stands in an image's metadata, and when an image is trusted.

    {"query_id": "<id>" or null,
     "lineage": [[<version>, "<id>" or null], ...],
     "digest": ["delta" or "snapshot", <size>, <CRC-32C>, <modified>] or null}

The digest is that of the version's file, in checkpoint format version 1: there the name says nothing about the run.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from hdfsstore._cext.versioned_map import Image
from hdfsstore.state.hdfs.files import VersionId
from hdfsstore.state.hdfs.reading import StoreReader
from hdfsstore.state.hdfs.versions import FileDigest, HeldVersion, LayerTree
from hdfsstore.state.local_images import StoreImages

log = logging.getLogger(__name__)


class HeldImages:
    """The local images of one store, as versions to hold. Threads may share it.

    Args:
        query_id: of the query whose checkpoint it is; None where that is not known.
        counts: where hits are counted.
    """

    def __init__(self, images: StoreImages, reader: StoreReader, query_id: str | None, counts: Counter[str]) -> None:
        self._images = images
        self._reader = reader
        self._query_id = query_id
        self._counts = counts

    def names(self) -> list[VersionId]:
        """The versions that have an image, which may turn out to be of no use."""
        return self._images.names()

    def newest(self, candidates: Sequence[VersionId]) -> HeldVersion | None:
        """The newest of the candidates that has an image of this query's run. Others are deleted."""
        left = list(candidates)
        while left and (found := self._images.newest(left)) is not None:
            image, metadata, version_id = found
            digest = None if metadata["digest"] is None else FileDigest(*metadata["digest"])
            if metadata["query_id"] == self._query_id and self._reader.is_unchanged(version_id, digest):
                self._counts["localImageHitCount"] += 1
                lineage = tuple((version, unique_id) for version, unique_id in metadata["lineage"])
                return HeldVersion(version_id, LayerTree(image, version_id), 0, lineage, digest)
            log.info("%s: the local image of version %d is of another run", self._reader.folder, version_id[0])
            self._images.drop(*version_id)
            left.remove(version_id)
        return None

    def write(self, version: HeldVersion, image: Image) -> Image | None:
        """Keeps an image of a version; returns it mapped, or None where there is no place for it."""
        metadata: Mapping[str, Any] = {
            "query_id": self._query_id,
            "lineage": [list(item) for item in version.lineage],
            "digest": None if version.digest is None else list(version.digest),
        }
        return self._images.write(*version.id, image, metadata)

    def drop(self, version_id: VersionId) -> None:
        """Deletes the image of a version, as it is damaged."""
        self._counts["localImagesDamaged"] += 1
        self._images.drop(*version_id)

    def close(self) -> None:
        """Ends the use of the images. Those that are mapped stay so."""
        self._images.close()
