"""Tells a file from another one that has replaced it under the same name (checkpoint format version 1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from hdfsstore._cext.crc32c import crc32c
from hdfsstore.codecs.records import FileKind
from hdfsstore.fs.reading import Input

if TYPE_CHECKING:
    from typing_extensions import Buffer

_BLOCK = 1 << 20


class FileDigest(NamedTuple):
    """A version's file as it was read or written, for versions without a unique id: it tells attempts apart.

    Two attempts may write the same bytes, such as an empty delta, on top of different states. Therefore it has the
    time, too.

    Attributes:
        size: bytes.
        modified: nanoseconds since 1970, by the filesystem; 0 where the filesystem does not say.
    """

    kind: FileKind
    size: int
    crc32c: int
    modified: int


class DigestedInput:
    """A file that is read, with the digest of the bytes so far where one is wanted."""

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
        """Reads the file to its end. Returns its digest, where one is wanted."""
        self._source.finish()
        if self._digest is not None:
            block = memoryview(bytearray(_BLOCK))
            while self.readinto(block):
                pass
        return self._digest


class DigestedPieces:
    """The pieces of a file that is written, with the digest of the pieces so far. Iterate over it once.

    Attributes:
        size: bytes so far.
    """

    def __init__(self, pieces: Iterable[Buffer], kind: FileKind, *, has_id: bool) -> None:
        self.size = 0
        self._pieces = pieces
        self._kind = kind
        self._has_id = has_id
        self._crc32c = 0

    def __iter__(self) -> Iterator[Buffer]:
        for piece in self._pieces:
            self.size += memoryview(piece).nbytes
            if not self._has_id:
                self._crc32c = crc32c(piece, self._crc32c)
            yield piece

    def digest(self, modified: int) -> FileDigest | None:
        """The digest of the whole file; None where its name has an id, and so needs no digest."""
        return None if self._has_id else FileDigest(self._kind, self.size, self._crc32c, modified)
