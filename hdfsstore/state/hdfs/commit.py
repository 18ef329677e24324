"""Writes the next version of a store: what a store updated, as a delta; or all of it, where the format changes.

    format  base written in  file                    content
    2       2, or version 0  <v>_<uuid>.delta        header with the lineage | records of the updates
    2       1                <v>_<uuid>.snapshot     records of everything: lineages begin here
    1       1, or version 0  <v>.delta               records of the updates; replaces what an earlier run wrote
    1       2                <v>.snapshot            records of everything; replaces it likewise

All of it compressed, and published whole or not at all.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyarrow.fs import FileSystem, FileType

from hdfsstore._cext.crc32c import crc32c
from hdfsstore._cext.versioned_map import Layer, Merger, PrefixPlan
from hdfsstore.codecs.compression import compressed
from hdfsstore.codecs.lineage import LineageItem, encode_header, fits, newest_that_fit
from hdfsstore.codecs.records import FileKind, RecordFormat
from hdfsstore.fs import file_types, modified_at
from hdfsstore.publish import publish, remove
from hdfsstore.state.hdfs.files import StateFiles, VersionId
from hdfsstore.state.hdfs.snapshots import merged
from hdfsstore.state.hdfs.versions import FileDigest, HeldVersion, LayerTree, Versions


class Committer:
    """Writes versions of one store. Threads may share it.

    Args:
        prefix: what prefix scans go by.
        checkpoint_format_version: that of the versions that are written.
    """

    def __init__(
        self,
        fs: FileSystem,
        folder: str,
        file_format: RecordFormat,
        prefix: PrefixPlan | None,
        checkpoint_format_version: int,
        versions: Versions,
    ) -> None:
        self._fs = fs
        self._folder = folder
        self._format = file_format
        self._prefix = prefix
        self._with_ids = checkpoint_format_version == 2
        self._versions = versions
        self.after_fork()

    def after_fork(self) -> None:
        """In a forked child: no thread is left that could hold the lock."""
        # In version 1 two attempts write one file, and memory must hold what the last of them wrote.
        self._one_file = threading.Lock()

    def commit(self, base: HeldVersion, updates: Layer) -> HeldVersion:
        """Writes `updates` on top of `base` and holds the version.

        Raises:
            StateStoreError: the file could not be written. What was there before is as it was.
            ImageDamagedError: the base has to be written too, and cannot be read.
        """
        version = base.id[0] + 1
        switches = base.id[0] > 0 and (base.id[1] is not None) is not self._with_ids
        if self._with_ids:
            version_id: VersionId = (version, str(uuid.uuid4()))
            return self._snapshot(base, updates, version_id) if switches else self._delta(base, updates, version_id)
        with self._one_file:
            version_id = (version, None)
            return self._snapshot(base, updates, version_id) if switches else self._delta(base, updates, version_id)

    def _delta(self, base: HeldVersion, updates: Layer, version_id: VersionId) -> HeldVersion:
        lineage = self._versions.lineage_after(base)
        if self._with_ids:
            pruned = self._pruned([LineageItem(v, unique_id) for v, unique_id in lineage if unique_id is not None])
            self._publish(version_id, "delta", [pa.py_buffer(encode_header(pruned)), updates.records])
            return self._versions.append(base, [(version_id, updates)], tuple(pruned), committed=True)
        self._remove_other(version_id, "snapshot")
        digest = self._publish(version_id, "delta", [updates.records])
        # Once more: a snapshot of the earlier run may have been on its way (Snapshots looks for this delta after it).
        self._remove_other(version_id, "snapshot")
        return self._versions.append(base, [(version_id, updates)], lineage, digest, committed=True)

    def _snapshot(self, base: HeldVersion, updates: Layer, version_id: VersionId) -> HeldVersion:
        """Writes everything, so that no load mixes files of the two formats."""
        layers = [layer for _, layer in base.deltas()]
        merger = Merger(base.tree.image, [*layers, updates], prefix=self._prefix)
        digest = self._publish(version_id, "snapshot", merged(merger))
        if not self._with_ids:
            self._remove_other(version_id, "delta")
        self._versions.note_snapshot(version_id)
        tree = LayerTree(merger.finish(), version_id)
        held = HeldVersion(version_id, tree, 0, (), digest, committed=True)
        self._versions.add(held)
        return held

    def _pruned(self, lineage: list[LineageItem]) -> list[LineageItem]:
        """What a header can hold of it. A load goes on from there by the lineage of the delta at its begin."""
        if fits(lineage):
            return lineage
        attempts = [i for i, item in enumerate(lineage) if self._versions.was_attempted(item)]
        if attempts and fits(lineage[attempts[-1] :]):
            return lineage[attempts[-1] :]
        return newest_that_fit(lineage)

    def _remove_other(self, version_id: VersionId, kind: FileKind) -> None:
        """Removes what an earlier run of the version left, which would be read in place of what is written now."""
        path = StateFiles.path_of(self._folder, version_id, kind)
        if file_types(self._fs, [path]) != [FileType.NotFound]:
            remove(self._fs, [path])
            self._versions.note_removed(version_id)

    def _publish(self, version_id: VersionId, kind: FileKind, content: Iterable[pa.Buffer]) -> FileDigest | None:
        """Writes the version's file; returns what there is in the place of an id, where it has none."""
        path = StateFiles.path_of(self._folder, version_id, kind)
        pieces = compressed(self._format.compression_codec, content)
        if version_id[1] is not None:
            publish(self._fs, path, pieces, overwrite=True, unique_name=True)
            return None
        size = checksum = 0

        def counted() -> Iterator[bytes]:
            nonlocal size, checksum
            for piece in pieces:
                size, checksum = size + len(piece), crc32c(piece, checksum)
                yield piece

        publish(self._fs, path, counted(), overwrite=True)
        return FileDigest(kind, size, checksum, modified_at(self._fs, path))
