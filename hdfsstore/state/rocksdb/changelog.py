"""Encodes updates of a RocksDB as records of changelogs, and decodes them (StateStoreChangelog.scala).

    without an id   records                 Spark's v1, which has no header
    with an id      header | records        Spark's v3: the header of hdfsstore/codecs/lineage.py

hdfsstore/codecs/records.py has the layout of records, and encoding.py that of keys and values. For stores with column
families Spark writes v2 and v4, whose records have types.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hdfsstore.codecs.compression import open_reader
from hdfsstore.codecs.records import RecordChunk
from hdfsstore.errors import UnsupportedProviderError
from hdfsstore.fs.reading import Input
from hdfsstore.state.versions.chain import VersionFiles
from hdfsstore.state.versions.files import VersionId
from hdfsstore.state.versions.reader import VersionReader

_WITH_FAMILIES = (b"\0\2v2", b"\0\2v4")
_SIZE = 4
_END = (-1).to_bytes(_SIZE, "big", signed=True)
# So many keys and values are joined before they are written.
_JOINED = 4096


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
    """The records of a chunk as updates. Of a key that is there twice, the last one counts."""
    data = chunk.data
    keys, values = (memoryview(spans).cast("B").cast("i") for spans in (chunk.keys, chunk.values))
    updates: dict[bytes, bytes | None] = {}
    for i in range(0, len(keys), 2):
        begin, size = values[i], values[i + 1]
        key = bytes(data[keys[i] : keys[i] + keys[i + 1]])
        updates[key] = None if size < 0 else bytes(data[begin : begin + size])
    return updates


def open_changelog(reader: VersionReader, files: VersionFiles, version_id: VersionId) -> Input:
    """Opens a changelog at its start.

    Raises:
        UnsupportedProviderError: the store has column families.
    """
    source = files.open(version_id, "delta")
    try:
        path = files.path(version_id, "delta")
        start = bytearray(_SIZE)
        open_reader(reader.format.compression_codec, source, path=path).readinto(start)
        if bytes(start) in _WITH_FAMILIES:
            raise UnsupportedProviderError(
                f"the changelog has Spark's layout {start[2:].decode()}: the store has column families, which this "
                "release does not read",
                path,
                remedy="Read it with Spark's statestore source",
            )
        source.rewind()
    except BaseException:
        source.close()
        raise
    return source
