"""Holds bytes until they are read once: in memory, and in a file when they grow.

The file is open only while it is written to or read: of a store with thousands of partitions each has one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from hdfsstore.codecs.records import CHUNK_BYTES
from hdfsstore.fs import typed_errors


class Spool:
    """Bytes that are written one after the other.

    Args:
        path: of the file, which is not there yet. Its folder is there.
        memory: so many bytes are held in memory at most.

    Attributes:
        size: the bytes that were written.
    """

    def __init__(self, path: Path, memory: int) -> None:
        self._path = path
        self._memory = memory
        self._held = bytearray()
        self.size = 0

    def write(self, data: bytes) -> None:
        """Raises StateStoreError if the disk is full, or the file cannot be written."""
        self._held += data
        self.size += len(data)
        if len(self._held) > self._memory:
            with typed_errors.writing(str(self._path)), self._path.open("ab") as file:
                file.write(self._held)
            self._held.clear()

    def pieces(self) -> Iterator[bytes]:
        """All bytes, in pieces."""
        if self.size > len(self._held):
            with typed_errors.reading(str(self._path)), self._path.open("rb") as file:
                while piece := file.read(CHUNK_BYTES):
                    yield piece
        yield bytes(self._held)

    def close(self) -> None:
        """Drops the bytes."""
        self._held.clear()
        with suppress(OSError):  # the folder goes in the end
            self._path.unlink(missing_ok=True)
