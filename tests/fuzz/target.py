"""What a fuzz target is, and what several of them share."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from hdfsstore._cext.crc32c import crc32c
from tests.fuzz.damage import Input

DATA = Path(__file__).parents[1] / "data"
PATH = "the-damaged-file"


class Target(ABC):
    """One reader.

    Attributes:
        exact: a checksum covers all of the input, so that small damage is found or changes nothing.
        has_path, has_offset: what the errors tell (the offset: where bytes are at fault).
    """

    exact: bool = False
    has_path: bool = True
    has_offset: bool = True

    @abstractmethod
    def inputs(self) -> list[Input]:
        """The undamaged inputs, the same ones in every process."""

    @abstractmethod
    def read(self, origin: str, data: bytes, /) -> object:
        """The answer, comparable with that of another input, or a StateStoreError."""

    def close(self) -> None:  # noqa: B027 (most have nothing to close)
        """Called at the end."""


def records_of(count: int, *, checksums: bool, tombstones: bool = False) -> bytes:
    data = bytearray()
    for i in range(count):
        key, value = struct.pack("<qq", 0, i), struct.pack("<qqq", 0, i * i, -i)
        tombstone = tombstones and i % 3 == 2
        if checksums:
            key = struct.pack("<I", crc32c(key)) + key if tombstone else key
            value = struct.pack("<I", crc32c(key + value)) + value
        data += (
            struct.pack(">i", len(key))
            + key
            + (struct.pack(">i", -1) if tombstone else struct.pack(">i", len(value)) + value)
        )
    return bytes(data) + struct.pack(">i", -1)


def slices(data: memoryview, spans: pa.Buffer) -> list[bytes | None]:
    numbers: Sequence[int] = memoryview(spans).cast("B").cast("i").tolist()
    pairs = zip(numbers[::2], numbers[1::2], strict=True)
    return [None if size < 0 else bytes(data[start : start + size]) for start, size in pairs]
