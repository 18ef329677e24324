"""Caches images of stores' versions as files on a local disk, for all processes of this user on a host.

    <root>/                          local_dir, or hdfsstore-<uid> in the system's folder for temporary files; mode 0700
      cleaning.lock                  held by the one process that cleans; its time is that of the last cleaning
      <32 hex digits>/               one store: SHA-256 of its id, cut
        store.json                   the store's id, for people
        in-use.lock                  held (shared) by every provider of the store; its time is when it last was
        <version>[_<id>].image       mode 0400; its time is that of its last use
        <version>_<id>.delta         mode 0400 once it is whole (store_deltas.py)
        <image>.lock                 held by the image's one builder
        <image>.<32 hex digits>.tmp  being written

The cache is optional: if a file cannot be read, written or trusted, a warning is logged and the store goes on without.
"""

from __future__ import annotations

import errno
import json
import logging
import sys
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from hdfsstore._cext.versioned_map import Image
from hdfsstore.errors import AddressSpaceError
from hdfsstore.state.indexes import Indexes, no_indexes
from hdfsstore.state.local.budget import budget
from hdfsstore.state.local.eviction import clean, make_room, remove_leftovers
from hdfsstore.state.local.folder import (
    names_in,
    remove_file,
    stat_in,
)
from hdfsstore.state.local.image_file import ImageFile, VersionId, image_name, version_of
from hdfsstore.state.local.locks import FileLock
from hdfsstore.state.local.store_deltas import drop_deltas
from hdfsstore.state.local.store_folder import CacheRoot, StoreFolder
from hdfsstore.state.maintenance.throttle import Step, no_step
from hdfsstore.state.store_id import StateStoreId

log = logging.getLogger("hdfsstore.state.local_images")

_UNUSED_SECONDS = 3600.0


class ImageCache(CacheRoot):
    """The images of all stores below one folder.

    Args:
        local_dir: the folder, for this user only (mode 0700; made if it is missing); None: one of its own.
        max_bytes: of all images in it together; with 0 there is no folder.
    """

    def store(self, store_id: StateStoreId, indexes: Indexes | None = None) -> StoreImages:
        """The images of one store. They count as used until it is closed.

        Args:
            store_id: with the place of the checkpoint's files (hdfsstore.fs.location.place_of) as its root, because
                it is written into the files here.
            indexes: of the images; an image without them is not used.
        """
        return StoreImages(StoreFolder(self, store_id), indexes or no_indexes())

    def clean(self, unused_seconds: float = _UNUSED_SECONDS) -> None:
        """Deletes images of stores that nobody has used for so long, leftovers, and images above the budget.

        Maintenance calls it at each interval. It does nothing if another process cleans, or has just cleaned.
        """
        try:
            with self.opened() as (_, root):
                clean(root, unused_seconds, budget(root, self.max_bytes))
        except OSError as error:
            self.warn(error)


