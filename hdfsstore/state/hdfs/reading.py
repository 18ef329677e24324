"""Reads a store's files into memory: a delta as a layer, a snapshot as an image, records copied as they stand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from pyarrow.fs import FileSystem

from hdfsstore._cext.crc32c import crc32c
from hdfsstore._cext.versioned_map import Image, ImageBuilder, Layer, LayerBuilder, PrefixPlan
from hdfsstore.codecs.compression import Reader, open_reader
from hdfsstore.codecs.lineage import read_header
from hdfsstore.codecs.records import FileKind, RecordFormat, Window, read_windows
from hdfsstore.fs import Input, modified_at, open_input
from hdfsstore.state.hdfs.files import Chain, StateFiles, VersionId
from hdfsstore.state.hdfs.version_files import VersionFiles, read_version
from hdfsstore.state.hdfs.versions import EMPTY, FileDigest

_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class Delta:
    """A delta that was read.

    Attributes:
        lineage: what its header says; empty without ids.
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
        image, image_id, digest: the snapshot that it begins with, or the empty store.
        deltas: what follows, oldest first.
    """

    image: Image
    image_id: VersionId
    digest: FileDigest | None
    deltas: list[Delta]


class StoreReader:
    """Reads the files of one store. Threads may share it.

    Args:
        fs, folder: where they are.
        prefix: what prefix scans go by.
    """

    def __init__(
        self, fs: FileSystem, folder: str, file_format: RecordFormat, prefix: PrefixPlan | None = None
    ) -> None:
        self.folder = folder
        self.row_checksums = file_format.row_checksums
        self._fs = fs
        self._format = file_format
        self._prefix = prefix

    def empty(self) -> Image:
        """The image of version 0."""
        return Image.empty(row_checksums=self.row_checksums, prefix=self._prefix)

    def version(self, version_id: VersionId) -> Loaded:
        """A version, from the newest usable snapshot on.

        Raises:
            BatchNotAvailableError, MissingFileError: the files that make up the version are not there.
            CorruptFileError: a delta is damaged, or every snapshot is.
        """
        return read_version(self._fs, self.folder, self._format, version_id, self._version)

    def delta(self, version_id: VersionId) -> Delta:
        """One delta. FileNotFoundError: there is none; CorruptFileError: it is damaged."""
        path = StateFiles.path_of(self.folder, version_id, "delta")
        lineage: tuple[VersionId, ...] = ()

        def header(reader: Reader) -> int:
            nonlocal lineage
            items, size = read_header(reader, path, version_id[0])
            lineage = tuple(items)
            return size

        with_id = version_id[1] is not None
        # Files with ids are only ours, and have no side files.
        with self._source(open_input(self._fs, path, () if with_id else None), version_id, "delta") as source:
            layer = self._layer(read_windows(source, self._format, "delta", path, header if with_id else None))
            return Delta(version_id, layer, lineage, source.finish())

    def lineage(self, version_id: VersionId) -> tuple[VersionId, ...]:
        """What the header of a delta with an id says. FileNotFoundError: there is none; CorruptFileError: damaged."""
        path = StateFiles.path_of(self.folder, version_id, "delta")
        with open_input(self._fs, path, ()) as source:
            reader = open_reader(self._format.compression_codec, source, path=path)
            return tuple(read_header(reader, path, version_id[0])[0])

    def check_snapshot(self, version_id: VersionId) -> None:
        """Reads a snapshot to its end. FileNotFoundError: there is none; CorruptFileError: it is damaged."""
        path = StateFiles.path_of(self.folder, version_id, "snapshot")
        with open_input(self._fs, path, None if version_id[1] is None else ()) as source:
            for _ in read_windows(source, self._format, "snapshot", path):
                continue
            source.finish()

    def chain(self, version: int) -> Chain:
        """The files of a version without an id, by a listing."""
        return StateFiles.list(self._fs, self.folder).chain(version)

    def is_unchanged(self, version_id: VersionId, digest: FileDigest | None) -> bool:
        """Whether the version's file is the one that was read or written: one read of it, where there is no id."""
        if version_id == EMPTY or version_id[1] is not None:
            return True
        path = StateFiles.path_of(self.folder, version_id, "delta" if digest is None else digest.kind)
        if digest is None or modified_at(self._fs, path) != digest.modified:
            return False
        try:
            with self._source(open_input(self._fs, path, ()), version_id, digest.kind) as source:
                return source.finish() == digest
        except FileNotFoundError:
            return False

    def _version(self, files: VersionFiles, chain: Chain) -> Loaded:
        image, digest, before = self.empty(), None, chain.deltas[:0]
        if chain.snapshot is not None:
            with self._source(files.open(chain.snapshot, "snapshot"), chain.snapshot, "snapshot") as source:
                image = self._image(files.windows(source, chain.snapshot, "snapshot"))
                digest = source.finish()
            before = (chain.snapshot,)
        loaded = Loaded(image, chain.snapshot or EMPTY, digest, [])
        for i, version_id in enumerate(chain.deltas):
            with self._source(files.open(version_id, "delta"), version_id, "delta") as source:
                layer = self._layer(files.windows(source, version_id, "delta"))
                loaded.deltas.append(Delta(version_id, layer, (*before, *chain.deltas[:i]), source.finish()))
        return loaded

    @contextmanager
    def _source(self, source: Input, version_id: VersionId, kind: FileKind) -> Iterator[_Source]:
        with closing(source):
            if version_id[1] is not None:
                yield _Source(source)
            else:
                # Asked for after it was opened: a file that comes in between is older than it seems, and read again.
                path = StateFiles.path_of(self.folder, version_id, kind)
                yield _Source(source, FileDigest(kind, 0, 0, modified_at(self._fs, path)))

    def _image(self, windows: Iterable[Window]) -> Image:
        builder = ImageBuilder(row_checksums=self.row_checksums, prefix=self._prefix)
        for window in windows:
            builder.append(window.data, window.keys, window.values)
        return builder.finish()

    def _layer(self, windows: Iterable[Window]) -> Layer:
        builder = LayerBuilder(row_checksums=self.row_checksums)
        for window in windows:
            builder.append(window.data, window.keys, window.values)
        return builder.finish()


class _Source:
    """A file that is read, and what went by of it, where that is to be known."""

    def __init__(self, source: Input, digest: FileDigest | None = None) -> None:
        self._source = source
        self._digest = digest

    def readinto(self, buffer: memoryview) -> int:
        n = self._source.readinto(buffer)
        if self._digest is not None:
            kind, size, checksum, modified = self._digest
            self._digest = FileDigest(kind, size + n, crc32c(buffer[:n], checksum), modified)
        return n

    def finish(self) -> FileDigest | None:
        """Reads what is left of it."""
        self._source.finish()
        if self._digest is not None:
            block = memoryview(bytearray(_BLOCK))
            while self.readinto(block):
                pass
        return self._digest
