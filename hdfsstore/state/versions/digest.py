"""What tells a file from another that replaced it under its name: without unique ids (checkpoint format version 1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from hdfsstore._cext.crc32c import crc32c
from hdfsstore.codecs.records import FileKind
from hdfsstore.fs import Input

if TYPE_CHECKING:
    from typing_extensions import Buffer

_BLOCK = 1 << 20


class FileDigest(NamedTuple):
    """What a version's file was when it was read or written: all that tells one run of a version from another's.

    Without ids (checkpoint format version 1), that is. Two runs may write the same bytes, an empty delta say, on top of
    different states: hence the time.

    Attributes:
        modified: nanoseconds since 1970, as the filesystem has it; 0 where it has none.
    """

    kind: FileKind
    size: int
    crc32c: int
    modified: int


class DigestedInput:
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


class DigestedPieces:
    """The pieces of a file that is written, with the digest of what has gone by. Iterate over it once.

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
        """The digest of the whole file; None where its name has an id, which needs no digest."""
        return None if self._has_id else FileDigest(self._kind, self.size, self._crc32c, modified)
