"""Writes the file of one image, and checks it before it is mapped."""

from __future__ import annotations

import errno
import json
import logging
import mmap
import os
import stat
import sys
import uuid
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa

from hdfsstore._cext.versioned_map import Image
from hdfsstore.errors import AddressSpaceError, CorruptFileError, UnsupportedVersionError
from hdfsstore.state.indexes import Indexes
from hdfsstore.state.local.eviction import IMAGE
from hdfsstore.state.local.folder import create_file, open_file, remove_file, write_all
from hdfsstore.state.maintenance.throttle import Step, no_step

log = logging.getLogger("hdfsstore.state.local_image_file")

if sys.platform != "win32":
    import resource

VersionId: TypeAlias = tuple[int, str | None]

SEALED = 0o400
# Errors for a name that is not a file of this cache: a symlink, another user's, without rights, a folder, a socket.
_NOT_OURS = (errno.ELOOP, errno.EPERM, errno.EACCES, errno.EISDIR, errno.ENXIO)
_REMEDY = "It is built anew"
_PIECE = 1 << 18  # bytes that are written at a time


def image_name(version_id: VersionId) -> str:
    """`<version>[_<id>].image`.

    Raises:
        ValueError: the id cannot be part of an image's name.
    """
    version, unique_id = version_id
    name = f"{version}.image" if unique_id is None else f"{version}_{unique_id}.image"
    if version_of(name) != version_id:
        raise ValueError(f"no version and unique id: {version_id!r}")
    return name


def version_of(name: str) -> VersionId | None:
    """The version of the image of that name; None if it is not an image's name."""
    match = IMAGE.fullmatch(name)
    return (int(match[1]), match[2]) if match else None


class ImageFile:
    """A version's image in a store's folder. Every call takes the folder as a file descriptor.

    The image's metadata is JSON with its store and version, and the writer's own metadata:

        {"store":{"checkpoint_root":...,"operator_id":0,...},"version":12,"id":"..." or null,"metadata":{...}}

    Args:
        folder_path: for messages.
        store: the id of the store.
        version_id: version and unique id.
        indexes: of the image.
    """

    def __init__(self, folder_path: str, store: Mapping[str, Any], version_id: VersionId, indexes: Indexes) -> None:
        self.name = image_name(version_id)
        self.path = f"{folder_path}/{self.name}"
        self._owner = {"store": dict(store), "version": version_id[0], "id": version_id[1]}
        self._indexes = indexes

    def open(self, folder: int) -> tuple[Image, dict[str, Any]] | None:
        """The mapped image and its writer's metadata; None if there is no usable one.

        A file that is damaged, of an unknown format, or another image is unlinked with a warning. An image without the
        index is unlinked without one. Blocks are verified when they are touched.

        Raises:
            OSError: the file cannot be opened or mapped; its content may be sound.
        """
        try:
            found = self._opened(folder)
            if self._indexes["prefix"] not in (None, found[0].prefix):
                log.info("%s: it has no index by the prefix %s", self.path, self._indexes["prefix"])
            elif self._indexes["timeout_offset"] not in (None, found[0].timeout_offset):
                log.info("%s: it has no index of the longs at %s", self.path, self._indexes["timeout_offset"])
            else:
                return found
        except FileNotFoundError:
            return None
        except (CorruptFileError, UnsupportedVersionError) as error:
            log.warning("%s", error)
        except OSError as error:
            if error.errno not in _NOT_OURS:
                raise
            log.warning("%s: %s. %s", self.path, error.strerror, _REMEDY)
        remove_file(folder, self.name)
        return None

    def parts(self, image: Image, metadata: dict[str, Any], step: Step = no_step) -> list[pa.Buffer]:
        """The bytes of the file, one buffer after the other; `step` is called after each 256 KiB."""
        parts: list[pa.Buffer] = image.parts(json.dumps(self._owner | {"metadata": metadata}).encode(), step)
        return parts

    def write(self, folder: int, parts: Sequence[pa.Buffer], step: Step = no_step) -> None:
        """Writes the file under a temporary name and renames it, replacing an earlier file.

        It never writes through a mapping: a full disk is then an error and does not kill the process. Processes that
        have mapped the earlier file keep it.

        Args:
            step: called after each 256 KiB. If it raises, nothing is left of the file.

        Raises:
            OSError: there is no space, or no right to write. Nothing is left of the file.
        """
        temporary = f"{self.name}.{uuid.uuid4().hex}.tmp"
        file = create_file(folder, temporary)
        try:
            try:
                for part in parts:
                    for start in range(0, part.size, _PIECE):
                        write_all(file, memoryview(part)[start : start + _PIECE])
                        step()
                os.fchmod(file, SEALED)
            finally:
                os.close(file)
            os.rename(temporary, self.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            remove_file(folder, temporary)
            raise

    def _opened(self, folder: int) -> tuple[Image, dict[str, Any]]:
        file = open_file(folder, self.name)
        try:
            info = os.fstat(file)
            if stat.S_IMODE(info.st_mode) != SEALED:
                raise CorruptFileError(f"its mode is {stat.S_IMODE(info.st_mode):04o}", self.path, remedy=_REMEDY)
            if info.st_size == 0:
                raise CorruptFileError("it is empty", self.path, remedy=_REMEDY)
            # From Python 3.13 on a mapping needs no file descriptor.
            options: dict[str, Any] = {"trackfd": False} if sys.version_info >= (3, 13) else {}
            try:
                mapped = mmap.mmap(file, info.st_size, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ, **options)
            except OSError as error:
                raise self._unmapped(error, info.st_size) from error
            # Pages of a shared mapping of a file can be dropped without loss.
            drop_pages = partial(mapped.madvise, mmap.MADV_DONTNEED)
            image = Image.open(pa.py_buffer(mapped), self.path, drop_pages=drop_pages)
            metadata = self._metadata(image)
            os.utime(file)
        finally:
            os.close(file)
        return image, metadata

    def _unmapped(self, error: OSError, size: int) -> Exception:
        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if error.errno != errno.ENOMEM or limit == resource.RLIM_INFINITY:
            return error
        return AddressSpaceError(
            f"the {size:,} bytes of this image of the state cannot be mapped: the process may use {limit:,} bytes of "
            "address space, and mapped files count to them",
            self.path,
            remedy="In Spark raise spark.executor.pyspark.memory (this is one core's share) by the size of the images "
            "that a worker is given; or leave it unset, and let the container limit memory",
        )

    def _metadata(self, image: Image) -> dict[str, Any]:
        try:
            found = json.loads(image.metadata)
            metadata: dict[str, Any] = found.pop("metadata")
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise CorruptFileError(f"its metadata makes no sense: {error}", self.path, remedy=_REMEDY) from error
        if found != self._owner:
            raise CorruptFileError(f"it is the image of {found}", self.path, remedy=_REMEDY)
        return metadata
