"""Reads and writes the block framings of snappy-java (SnappyOutputStream) and compress-lzf (LZFOutputStream).

snappy:  8 bytes   82 'S' 'N' 'A' 'P' 'P' 'Y' 00
         int32 BE  version of the writer, 1
         int32 BE  oldest version that can read this, 1
         repeat:   int32 BE length | that many bytes of raw snappy, which start with the raw length (varint)
         Streams may be concatenated: a header instead of a length starts the next one.
lzf:     repeat:   'Z' 'V' 00 | int16 BE raw length | raw bytes
                   'Z' 'V' 01 | int16 BE length | int16 BE raw length | that many bytes of LZF
"""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from hdfsstore._cext import lzf
from hdfsstore.errors import CorruptFileError, UnsupportedVersionError

if TYPE_CHECKING:
    from typing_extensions import Buffer


class Raw(Protocol):
    """The source of compressed bytes."""

    def readinto(self, buffer: memoryview, /) -> int: ...


class BlockReader(ABC):
    """Reads the decoded blocks of a compressed stream as one stream of bytes."""

    def __init__(self, raw: Raw, path: str) -> None:
        self._raw = raw
        self._path = path
        self._input = memoryview(bytearray(64 * 1024))
        self._unread = self._input[:0]
        self._offset = 0
        self._block = memoryview(b"")
        self._block_start = 0

    def readinto(self, buffer: Buffer, /) -> int:
        """Fills as much of the buffer as there is; 0 only at the end of the stream."""
        target = memoryview(buffer).cast("B")
        filled = 0
        while filled < len(target):
            if not self._block:
                self._block_start = self._offset
                block = self._next_block()
                if block is None:
                    break
                self._block = memoryview(block).cast("B")
            size = min(len(self._block), len(target) - filled)
            target[filled : filled + size] = self._block[:size]
            self._block = self._block[size:]
            filled += size
        return filled

    @abstractmethod
    def _next_block(self) -> Buffer | None:
        """The next decoded block; None at the end of the stream."""

    def _read(self, size: int, *, or_end: bool = False) -> bytes:
        """Reads `size` compressed bytes. With or_end it returns b"" if the file ends here."""
        data = bytearray()
        while len(data) < size:
            if not self._unread:
                self._unread = self._input[: self._raw.readinto(self._input)]
                if not self._unread:
                    if or_end and not data:
                        break
                    raise CorruptFileError("the compressed stream is cut off", self._path, self._offset)
            part = self._unread[: size - len(data)]
            data += part
            self._unread = self._unread[len(part) :]
            self._offset += len(part)
        return bytes(data)

    def _corrupt(self, problem: str) -> CorruptFileError:
        return CorruptFileError(problem, self._path, self._block_start)


_SNAPPY_MAGIC = b"\x82SNAPPY\0"
_SNAPPY_VERSION = 1
_SNAPPY_BLOCK_SIZE = 32 * 1024


class SnappyReader(BlockReader):
    """Reads snappy-java's stream."""

    def __init__(self, raw: Raw, path: str) -> None:
        super().__init__(raw, path)
        self._codec = pa.Codec("snappy")
        self._read_header(self._read(len(_SNAPPY_MAGIC)))

    def _read_header(self, magic: bytes) -> None:
        if magic != _SNAPPY_MAGIC:
            raise self._corrupt("this is not a snappy-java stream")
        _, oldest_reader = struct.unpack(">ii", self._read(8))
        if oldest_reader > _SNAPPY_VERSION:
            raise UnsupportedVersionError(
                f"the snappy-java stream is for readers of version {oldest_reader}, this one has {_SNAPPY_VERSION}",
                self._path,
                self._block_start,
            )

    def _next_block(self) -> Buffer | None:
        head = self._read(4, or_end=True)
        if not head:
            return None
        if head == _SNAPPY_MAGIC[:4]:
            self._read_header(head + self._read(4))
            return b""
        size = int.from_bytes(head, "big", signed=True)
        if size <= 0:
            raise self._corrupt(f"a snappy block cannot be {size} bytes long")
        body = self._read(size)
        raw_size = _varint(body)
        # No element of raw snappy decodes to more than 64 / 3 times its size.
        if raw_size is None or raw_size > 22 * size:
            raise self._corrupt("the snappy block declares a raw length that it cannot hold")
        try:
            return memoryview(self._codec.decompress(body, raw_size))
        except OSError as error:
            raise self._corrupt("the snappy block is damaged") from error


