"""Images and their contents, for the tests of the versioned map."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterable, Mapping

import pyarrow as pa

from hdfsstore._cext.crc32c import crc32c
from hdfsstore._cext.records import RecordParser, encode_records
from hdfsstore._cext.versioned_map import Image, ImageBuilder, Layer, PrefixPlan, Transaction
from hdfsstore.codecs.records import MAX_RECORD_BYTES
from hdfsstore.codecs.row_plan import plan
from hdfsstore.codecs.types import StructType

BLOCK = 4096
HEADER = 192
NORESERVE = 0x4000  # Linux' MAP_NORESERVE, which Python's mmap names from 3.13 on

# What is put, or None where the key is removed.
Update = tuple[bytes, bytes | None]


def binary(values: Iterable[bytes | None]) -> pa.BinaryArray:
    return pa.array(list(values), pa.binary())


def records_of(updates: Iterable[Update], *, row_checksums: bool) -> tuple[memoryview, pa.Buffer, pa.Buffer]:
    """A whole file's bytes, and the spans of its keys and values."""
    updates = list(updates)
    content = encode_records(
        binary(key for key, _ in updates), binary(value for _, value in updates), row_checksums=row_checksums
    )
    data = memoryview(content).cast("B")
    parser = _parsed(data, row_checksums)
    return data, parser.keys, parser.values


def decoded(data: bytes | memoryview, *, row_checksums: bool = False) -> list[Update]:
    """The records of a whole file's decompressed bytes."""
    parser = _parsed(data, row_checksums)
    pairs = []
    for spans in (parser.keys, parser.values):
        numbers = struct.unpack(f"={spans.size // 4}i", spans)
        ranges = zip(numbers[::2], numbers[1::2], strict=True)
        pairs.append([None if size < 0 else bytes(data[at : at + size]) for at, size in ranges])
    return [(key or b"", value) for key, value in zip(*pairs, strict=True)]


def _parsed(data: bytes | memoryview, row_checksums: bool) -> RecordParser:
    parser = RecordParser(row_checksums=row_checksums, tombstones=True, max_record_bytes=MAX_RECORD_BYTES)
    parser.parse(data, len(data))
    assert parser.ended
    return parser


def image_of(
    state: Mapping[bytes, bytes],
    *,
    row_checksums: bool = False,
    prefix: PrefixPlan | None = None,
    timeout_offset: int | None = None,
) -> Image:
    builder = ImageBuilder(row_checksums=row_checksums, prefix=prefix, timeout_offset=timeout_offset)
    builder.append(*records_of(state.items(), row_checksums=row_checksums))
    return builder.finish()


def reopened(image: Image, path: str = "the-image") -> Image:
    """The image as its file gives it."""
    return Image.open(pa.py_buffer(b"".join(image.parts(b"metadata"))), path)


def updates_of(layer: Layer, *, row_checksums: bool = False) -> list[Update]:
    return decoded(memoryview(layer.records).cast("B"), row_checksums=row_checksums)


def as_dict(keys: pa.Array, values: pa.Array) -> dict[bytes, bytes]:
    """The content of two arrays, which must be valid and hold each key once."""
    for array in (keys, values):
        array.validate(full=True)
        assert array.null_count == 0
    content = dict(zip(keys.to_pylist(), values.to_pylist(), strict=True))
    assert len(content) == len(keys)
    return content


def content_of(transaction: Transaction, max_bytes: int = 100) -> dict[bytes, bytes]:
    """What a scan finds, each key once."""
    found: dict[bytes, bytes] = {}
    for batch in transaction.scan(max_bytes):
        content = as_dict(*batch)
        assert not found.keys() & content.keys()
        found |= content
    return found


def indexed_long(value: bytes, at: int = 16) -> int | None:
    """The long that a value is indexed by: of a row of up to 64 columns, neither null nor -1."""
    if len(value) < at + 8 or value[at // 64] >> (at // 8 - 1) % 8 & 1:
        return None
    number: int = struct.unpack_from("<q", value, at)[0]
    return None if number == -1 else number


def prefix_plan(key: StructType, columns: int) -> PrefixPlan:
    kinds = plan(key, "").kinds.decode()
    return len(kinds), bytes({"s": 1, "D": 2, "i": 2}.get(kind, 0) for kind in kinds[:columns])


def index_at(file: bytes | bytearray) -> int:
    """Where the index begins in an image file, before which stand the checksums of all blocks."""
    return _blocks(file)[1]


def with_right_checksums(file: bytes | bytearray) -> bytes:
    """The same file with checksums to match, as somebody would make it who means harm, if they have a place in it."""
    out = bytearray(file)
    if len(file) < HEADER:
        return bytes(file)
    crcs_at, start, blocks = _blocks(file)
    if start > len(file):
        return bytes(file)
    for block in range(blocks):
        at = start + block * BLOCK
        struct.pack_into("<I", out, crcs_at + 4 * block, crc32c(bytes(out[at : at + BLOCK])))
    struct.pack_into("<I", out, 12, 0)
    struct.pack_into("<I", out, 12, crc32c(bytes(out[:start])))
    return bytes(out)


def _blocks(file: bytes | bytearray) -> tuple[int, int, int]:
    """Where the checksums of blocks are, where the blocks begin, and how many there are."""
    metadata_size, slots, expired, records, prefix_slots, prefixed = (
        struct.unpack_from("<Q", file, at)[0] for at in (56, 32, 80, 48, 96, 24)
    )
    sizes = (8 * slots, 8 * prefix_slots, 5 * prefixed, 8 * -(-expired // 64) + 5 * expired)
    indexes = sum(-(-size // BLOCK) for size in sizes)
    blocks = indexes - (-records // BLOCK)
    crcs_at = HEADER + (metadata_size + struct.unpack_from("<I", file, 108)[0] + 3) // 4 * 4
    return crcs_at, -(-(crcs_at + 4 * blocks) // BLOCK) * BLOCK, blocks


def zeros(size: int) -> pa.Buffer:
    """So many bytes of address space, of which those take memory that are written to."""
    return pa.py_buffer(mmap.mmap(-1, size, mmap.MAP_PRIVATE | NORESERVE))


def empty_keys(count: int) -> pa.BinaryArray:
    return pa.Array.from_buffers(pa.binary(), count, [None, zeros(4 * (count + 1)), pa.py_buffer(b"")])


def large_key() -> pa.LargeBinaryArray:
    """One key of 2 GiB."""
    size = 1 << 31
    return pa.Array.from_buffers(pa.large_binary(), 1, [None, pa.py_buffer(struct.pack("<qq", 0, size)), zeros(size)])
