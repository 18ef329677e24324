"""Picks the newest record of each key while a chain is read from its newest delta back to its snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from hdfsstore._cext.key_set import KeySet
from hdfsstore.codecs.records import FileKind, RecordChunk
from hdfsstore.fs.kept_input import KeptInput
from hdfsstore.fs.reading import Input
from hdfsstore.state.base.key_part import ALL_PARTS, KeyPart
from hdfsstore.state.versions.chain import VersionFiles
from hdfsstore.state.versions.files import VersionId

T = TypeVar("T")


class NewestRecords:
    """Each key's newest record. Takes the deltas of one version from the newest back, and then the snapshot.

    Within a delta the last record of a key counts, and only the delta's end shows which one that is. Therefore a delta
    is read twice; or each of its keys is presumed to be there once, as with most operators, until one comes again.

    Args:
        files: of the version.
        part: of the keys; all others are passed over.
    """

    def __init__(self, files: VersionFiles, part: KeyPart = ALL_PARTS) -> None:
        self._files = files
        self._part = part
        self._keys = KeySet()

    def by_delta(self, version_id: VersionId, source: Input) -> Iterator[RecordChunk]:
        """The newest records of a delta. A delta of more than one chunk is read twice before any record is yielded."""
        only: RecordChunk | None = None
        for chunk in self._noted(version_id, source):
            only = chunk if chunk.last and len(chunk) == self._keys.noted else None
        if only is not None:
            yield from self._kept(only, 0)
        else:
            yield from self._again(version_id, source)
        self._keys.settle()

    def by_delta_at_once(self, version_id: VersionId, source: Input, convert: Callable[[RecordChunk], T]) -> list[T]:
        """The same, as `convert` of each chunk. The delta is read again only if a key is in two chunks."""
        converted: list[T] = []
        for chunk in self._noted(version_id, source):
            if self._keys.superseded:
                converted.clear()
            else:
                converted += map(convert, self._kept(chunk, self._keys.noted - len(chunk)))
        if self._keys.superseded:
            converted += [convert(chunk) for chunk in self._again(version_id, source)]
        self._keys.settle()
        return converted

    def rest(self, version_id: VersionId, source: Input | KeptInput) -> Iterator[RecordChunk]:
        """The records of a snapshot whose keys are in no delta."""
        for chunk in self._chunks(source, version_id, "snapshot"):
            kept = self._keys.keep_absent(chunk.data, chunk.keys, chunk.values)
            if kept:
                yield chunk.first(kept)
        source.finish()

    def _chunks(self, source: Input | KeptInput, version_id: VersionId, kind: FileKind) -> Iterator[RecordChunk]:
        return map(self._part.of, self._files.chunks(source, version_id, kind))

    def _noted(self, version_id: VersionId, source: Input) -> Iterator[RecordChunk]:
        for chunk in self._chunks(source, version_id, "delta"):
            self._keys.note(chunk.data, chunk.keys, chunk.values)
            yield chunk
        source.finish()

    def _again(self, version_id: VersionId, source: Input) -> Iterator[RecordChunk]:
        if not self._keys.noted:
            return
        source.rewind()
        first = 0
        for chunk in self._chunks(source, version_id, "delta"):
            yield from self._kept(chunk, first)
            first += len(chunk)

    def _kept(self, chunk: RecordChunk, first: int) -> Iterator[RecordChunk]:
        kept = self._keys.keep_noted(chunk.keys, chunk.values, first)
        if kept:
            yield chunk.first(kept)
