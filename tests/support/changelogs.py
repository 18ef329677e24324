"""Changelogs of RocksDB as Spark writes them (StateStoreChangelog.scala, StateStoreRowChecksum.scala)."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from hdfsstore._cext.crc32c import crc32c

PUT, DELETE, MERGE, DELETE_RANGE = 0x01, 0x10, 0x11, 0x20
# The type, the key, and the value, the end of the range, or None.
TypedRecord = tuple[int, bytes, bytes | None]


def utf(text: str) -> bytes:
    """Java's writeUTF, in which a layout is in front of the records."""
    return len(text).to_bytes(2, "big") + text.encode()


# Files that Spark takes for layout v1, which is not in front of its records.
WITHOUT_LAYOUT = [
    b"",
    b"\0",
    b"\xff\xff\xff\xff",  # no record
    b"\0\0\0\x18" + bytes(24),
    b"\0\1\x76\x32" + bytes(10),  # "v"
    utf("v)") + bytes(10),  # SPARK-52553
    utf("v") + bytes(10),
    utf("\0\x10") + bytes(10),
    utf("v1") + bytes(10),
    utf("v01") + bytes(10),
    utf("v99999") + bytes(10),  # no short
    utf("v-32769") + bytes(10),
    b"\xf0\x00" + bytes(10),  # SPARK-51922
    b"\0\2v",
]
UNKNOWN_LAYOUTS = ["v0", "v7", "v02", "v-1", "v-2", "v+2", "v32767"]


def encode_typed(records: Iterable[TypedRecord], *, row_checksums: bool = False) -> bytes:
    """The records and the end mark, decompressed, without a header."""
    return b"".join(_encode(*record, row_checksums) for record in records) + b"\0"


def checksummed(key: bytes, value: bytes) -> bytes:
    """A value with its row checksum."""
    return struct.pack("<Ii", crc32c(key + value), len(value)) + value


def sized(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def _encode(kind: int, key: bytes, value: bytes | None, row_checksums: bool) -> bytes:
    if value is None:
        stored = struct.pack("<I", crc32c(key)) + key if row_checksums else key
        return bytes([kind]) + sized(stored) + struct.pack(">i", -1)
    return bytes([kind]) + sized(key) + sized(checksummed(key, value) if row_checksums else value)
