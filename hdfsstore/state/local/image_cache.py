"""Caches images of stores' versions as files on a local disk, for all processes of this user on a host.

    <root>/                          local_dir, or hdfsstore-<uid> in the system's folder for temporary files; mode 0700
      cleaning.lock                  held by the one process that cleans; its time is that of the last cleaning
      <32 hex digits>/               one store: SHA-256 of its id, cut
        store.json                   the store's id, for people
        in-use.lock                  held (shared) by every provider of the store; its time is when it last was
        <version>[_<id>].image       mode 0400; its time is that of its last use
        <image>.lock                 held by the image's one builder
        <image>.<32 hex digits>.tmp  being written

The cache is optional: if a file cannot be read, written or trusted, a warning is logged and the store goes on without.
"""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import json
import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any, ClassVar, Self

from hdfsstore._cext.versioned_map import Image
from hdfsstore.errors import AddressSpaceError, StateStoreClosedError
from hdfsstore.state.indexes import Indexes, no_indexes
from hdfsstore.state.local.budget import budget
from hdfsstore.state.local.eviction import IN_USE, STORE_JSON, clean, make_room, remove_leftovers
from hdfsstore.state.local.folder import (
    create_file,
    names_in,
    open_folder,
    open_root,
    remove_file,
    root_path,
    stat_in,
    write_all,
)
from hdfsstore.state.local.image_file import ImageFile, VersionId, image_name, version_of
from hdfsstore.state.local.locks import FileLock
from hdfsstore.state.maintenance.throttle import Step, no_step
from hdfsstore.state.store_id import StateStoreId

log = logging.getLogger("hdfsstore.state.local_images")

_UNUSED_SECONDS = 3600.0
# Seconds for which a provider waits for another process that deletes the folder.
_CLEANER_SECONDS = 2.0
# A folder that vanishes at once is made again at most this often.
_ATTEMPTS = 10


class ImageCache:
    """The images of all stores below one folder.

    Args:
        local_dir: the folder, for this user only (mode 0700; made if it is missing); None: one of its own.
        max_bytes: of all images in it together; with 0 there is no folder.
    """

    _warned: ClassVar[set[str]] = set()

    def __init__(self, local_dir: str | None, max_bytes: int) -> None:
        self._local_dir = local_dir
        self.max_bytes = max_bytes

    def store(self, store_id: StateStoreId, indexes: Indexes | None = None) -> StoreImages:
        """The images of one store. They count as used until it is closed.

        Args:
            store_id: with the place of the checkpoint's files (hdfsstore.fs.location.place_of) as its root, because
                it is written into the files here.
            indexes: of the images; an image without them is not used.
        """
        return StoreImages(self, store_id, indexes or no_indexes())

    def clean(self, unused_seconds: float = _UNUSED_SECONDS) -> None:
        """Deletes images of stores that nobody has used for so long, leftovers, and images above the budget.

        Maintenance calls it at each interval. It does nothing if another process cleans, or has just cleaned.
        """
        try:
            with self.opened() as (_, root):
                clean(root, unused_seconds, budget(root, self.max_bytes))
        except OSError as error:
            self.warn(error)

    @contextmanager
    def opened(self) -> Iterator[tuple[str, int]]:
        """The folder's path and file descriptor. OSError: the folder cannot be used or trusted."""
        if self.max_bytes == 0:
            raise OSError(errno.EDQUOT, "it may take 0 bytes", self._local_dir)
        path = root_path(self._local_dir)
        with open_root(path) as root:
            yield path, root

    def warn(self, error: OSError) -> None:
        """Logs that there is no cache, as a warning once for each reason in a process; not if max_bytes is 0."""
        if self.max_bytes == 0:
            return
        where = self._local_dir or "the system's folder for temporary files"
        reason = f"{where}: {error.strerror}"
        level = logging.INFO if reason in self._warned else logging.WARNING
        self._warned.add(reason)
        log.log(
            level,
            "%s: no local image is kept there, and stores are loaded from the checkpoint: %s. "
            "Give a local_dir with space, of this user, mode 0700, or that is yet to be made",
            where,
            error,
        )


