"""Which records of a chain hold, where its files are read from the newest delta back to the snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from hdfsstore._cext.key_set import KeySet
from hdfsstore.codecs.records import Window
from hdfsstore.fs import Input
from hdfsstore.state.versions.chain import VersionFiles
from hdfsstore.state.versions.files import VersionId

T = TypeVar("T")


class Decided:
    """Each key's newest record: give it the deltas of one version from the newest back, and then the snapshot.

    Within a delta the last record of a key holds. So only at a delta's end it is known which do; a delta is read twice,
    or it is taken that each of its keys is there once, as in those of most operators, until one comes again.
    """

    def __init__(self, files: VersionFiles) -> None:
        self._files = files
        self._keys = KeySet()

    def by_delta(self, version_id: VersionId, source: Input) -> Iterator[Window]:
        """What a delta decides; all that is handed on is certain. A delta of more than one window is read twice."""
        only: Window | None = None
        for window in self._noted(version_id, source):
            only = window if window.last and len(window) == self._keys.noted else None
        if only is not None:
            yield from self._kept(only, 0)
        else:
            yield from self._again(version_id, source)
        self._keys.settle()

    def by_delta_at_once(self, version_id: VersionId, source: Input, convert: Callable[[Window], T]) -> list[T]:
        """The same as `convert` of each window; read again only where a key is in two of them."""
        converted: list[T] = []
        for window in self._noted(version_id, source):
            if self._keys.superseded:
                converted.clear()
            else:
                converted += map(convert, self._kept(window, self._keys.noted - len(window)))
        if self._keys.superseded:
            converted += [convert(window) for window in self._again(version_id, source)]
        self._keys.settle()
        return converted

    def rest(self, version_id: VersionId, source: Input) -> Iterator[Window]:
        """What a snapshot has of keys that no delta has."""
        for window in self._files.windows(source, version_id, "snapshot"):
            kept = self._keys.keep_absent(window.data, window.keys, window.values)
            if kept:
                yield window.first(kept)
        source.finish()

    def _noted(self, version_id: VersionId, source: Input) -> Iterator[Window]:
        for window in self._files.windows(source, version_id, "delta"):
            self._keys.note(window.data, window.keys, window.values)
            yield window
        source.finish()

    def _again(self, version_id: VersionId, source: Input) -> Iterator[Window]:
        if not self._keys.noted:
            return
        source.rewind()
        first = 0
        for window in self._files.windows(source, version_id, "delta"):
            yield from self._kept(window, first)
            first += len(window)

    def _kept(self, window: Window, first: int) -> Iterator[Window]:
        kept = self._keys.keep_noted(window.keys, window.values, first)
        if kept:
            yield window.first(kept)