def _varint(data: bytes) -> int | None:
    value = 0
    for i, byte in enumerate(data[:5]):
        value |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            return value
    return None


class BlockWriter(ABC):
    """Cuts a stream of bytes into blocks of one size, the last one shorter, and encodes each."""

    def __init__(self, block_size: int, header: bytes = b"") -> None:
        self._block_size = block_size
        self._header = header
        self._pending = bytearray()

    def write(self, data: Buffer) -> bytes:
        """Returns the encoded blocks that these bytes complete."""
        rest = memoryview(data).cast("B")
        parts = [self._take_header()]
        if self._pending:
            missing = self._block_size - len(self._pending)
            self._pending += rest[:missing]
            rest = rest[missing:]
            if len(self._pending) == self._block_size:
                parts.append(self._encode(memoryview(self._pending)))
                self._pending = bytearray()
        whole = len(rest) - len(rest) % self._block_size
        for start in range(0, whole, self._block_size):
            parts.append(self._encode(rest[start : start + self._block_size]))
        self._pending += rest[whole:]
        return b"".join(parts)

    def finish(self) -> bytes:
        """Returns the last block, encoded."""
        last = self._encode(memoryview(self._pending)) if self._pending else b""
        self._pending = bytearray()
        return self._take_header() + last

    def _take_header(self) -> bytes:
        header, self._header = self._header, b""
        return header

    @abstractmethod
    def _encode(self, block: memoryview) -> bytes:
        """Encodes one block, with its lengths in front."""


class SnappyWriter(BlockWriter):
    """Writes snappy-java's stream of 32 KiB blocks."""

    def __init__(self) -> None:
        super().__init__(_SNAPPY_BLOCK_SIZE, _SNAPPY_MAGIC + struct.pack(">ii", _SNAPPY_VERSION, _SNAPPY_VERSION))
        self._codec = pa.Codec("snappy")

    def _encode(self, block: memoryview) -> bytes:
        body: bytes = self._codec.compress(block, asbytes=True)
        return struct.pack(">i", len(body)) + body


_LZF_RAW = b"ZV\0"
_LZF_COMPRESSED = b"ZV\1"
_LZF_MAX_BLOCK_SIZE = 0xFFFF


class LzfReader(BlockReader):
    """Reads compress-lzf's chunks."""

    def _next_block(self) -> Buffer | None:
        head = self._read(3, or_end=True)
        if head == _LZF_RAW:
            (size,) = struct.unpack(">H", self._read(2))
            return self._read(size)
        if head == _LZF_COMPRESSED:
            size, raw_size = struct.unpack(">HH", self._read(4))
            body = self._read(size)
            try:
                return lzf.decode(body, raw_size)
            except ValueError as error:
                raise self._corrupt("the LZF chunk is damaged") from error
        if head:
            raise self._corrupt("no LZF chunk begins here")
        return None


class LzfWriter(BlockWriter):
    """Writes compress-lzf's chunks. A chunk that LZF does not make smaller is written raw."""

    def __init__(self) -> None:
        super().__init__(_LZF_MAX_BLOCK_SIZE)

    def _encode(self, block: memoryview) -> bytes:
        body = lzf.encode(block)
        if len(body) + 2 < len(block):
            return _LZF_COMPRESSED + struct.pack(">HH", len(body), len(block)) + body
        return _LZF_RAW + struct.pack(">H", len(block)) + block