class StoreImages:
    """The images of one store, by version and unique id. Threads and forked children may share it."""

    def __init__(self, cache: ImageCache, store_id: StateStoreId, indexes: Indexes) -> None:
        self._cache = cache
        self._id: dict[str, Any] = {
            field.name: getattr(store_id, field.name) for field in dataclasses.fields(store_id) if field.compare
        }
        self._indexes = indexes
        self._name = hashlib.sha256(json.dumps(self._id, sort_keys=True).encode()).hexdigest()[:32]
        self._path = self._name
        self._in_use: FileLock | None = None
        self._closed = False
        self.names()  # from now on in use

    def newest(self, candidates: Iterable[VersionId]) -> tuple[Image, dict[str, Any], VersionId] | None:
        """The newest image of the candidates: the image, the metadata from `write`, and the version. None: no image.

        Only the header is verified; a block is verified when it is touched. A damaged image, or one of another store,
        is deleted.

        Raises:
            AddressSpaceError: this process may not map it. It could not load all of it into its memory either.
        """
        try:
            with self._entered() as (_, folder):
                there = set(names_in(folder))
                for version_id in sorted(candidates, key=lambda candidate: candidate[0], reverse=True):
                    name = image_name(version_id)
                    found = self._file(version_id).open(folder) if name in there else None
                    if found is not None:
                        return (*found, version_id)
        except OSError as error:
            self._cache.warn(error)
        return None

    def names(self) -> list[VersionId]:
        """The versions that have an image, oldest first. The image may be damaged."""
        try:
            with self._entered() as (_, folder):
                versions = [version for version in map(version_of, names_in(folder)) if version is not None]
                return sorted(versions, key=lambda version: (version[0], version[1] or ""))
        except OSError as error:
            self._cache.warn(error)
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
            with self._entered() as (root, folder):
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
            self._cache.warn(error)
            return None

    def drop(self, version: int, checkpoint_unique_id: str | None) -> None:
        """Deletes an image, which may be damaged. Processes that have mapped it keep it."""
        try:
            with self._entered() as (_, folder):
                remove_file(folder, image_name((version, checkpoint_unique_id)))
        except OSError as error:
            self._cache.warn(error)

    def drop_others(
        self, version: int, checkpoint_unique_id: str | None, kept: int, first: VersionId | None = None
    ) -> None:
        """Deletes all images but this one and the `kept` most recently used ones. Mapped ones stay mapped.

        Args:
            first: the version whose image is kept instead of more recently used ones.
        """
        try:
            with self._entered() as (_, folder):
                _drop_others(folder, image_name((version, checkpoint_unique_id)), kept, first and image_name(first))
        except OSError as error:
            self._cache.warn(error)

    def close(self) -> None:
        """Ends the use: the images may then be deleted as those of an ended query. Mapped ones stay mapped."""
        self._closed = True
        lock, self._in_use = self._in_use, None
        if lock is not None:
            lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _file(self, version_id: VersionId) -> ImageFile:
        return ImageFile(self._path, self._id, version_id, self._indexes)

    def _built(
        self, root: int, folder: int, file: ImageFile, image: Image, metadata: dict[str, Any], step: Step
    ) -> Image | None:
        remove_leftovers(folder, file.name, names_in(folder))
        found = file.open(folder)
        if found is None or found[1] != metadata:
            step()
            parts = file.parts(image, metadata, step)
            size = sum(part.size for part in parts)
            most = budget(root, self._cache.max_bytes)
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

    @contextmanager
    def _entered(self) -> Iterator[tuple[int, int]]:
        """The cache's folder and the store's as file descriptors. The store's is in use from then on."""
        if self._closed:
            raise StateStoreClosedError("the store's images were closed", self._path)
        with ExitStack() as stack:
            for last in (*[False] * _ATTEMPTS, True):
                try:
                    path, root = stack.enter_context(self._cache.opened())
                    folder = stack.enter_context(open_folder(root, self._name, make=True))
                    self._path = f"{path}/{self._name}"
                    self._use(folder)
                    break
                except FileNotFoundError:  # deleted since it was opened
                    if last:
                        raise
            yield root, folder

    def _use(self, folder: int) -> None:
        """Takes the folder's lock.

        Raises:
            FileNotFoundError: the folder was deleted since it was opened.
            BlockingIOError: another process still deletes it.
        """
        if self._in_use is not None and self._in_use.is_in(folder):
            return
        lock = FileLock.shared(folder, IN_USE, _CLEANER_SECONDS)
        if lock is None:
            raise BlockingIOError(errno.EWOULDBLOCK, "another process still deletes the store's images")
        lock.touch()
        self._in_use = lock
        if stat_in(folder, STORE_JSON) is None:
            self._describe(folder)

    def _describe(self, folder: int) -> None:
        try:
            file = create_file(folder, STORE_JSON)
        except FileExistsError:  # another process was faster
            return
        try:
            write_all(file, memoryview(json.dumps(self._id, indent=1).encode()))
        finally:
            os.close(file)


def _drop_others(folder: int, name: str, kept: int, first: str | None = None) -> None:
    """Deletes all images in a store's folder but that one and `kept` others: `first`, and those used last."""
    others = {other for other in names_in(folder) if version_of(other) is not None and other != name}
    used = {other: info.st_mtime_ns for other in others if (info := stat_in(folder, other)) is not None}
    for other in sorted(used, key=lambda other: (other == first, used[other]), reverse=True)[kept:]:
        remove_file(folder, other)
