"""Keeps a store's versions as local images, and decides by an image's metadata whether to trust it.

    {"lineage": [[<version>, "<id>" or null], ...],
     "run": null, or without a unique id
            ["<query's id>" or null, "delta" or "snapshot", <size>, <CRC-32C>, <modified>],
     "base": null, or [<version>, "snapshot", <size>, <CRC-32C>, <modified>]}

Without a unique id (checkpoint format version 1) the name does not identify the attempt. The query's id, the digest of
the version's file and that of the snapshot below it do. Retention may have removed that snapshot by now.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from hdfsstore._cext.versioned_map import Image
from hdfsstore.state.hdfs.cached_versions import HdfsVersion, LayerTree
from hdfsstore.state.hdfs.layer_reader import StoreReader
from hdfsstore.state.local.image_cache import StoreImages
from hdfsstore.state.maintenance.throttle import Step, no_step
from hdfsstore.state.versions.digest import FileDigest
from hdfsstore.state.versions.files import VersionId

log = logging.getLogger("hdfsstore.state.hdfs.version_images")


class VersionImages:
    """The local images of one store, as versions. Threads may share it.

    Args:
        read_query_id: returns the id of the checkpoint's query, or None. It is called once at most.
        counts: counts hits.
    """

    def __init__(
        self, images: StoreImages, reader: StoreReader, read_query_id: Callable[[], str | None], counts: Counter[str]
    ) -> None:
        self._images = images
        self._reader = reader
        self._read_query_id = read_query_id
        self._counts = counts

    def names(self) -> list[VersionId]:
        """The versions that have an image. The image may be unusable."""
        return self._images.names()

    def newest(self, candidates: Sequence[VersionId]) -> HdfsVersion | None:
        """The newest of the candidates that has an image of the same attempt. Images of other attempts are deleted."""
        left = list(candidates)
        while left and (found := self._images.newest(left)) is not None:
            image, metadata, version_id = found
            version = self._version(image, metadata, version_id)
            if version is not None:
                self._counts["localImageHitCount"] += 1
                return version
            log.info("%s: the local image of version %d is of another attempt", self._reader.folder, version_id[0])
            self._images.drop(*version_id)
            left.remove(version_id)
        return None

    def write(
        self,
        version: HdfsVersion,
        image: Image,
        base: tuple[int, FileDigest] | None,
        *,
        before: VersionId | None = None,
        step: Step = no_step,
    ) -> Image | None:
        """Writes an image of a version, and returns it mapped; None if there is no room for it.

        Args:
            base: version and digest of the snapshot without an id below it, if one is known.
            before: the version whose image is also kept, instead of the most recently used one.
            step: called after each 256 KiB; it may raise.
        """
        metadata = {
            "lineage": [list(item) for item in version.lineage],
            "run": None if version.digest is None else [self._query_id, *version.digest],
            "base": None if base is None else [base[0], *base[1]],
        }
        mapped = self._images.write(*version.id, image, metadata, step=step)
        if mapped is not None:
            # One more is kept for processes that are a batch behind, and for a batch that runs again.
            self._images.drop_others(*version.id, kept=1, first=before)
        return mapped

    def shared(
        self, version: HdfsVersion, base: tuple[int, FileDigest] | None, *, before: VersionId | None = None
    ) -> HdfsVersion:
        """Writes the image of a version in memory to the local disk, if there is room, and returns the version on it.

        Args:
            base, before: as `write` takes them.
        """
        mapped = self.write(version, version.tree.image, base, before=before)
        return version if mapped is None else replace(version, tree=LayerTree(mapped, version.id))

    def drop(self, version_id: VersionId) -> None:
        """Deletes a damaged image."""
        self._counts["localImagesDamaged"] += 1
        self._images.drop(*version_id)

    def close(self) -> None:
        """Ends the use of the images. Mapped ones stay mapped."""
        self._images.close()

    @cached_property
    def _query_id(self) -> str | None:
        return self._read_query_id()

    def _version(self, image: Image, metadata: Mapping[str, Any], version_id: VersionId) -> HdfsVersion | None:
        try:
            lineage = tuple((int(version), unique_id) for version, unique_id in metadata["lineage"])
            run = metadata["run"]
            digest = None if run is None else FileDigest(*run[1:])
            base = metadata["base"]
            base_digest = None if base is None else FileDigest(*base[1:])
        except (KeyError, TypeError, ValueError):  # written by another release
            return None
        if image.row_checksums != self._reader.format.row_checksums:
            return None
        if version_id[1] is None and (run is None or run[0] != self._query_id):
            return None
        if not self._reader.is_unchanged(version_id, digest):
            return None
        if base_digest is not None and not self._reader.is_unchanged_or_gone((base[0], None), base_digest):
            return None
        return HdfsVersion(version_id, LayerTree(image, version_id), 0, lineage, digest)
