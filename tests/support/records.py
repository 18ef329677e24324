"""Records of delta and snapshot files, as tests make and read them."""

from __future__ import annotations

import struct

import pyarrow as pa

Record = tuple[bytes, bytes | None]


def spans_of(items: list[bytes | None]) -> tuple[bytes, pa.Buffer]:
    data, spans = b"", []
    for item in items:
        spans += [len(data), -1 if item is None else len(item)]
        data += item or b""
    return data, pa.py_buffer(struct.pack(f"={len(spans)}i", *spans))
