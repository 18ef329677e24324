"""Encodes updates of a RocksDB as records of changelogs, and decodes them (StateStoreChangelog.scala).

    without an id   records                 Spark's v1, which has no header
    with an id      header | records        Spark's v3: the header of hdfsstore/codecs/lineage.py

cext/records.pyx has the layout of records, and encoding.py that of keys and values. For stores with column families
Spark writes v2 and v4, whose records have types: a partition reader reads them, a store does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hdfsstore.codecs.records import MAX_RECORD_BYTES, RecordChunk, RecordFormat
from hdfsstore.errors import UnsupportedProviderError
from hdfsstore.state.rocksdb.archive import CHANGELOG_FILES

_SIZE = 4
_END = (-1).to_bytes(_SIZE, "big", signed=True)
# So many keys and values are joined before they are written.
_JOINED = 4096


def changelog_format(
    compression_codec: str,
    max_record_bytes: int = MAX_RECORD_BYTES,
    *,
    row_checksums: bool = False,
    checksum_files: bool = False,
) -> RecordFormat:
    """The format of a store's changelogs; the arguments are RecordFormat's."""
    return RecordFormat(
        compression_codec,
        row_checksums,
        value_checksums=False,
        max_record_bytes=max_record_bytes,
        extensions=CHANGELOG_FILES,
        typed=True,
        checksum_files=checksum_files,
    )


def encode_updates(updates: Mapping[bytes, bytes | None]) -> Iterator[bytes]:
    """The records of updates, end mark included, in pieces; None removes the key."""
    piece: list[bytes] = []
    for key, value in updates.items():
        piece += (len(key).to_bytes(_SIZE, "big"), key)
        piece += (_END,) if value is None else (len(value).to_bytes(_SIZE, "big"), value)
        if len(piece) > _JOINED:
            yield b"".join(piece)
            piece.clear()
    yield b"".join((*piece, _END))


def decode_updates(chunk: RecordChunk) -> dict[bytes, bytes | None]:
    """The records of a chunk as updates. Of a key that is there twice, the last one counts.

    Raises:
        UnsupportedProviderError: the records have types, so the store has column families.
    """
    if chunk.kinds is not None:
        raise UnsupportedProviderError(
            "the changelog has records with types: the store has column families, which this release only reads",
            chunk.path,
            remedy="Read it with Checkpoint, and go on with Spark",
        )
    data = chunk.data
    keys, values = (memoryview(spans).cast("B").cast("i") for spans in (chunk.keys, chunk.values))
    updates: dict[bytes, bytes | None] = {}
    for i in range(0, len(keys), 2):
        begin, size = values[i], values[i + 1]
        key = bytes(data[keys[i] : keys[i] + keys[i + 1]])
        updates[key] = None if size < 0 else bytes(data[begin : begin + size])
    return updates
