"""Decompresses blocks of SST files.

    0 none   1 snappy   2 zlib (without a header)   3 bzip2   4 LZ4   5 LZ4HC   7, 64 zstd

All but snappy have the size once decompressed in front, as varint32. Before format 2, zlib and bzip2 have none, and LZ4
has a uint64 LE, of which the low half counts. (RocksDB: util/compression.h)
"""

from __future__ import annotations

import bz2
import zlib

import lz4.block
import pyarrow as pa

from hdfsstore.errors import CorruptFileError, SizeLimitError, UnsupportedProviderError

# No codec makes more of a byte than this: zstd repeats one 128 Ki times in 4 bytes. bzip2 has no such bound. Those two
# are decompressed piece by piece.
_MOST = {1: 64, 2: 1040, 4: 255, 5: 255, 7: 1 << 15, 64: 1 << 15}
MOST_PLAIN = (1 << 31) - 64
_PIECE = 1 << 20
_NAMES = {1: "snappy", 2: "zlib", 3: "bzip2", 4: "lz4", 5: "lz4", 7: "zstd", 64: "zstd"}


def decompress(
    compression: int, contents: bytes, most: int = MOST_PLAIN, limit: int = MOST_PLAIN, has_size: bool = True
) -> bytes:
    """The bytes of a block.

    Args:
        compression: its kind.
        contents: the bytes in the file.
        most: bytes that the block may have once decompressed.
        limit: the same of any block of its kind.
        has_size: whether the size is in front as a varint in each compression: in format 2 and later.

    Raises:
        CorruptFileError: they do not have their declared size, or declare more than `most`.
        UnsupportedProviderError: the compression is not known.
        SizeLimitError: they are more than the limit, of 2 GiB.
    """
    if compression == 0:
        return contents
    name = _NAMES.get(compression)
    if name is None:
        raise UnsupportedProviderError(
            f"a block has the compression {compression}, which this release does not read",
            remedy="Read the database with RocksDB",
        )
    if not has_size and name in ("zlib", "bzip2"):
        return _streamed(name, contents, min(most, limit))
    size, at = read_varint(contents, 0)
    if not has_size and name == "lz4":
        size, at = int.from_bytes(contents[:4], "little"), 8
    if size > limit:
        raise SizeLimitError(f"a block of {size} bytes cannot be read; at most {limit} can")
    if size > most:
        raise CorruptFileError(f"a block declares {size} bytes once decompressed, and may have {most} at most")
    if size > (_MOST.get(compression, size) + 1) * (len(contents) + 1):
        raise CorruptFileError(f"a block of {len(contents)} bytes declares {size} bytes once decompressed")
    try:
        found = _decompressed(name, contents, at, size)
    except (OSError, ValueError, EOFError, zlib.error, lz4.block.LZ4BlockError) as error:
        raise CorruptFileError(f"this block does not decompress ({name}): {error}") from error
    if len(found) != size:
        raise CorruptFileError(f"this block does not decompress to its declared size ({name})")
    return found


def _streamed(name: str, contents: bytes, most: int) -> bytes:
    """A block whose size nothing tells."""
    stream = zlib.decompressobj(-zlib.MAX_WBITS) if name == "zlib" else bz2.BZ2Decompressor()
    try:
        found = stream.decompress(contents, most + 1)
    except (OSError, ValueError, EOFError, zlib.error) as error:
        raise CorruptFileError(f"this block does not decompress ({name}): {error}") from error
    if len(found) > most:
        raise CorruptFileError(f"a block has more than {most} bytes once decompressed, which it may have at most")
    if not stream.eof:
        raise CorruptFileError(f"this block does not decompress: it is cut off ({name})")
    return bytes(found)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of at most 64 bits, and where it ends.

    Raises:
        CorruptFileError: there is none.
    """
    number = 0
    for i in range(10):
        if at + i >= len(data):
            break
        number |= (data[at + i] & 0x7F) << 7 * i
        if data[at + i] < 0x80:
            if number >> 64:
                break
            return number, at + i + 1
    raise CorruptFileError("a number is cut off or has more than 64 bits", offset=at)


def _decompressed(name: str, contents: bytes, at: int, size: int) -> bytes:
    if name == "snappy":
        return bytes(pa.decompress(contents, decompressed_size=size, codec="snappy", asbytes=True))
    body = contents[at:]
    if name == "lz4":
        return bytes(lz4.block.decompress(body, uncompressed_size=size))
    if name == "zlib":
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(body, size + 1)
    if name == "bzip2":
        return bz2.BZ2Decompressor().decompress(body, size + 1)
    pieces, left = [], size + 1
    with pa.CompressedInputStream(pa.BufferReader(body), "zstd") as stream:
        while left and (piece := stream.read(min(left, _PIECE))):
            pieces.append(piece)
            left -= len(piece)
    return b"".join(pieces)
