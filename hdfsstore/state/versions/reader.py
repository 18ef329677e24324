"""Reads lineages and digests from the files of a store, of any backend."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from io import BytesIO

from pyarrow.fs import FileType

from hdfsstore.codecs.compression import open_reader
from hdfsstore.codecs.lineage import read_header
from hdfsstore.codecs.records import FileKind, RecordFormat
from hdfsstore.errors import FileChangedError
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.reading import Input, modified_at, open_input
from hdfsstore.state.versions.digest import DigestedInput, FileDigest
from hdfsstore.state.versions.files import StateFiles, VersionId
from hdfsstore.state.versions.lineages import EMPTY


class VersionReader:
    """Reads the files of one store. Threads may share it.

    Attributes:
        fs, folder: where the files are.
        format: how they are written.
    """

    def __init__(self, fs: FileManager, folder: str, file_format: RecordFormat) -> None:
        self.fs = fs
        self.folder = folder
        self.format = file_format

    def path(self, version_id: VersionId, kind: FileKind) -> str:
        """Path of a version's file."""
        return StateFiles.path_of(self.folder, version_id, kind, self.format.extensions)

    def lineage(self, version_id: VersionId) -> tuple[VersionId, ...]:
        """The lineage in the header of a delta with an id.

        Raises:
            FileNotFoundError: there is no such delta.
            CorruptFileError: it is damaged.
        """
        path = self.path(version_id, "delta")
        with self._open_with_id(version_id) as source:
            reader = open_reader(self.format.compression_codec, source, path=path)
            return tuple(read_header(reader, path, version_id[0], typed=self.format.typed)[0])

    def _open_with_id(self, version_id: VersionId) -> Input | BytesIO:
        """Opens a delta with an id. Only we write such files, without checksum files."""
        return open_input(self.fs, self.path(version_id, "delta"), ())

    def is_unchanged(self, version_id: VersionId, digest: FileDigest | None) -> bool:
        """Whether the version's file still has the digest. Reads the file, where the version has no id."""
        if version_id == EMPTY or version_id[1] is not None:
            return True
        path = self.path(version_id, "delta" if digest is None else digest.kind)
        if digest is None or modified_at(self.fs, path) != digest.modified:
            return False
        try:
            with self.digested(open_input(self.fs, path, ()), version_id, digest.kind) as source:
                return source.finish() == digest
        except (FileNotFoundError, FileChangedError):
            return False

    def is_unchanged_or_gone(self, version_id: VersionId, digest: FileDigest) -> bool:
        """The same for a snapshot that may be gone. It is read only where its time differs."""
        path = self.path(version_id, digest.kind)
        info = self.fs.file_infos([path])[0]
        if info.type == FileType.NotFound:
            return True
        if info.size != digest.size:
            return False
        if info.mtime_ns and info.mtime_ns == digest.modified:
            return True
        try:
            with self.digested(open_input(self.fs, path, ()), version_id, digest.kind) as source:
                found = source.finish()
                return found is not None and found.crc32c == digest.crc32c
        except FileNotFoundError:
            return True
        except FileChangedError:
            return False

    @contextmanager
    def digested(self, source: Input, version_id: VersionId, kind: FileKind) -> Iterator[DigestedInput]:
        """Wraps an open file, with its digest where the version has no id, and closes it in the end."""
        with closing(source):
            if version_id[1] is not None:
                yield DigestedInput(source)
            else:
                # Asked for after the file is open. If it is replaced in between, the time is newer than the content,
                # and the file is read again.
                path = self.path(version_id, kind)
                yield DigestedInput(source, FileDigest(kind, 0, 0, modified_at(self.fs, path)))
