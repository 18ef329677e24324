"""What tells a file from another that replaced it under its name: without unique ids (checkpoint format version 1)."""

from __future__ import annotations

from typing import NamedTuple

from hdfsstore._cext.crc32c import crc32c
from hdfsstore.codecs.records import FileKind
from hdfsstore.fs import Input

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
