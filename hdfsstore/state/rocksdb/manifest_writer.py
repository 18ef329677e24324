"""Writes CURRENT and MANIFEST of a RocksDB that has nothing but SST files; manifest.py has their layout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hdfsstore._cext.crc32c import crc32c
from hdfsstore.codecs.sst_table import BYTEWISE
from hdfsstore.codecs.sst_writer import put_varint
from hdfsstore.state.rocksdb.manifest import BLOCK, FIRST, HEADER, LAST, MIDDLE, WHOLE, LiveFile, masked

_MANIFEST = "MANIFEST-000001"
# The numbers of files begin behind that of the MANIFEST.
FIRST_FILE = 2

_COMPARATOR, _LOG_NUMBER, _NEXT_FILE, _LAST_SEQUENCE, _NEW_FILE = 1, 2, 3, 4, 103
_FIELD_END = 1


def encode_manifest(live: Sequence[LiveFile]) -> dict[str, bytes]:
    """CURRENT and MANIFEST by name. RocksDB goes on with the numbers behind those of the files."""
    edit = put_varint(_COMPARATOR) + _text(BYTEWISE)
    edit += b"".join(_new_file(file) for file in live)
    last_sequence = max((file.largest_sequence for file in live), default=0)
    next_file = max((file.number for file in live), default=FIRST_FILE - 1) + 1
    for tag, number in ((_LOG_NUMBER, 0), (_NEXT_FILE, next_file), (_LAST_SEQUENCE, last_sequence)):
        edit += put_varint(tag) + put_varint(number)
    return {"CURRENT": f"{_MANIFEST}\n".encode(), _MANIFEST: b"".join(_pieces(edit))}


def _new_file(file: LiveFile) -> bytes:
    numbers = b"".join(map(put_varint, (_NEW_FILE, file.level, file.number, file.size)))
    sequences = b"".join(map(put_varint, (file.smallest_sequence, file.largest_sequence, _FIELD_END)))
    return numbers + _text(file.keys.smallest) + _text(file.keys.largest) + sequences


def _text(text: bytes) -> bytes:
    return put_varint(len(text)) + text


def _pieces(record: bytes) -> Iterator[bytes]:
    """A record at the start of a file, divided into blocks."""
    room = BLOCK - HEADER
    starts = range(0, len(record), room)
    for start in starts:
        data = record[start : start + room]
        is_last = start == starts[-1]
        kind = (WHOLE if is_last else FIRST) if start == 0 else (LAST if is_last else MIDDLE)
        tagged = bytes((kind,)) + data
        yield masked(crc32c(tagged)) + len(data).to_bytes(2, "little") + tagged