class StoreImages:
    """The images of one store, by version and unique id. Threads and forked children may share it."""

    def __init__(self, folder: StoreFolder, indexes: Indexes) -> None:
        self.folder = folder
        self._indexes = indexes
        self.names()  # from now on in use

    def newest(self, candidates: Iterable[VersionId]) -> tuple[Image, dict[str, Any], VersionId] | None:
        """The newest image of the candidates: the image, the metadata from `write`, and the version. None: no image.

        Only the header is verified; a block is verified when it is touched. A damaged image, or one of another store,
        is deleted.

        Raises:
            AddressSpaceError: this process may not map it. It could not load all of it into its memory either.
        """
        try:
            with self.folder.entered() as (_, folder):
                there = set(names_in(folder))
                for version_id in sorted(candidates, key=lambda candidate: candidate[0], reverse=True):
                    name = image_name(version_id)
                    found = self._file(version_id).open(folder) if name in there else None
                    if found is not None:
                        return (*found, version_id)
        except OSError as error:
            self.folder.cache.warn(error)
        return None

    def names(self) -> list[VersionId]:
        """The versions that have an image, oldest first. The image may be damaged."""
        try:
            with self.folder.entered() as (_, folder):
                versions = [version for version in map(version_of, names_in(folder)) if version is not None]
                return sorted(versions, key=lambda version: (version[0], version[1] or ""))
        except OSError as error:
            self.folder.cache.warn(error)
            return []

    def write(
        self,
        version: int,
        checkpoint_unique_id: str | None,
        image: Image,
        metadata: Mapping[str, Any],
        wait_seconds: float = 0.0,
        step: Step = no_step,
    ) -> Image | None:
        """Writes an image as the version's file, replacing one with other metadata, and maps it.

        Args:
            metadata: JSON values, which `newest` returns.
            wait_seconds: time to wait for another process or thread that writes the same image.
            step: called after each 256 KiB. If it raises, nothing is left of the file.

        Returns:
            The mapped image that can replace the given one; None if it is larger than the cache may be, if somebody
            else still writes it, or if it cannot be written.
        """
        try:
            with self.folder.entered() as (root, folder):
                file = self._file((version, checkpoint_unique_id))
                builder = FileLock.alone(folder, f"{file.name}.lock", wait_seconds)
                if builder is None:
                    log.info("%s: another process or thread writes it", file.path)
                    return None
                try:
                    return self._built(root, folder, file, image, json.loads(json.dumps(dict(metadata))), step)
                finally:
                    builder.remove(folder)
        except AddressSpaceError as error:
            log.warning("%s: the image stays in the memory of this process alone", error)
            return None
        except OSError as error:
            self.folder.cache.warn(error)
            return None

    def drop(self, version: int, checkpoint_unique_id: str | None) -> None:
        """Deletes an image, which may be damaged. Processes that have mapped it keep it."""
        try:
            with self.folder.entered() as (_, folder):
                remove_file(folder, image_name((version, checkpoint_unique_id)))
        except OSError as error:
            self.folder.cache.warn(error)

    def drop_others(
        self, version: int, checkpoint_unique_id: str | None, kept: int, first: VersionId | None = None
    ) -> None:
        """Deletes all images but this one and the `kept` most recently used ones, and the deltas up to the oldest.

        Mapped images stay mapped.

        Args:
            first: the version whose image is kept instead of more recently used ones.
        """
        try:
            with self.folder.entered() as (_, folder):
                _drop_others(folder, image_name((version, checkpoint_unique_id)), kept, first and image_name(first))
        except OSError as error:
            self.folder.cache.warn(error)

    def close(self) -> None:
        """Ends the use: the images may then be deleted as those of an ended query. Mapped ones stay mapped."""
        self.folder.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _file(self, version_id: VersionId) -> ImageFile:
        return ImageFile(self.folder.path, self.folder.store_id, version_id, self._indexes)

    def _built(
        self, root: int, folder: int, file: ImageFile, image: Image, metadata: dict[str, Any], step: Step
    ) -> Image | None:
        remove_leftovers(folder, file.name, names_in(folder))
        found = file.open(folder)
        if found is None or found[1] != metadata:
            step()
            parts = file.parts(image, metadata, step)
            size = sum(part.size for part in parts)
            most = budget(root, self.folder.cache.max_bytes)
            if size > most:
                log.info("%s: with %d bytes larger than the cache may be", file.path, size)
                return None
            make_room(root, size, most)
            try:
                file.write(folder, parts, step)
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise
                # The images that this one replaces may fill the disk.
                _drop_others(folder, file.name, 0)
                file.write(folder, parts, step)
            found = file.open(folder)
        return found[0] if found is not None else None


def _drop_others(folder: int, name: str, kept: int, first: str | None = None) -> None:
    """Deletes all images in a store's folder but that one and `kept` others: `first`, and those used last.

    Nobody reads the deltas up to the oldest image that is left.
    """
    names = names_in(folder)
    images = {own: version for own in names if (version := version_of(own)) is not None}
    used = {own: info.st_mtime_ns for own in images if own != name and (info := stat_in(folder, own)) is not None}
    for other in sorted(used, key=lambda other: (other == first, used[other]), reverse=True)[kept:]:
        remove_file(folder, other)
        del images[other]
    oldest = min((number for number, _ in images.values()), default=0)
    drop_deltas(folder, names, range(oldest + 1, sys.maxsize))
