"""Reads a store's files into memory: a delta as a layer, a snapshot as an image. Records are copied as they are."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial

from hdfsstore._cext.versioned_map import Image, ImageBuilder, Layer, LayerBuilder
from hdfsstore.codecs.block_streams import Raw
from hdfsstore.codecs.compression import Reader
from hdfsstore.codecs.lineage import read_header
from hdfsstore.codecs.records import RecordChunk, RecordFormat, Start, read_chunks
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.in_order import in_order
from hdfsstore.fs.reading import Input, open_input
from hdfsstore.state.indexes import Indexes, no_indexes
from hdfsstore.state.local.store_deltas import StoreDeltas
from hdfsstore.state.versions.chain import VersionFiles, read_version
from hdfsstore.state.versions.digest import FileDigest
from hdfsstore.state.versions.files import Chain, StateFiles, VersionId
from hdfsstore.state.versions.lineages import EMPTY
from hdfsstore.state.versions.reader import VersionReader


@dataclass(frozen=True, slots=True)
class Delta:
    """A delta that was read.

    Attributes:
        lineage: from its header; empty without ids.
        digest: of the file; None with an id.
    """

    id: VersionId
    layer: Layer
    lineage: tuple[VersionId, ...]
    digest: FileDigest | None


@dataclass(frozen=True, slots=True)
class Loaded:
    """A version that was read from its files.

    Attributes:
        image, image_id, digest: of its snapshot, or of the empty store.
        deltas: those after the snapshot, oldest first.
        repaired: whether a damaged snapshot was passed over.
    """

    image: Image
    image_id: VersionId
    digest: FileDigest | None
    deltas: list[Delta]
    repaired: bool


class StoreReader(VersionReader):
    """Reads deltas as layers and snapshots as images.

    Args:
        indexes: of the images.
        local_deltas: read in place of the checkpoint's, where this host has them.
    """

    def __init__(
        self,
        fs: FileManager,
        folder: str,
        file_format: RecordFormat,
        indexes: Indexes | None = None,
        local_deltas: StoreDeltas | None = None,
    ) -> None:
        super().__init__(fs, folder, file_format)
        self._indexes = indexes or no_indexes()
        self._local_deltas = local_deltas

    def empty(self) -> Image:
        """The image of version 0."""
        return Image.empty(row_checksums=self.format.row_checksums, **self._indexes)

    def version(self, version_id: VersionId) -> Loaded:
        """Reads a version, from the newest usable snapshot on.

        Raises:
            BatchNotAvailableError, MissingFileError: the files that make up the version are not there.
            CorruptFileError: a delta is damaged, or every snapshot is.
        """
        tried: set[VersionId | None] = set()

        def read(files: VersionFiles, chain: Chain) -> Loaded:
            tried.add(chain.snapshot)
            return self._version(files, chain, repaired=len(tried) > 1)

        return read_version(self.fs, self.folder, self.format, version_id, read)

    def delta(self, version_id: VersionId) -> Delta:
        """Reads one delta. FileNotFoundError: there is none; CorruptFileError: it is damaged."""
        if version_id[1] is not None:
            with self._open_with_id(version_id) as source:
                return self._parsed(source, version_id)
        source = open_input(self.fs, self.path(version_id, "delta"), None)
        with self.digested(source, version_id, "delta") as digested:
            delta = self._parsed(digested, version_id)
            return replace(delta, digest=digested.finish())

    def deltas(self, version_ids: Iterable[VersionId]) -> list[Delta]:
        """Reads several deltas, as `delta` does."""
        with in_order(self.fs, [partial(self.delta, version_id) for version_id in version_ids]) as deltas:
            return list(deltas)

    def check_snapshot(self, version_id: VersionId) -> None:
        """Reads a snapshot to its end. FileNotFoundError: there is none; CorruptFileError: it is damaged."""
        path = self.path(version_id, "snapshot")
        with open_input(self.fs, path, None if version_id[1] is None else ()) as source:
            for _ in read_chunks(source, self.format, "snapshot", path):
                continue
            source.finish()

    def chain(self, version: int) -> Chain:
        """The files of a version without an id, by a listing."""
        return StateFiles.list(self.fs, self.folder).chain(version)

    def _open_with_id(self, version_id: VersionId) -> Input | io.BytesIO:
        content = None if self._local_deltas is None else self._local_deltas.content(version_id)
        return super()._open_with_id(version_id) if content is None else io.BytesIO(content)

    def _version(self, files: VersionFiles, chain: Chain, repaired: bool) -> Loaded:
        before = () if chain.snapshot is None else (chain.snapshot,)
        reads = [
            partial(self._delta, files, version_id, (*before, *chain.deltas[:i]))
            for i, version_id in enumerate(chain.deltas)
        ]
        with in_order(self.fs, reads) as deltas:
            image, digest = self.empty(), None
            if chain.snapshot is not None:
                with self.digested(files.open(chain.snapshot, "snapshot"), chain.snapshot, "snapshot") as source:
                    image = self._image(files.chunks(source, chain.snapshot, "snapshot"))
                    digest = source.finish()
            return Loaded(image, chain.snapshot or EMPTY, digest, list(deltas), repaired)

    def _delta(self, files: VersionFiles, version_id: VersionId, lineage: tuple[VersionId, ...]) -> Delta:
        with self.digested(files.open(version_id, "delta"), version_id, "delta") as source:
            layer = self._layer(files.chunks(source, version_id, "delta"))
            return Delta(version_id, layer, lineage, source.finish())

    def _parsed(self, source: Raw, version_id: VersionId) -> Delta:
        path = self.path(version_id, "delta")
        lineage: tuple[VersionId, ...] = ()

        def header(reader: Reader) -> Start:
            nonlocal lineage
            items, start = read_header(reader, path, version_id[0])
            lineage = tuple(items)
            return start

        chunks = read_chunks(source, self.format, "delta", path, None if version_id[1] is None else header)
        layer = self._layer(chunks)
        return Delta(version_id, layer, lineage, None)

    def _image(self, chunks: Iterable[RecordChunk]) -> Image:
        builder = ImageBuilder(row_checksums=self.format.row_checksums, **self._indexes)
        for chunk in chunks:
            builder.append(chunk.data, chunk.keys, chunk.values)
        return builder.finish()

    def _layer(self, chunks: Iterable[RecordChunk]) -> Layer:
        builder = LayerBuilder(row_checksums=self.format.row_checksums)
        for chunk in chunks:
            builder.append(chunk.data, chunk.keys, chunk.values)
        return builder.finish()
