"""Writes the next version of a store: its updates, or the whole version if the checkpoint format changes.

    format  base written in  file                       content
    2       2, or version 0  <v>_<uuid>.<changes>       header with the lineage | records of the updates
    2       1                <v>_<uuid>.<whole>         the whole version: lineages begin here
    1       1, or version 0  <v>.<changes>              records of the updates; replaces an earlier attempt's file
    1       2                <v>.<whole>                the whole version; replaces an earlier attempt's files
    1       1, a late one    <v>.<whole>                the same, if only an earlier attempt's snapshot of <v> is left

The extensions are the backend's. Records are compressed, and every file is published whole or not at all.
"""

from __future__ import annotations

import logging
import threading
import uuid
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Generic, TypeVar

from pyarrow.fs import FileType

from hdfsstore.codecs.compression import compressed
from hdfsstore.codecs.lineage import LineageItem, encode_header
from hdfsstore.codecs.records import FileKind
from hdfsstore.fs.publish import publish, remove
from hdfsstore.fs.reading import file_types, modified_at
from hdfsstore.state.versions.digest import DigestedPieces, FileDigest
from hdfsstore.state.versions.files import StateFiles, VersionId
from hdfsstore.state.versions.lineages import Lineages, Version
from hdfsstore.state.versions.reader import VersionReader

if TYPE_CHECKING:
    from typing_extensions import Buffer

log = logging.getLogger("hdfsstore.state.committer")
V = TypeVar("V", bound=Version)
U = TypeVar("U")


class Committer(ABC, Generic[V, U]):
    """Writes versions of one store. Threads may share it.

    Args:
        reader: of the store's files; it says where and how they are written.
        checkpoint_format_version: of the versions that are written.
        lineages: of the store's versions.
        counts: counts full snapshots.
    """

    def __init__(
        self, reader: VersionReader, checkpoint_format_version: int, lineages: Lineages, counts: Counter[str]
    ) -> None:
        self._reader = reader
        self._with_ids = checkpoint_format_version == 2
        self._lineages = lineages
        self._counts = counts
        self.after_fork()

    def after_fork(self) -> None:
        """In a forked child: no thread is left that could hold the lock."""
        # In format version 1 two attempts write the same file, and the cached version must be the one written last.
        self._one_file = threading.Lock()

    def commit(self, base: V, updates: U) -> VersionId:
        """Writes `updates` on top of `base` and caches the version.

        Raises:
            StateStoreError: the file could not be written. The files from before are unchanged.
            ImageDamagedError: the base has to be written too, and cannot be read.
        """
        version = base.id[0] + 1
        switches = base.id[0] > 0 and (base.id[1] is not None) is not self._with_ids
        if self._with_ids:
            version_id: VersionId = (version, str(uuid.uuid4()))
            self._write(base, updates, version_id, switches)
        else:
            version_id = (version, None)
            with self._one_file:
                self._write(base, updates, version_id, switches)
        return version_id

    @abstractmethod
    def _records(self, updates: U) -> Iterable[Buffer]:
        """The records of the updates, end mark included."""

    @abstractmethod
    def _cache(
        self,
        base: V,
        updates: U,
        version_id: VersionId,
        lineage: tuple[VersionId, ...],
        digest: FileDigest | None,
    ) -> None:
        """Caches a version that was written."""

    @abstractmethod
    def _write_whole(self, base: V, updates: U, version_id: VersionId) -> None:
        """Writes the whole version, so that no load mixes files of the two formats, and caches it."""

    def _write(self, base: V, updates: U, version_id: VersionId, switches: bool) -> None:
        if switches or (not self._with_ids and self._needs_snapshot(version_id)):
            self._write_whole(base, updates, version_id)
            self._counts["forceSnapshotCount"] += 1
            if switches:
                self._say_switch(version_id)
            return
        lineage = self._lineages.lineage_after(base)
        digest = None
        if self._with_ids:
            items = [LineageItem(v, unique_id) for v, unique_id in lineage if unique_id is not None]
            pruned = self._lineages.pruned(items)
            self._publish(version_id, "delta", [encode_header(pruned), *self._records(updates)])
            lineage = tuple(pruned)
        else:
            self._remove_other(version_id, "snapshot")
            digest = self._publish(version_id, "delta", self._records(updates))
            # Once more: the upload of the earlier attempt's snapshot may have ended since. (An upload, in turn, checks
            # this file when it ends.)
            self._remove_other(version_id, "snapshot")
        self._cache(base, updates, version_id, lineage, digest)

    def _say_switch(self, version_id: VersionId) -> None:
        path = self._reader.path(version_id, "snapshot")
        if self._with_ids:
            log.warning(
                "%s: the store has gone over from checkpoint format 1 to 2, so that this version is written whole. "
                "Versions have unique ids from here on: keep the id that commit() returns, without which nobody finds "
                "the version, Spark's own store included. checkpoint_format_version=1 stays with the old format",
                path,
            )
        else:
            log.warning(
                "%s: the store has gone over from checkpoint format 2 to 1, so that this version is written whole", path
            )

    def _needs_snapshot(self, version_id: VersionId) -> bool:
        """Whether later versions need the snapshot that an earlier attempt at this version has left."""
        if file_types(self._reader.fs, [self._reader.path(version_id, "snapshot")]) == [FileType.NotFound]:
            return False
        listing = StateFiles.list(self._reader.fs, self._reader.folder, self._reader.format.extensions)
        return listing.needs_snapshot(version_id[0])

    def _remove_other(self, version_id: VersionId, kind: FileKind) -> None:
        """Removes an earlier attempt's file of the version, which would be read instead of the new one."""
        path = self._reader.path(version_id, kind)
        if file_types(self._reader.fs, [path]) != [FileType.NotFound]:
            remove(self._reader.fs, [path])
            self._lineages.note_removed(version_id)

    def _publish(self, version_id: VersionId, kind: FileKind, content: Iterable[Buffer]) -> FileDigest | None:
        """Writes the version's file. Returns its digest; None where the version has an id."""
        return self._publish_as_is(version_id, kind, compressed(self._reader.format.compression_codec, content))

    def _publish_as_is(self, version_id: VersionId, kind: FileKind, pieces: Iterable[bytes]) -> FileDigest | None:
        path = self._reader.path(version_id, kind)
        if version_id[1] is not None:
            publish(self._reader.fs, path, pieces, overwrite=True, unique_name=True)
            return None
        digested = DigestedPieces(pieces, kind, has_id=False)
        publish(self._reader.fs, path, digested, overwrite=True)
        return digested.digest(modified_at(self._reader.fs, path))
