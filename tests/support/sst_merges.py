"""Merges of small SST files and of records of changelogs."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from hdfsstore._cext.sst import Merge, Overlay
from hdfsstore.codecs.sst_table import KeyRange, Table, open_table
from tests.support.sst_files import MAX_SEQUENCE, RANGE_DELETION, internal

PATH = "SSTs/000001-x.sst"
# As range deletions bound a file, so it need not have these keys themselves.
ALL_KEYS = KeyRange(internal(b"", MAX_SEQUENCE, RANGE_DELETION), internal(b"\xff" * 4096, MAX_SEQUENCE, RANGE_DELETION))

Record = tuple[int, bytes, bytes]


def table(content: bytes, keys: KeyRange = ALL_KEYS, window: int = 0) -> Table:
    def read(offset: int, size: int) -> bytes:
        return content[offset : offset + size]

    return open_table(PATH, len(content), read, lambda at, size: content[at : at + max(size, window)], 0, keys)


def overlay_of(records: Sequence[Record]) -> Overlay:
    overlay = Overlay()
    data, keys, values = bytearray(), [], []
    for _, key, value in records:
        keys += [len(data), len(key)]
        values += [len(data) + len(key), len(value)]
        data += key + value
    if records:
        key_spans, value_spans = (struct.pack(f"{len(numbers)}i", *numbers) for numbers in (keys, values))
        overlay.add(data, key_spans, value_spans, bytes(kind for kind, _, _ in records))
    return overlay


def rows(merge: Merge) -> list[tuple[bytes, bytes]]:
    found = []
    while (read := merge.read()) is not None:
        data = bytes(read[0])
        keys, values = (memoryview(spans).cast("B").cast("i").tolist() for spans in read[1:])
        for i in range(0, len(keys), 2):
            key = data[keys[i] : keys[i] + keys[i + 1]]
            found.append((key, data[values[i] : values[i] + values[i + 1]]))
    return found


def merged(*contents: bytes, overlay: Overlay | None = None, delimiter: bytes = b",") -> list[tuple[bytes, bytes]]:
    return rows(Merge([[table(content)] for content in contents], overlay, delimiter=delimiter))
