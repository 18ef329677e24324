"""Reads a delta or snapshot file record by record, in chunks of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import pyarrow as pa

from hdfsstore._cext.records import RecordParser
from hdfsstore.codecs.compression import Reader, open_reader
from hdfsstore.errors import CorruptFileError, StateStoreError

FileKind = Literal["delta", "snapshot"]


class Extensions(NamedTuple):
    """The extensions of a backend's files: for the changes of a version, and for its whole state."""

    delta: str = "delta"
    snapshot: str = "snapshot"


DELTA_FILES = Extensions()

# At this size the cost of a call per chunk is small, and a chunk stays in a core's second-level cache.
CHUNK_BYTES = 1 << 20
MAX_RECORD_BYTES = 256 << 20
# Spans are int32.
MAX_CHUNK_BYTES = 1 << 30


class Input(Protocol):
    """A file to read: fills a buffer with bytes, and returns 0 at the end."""

    def readinto(self, buffer: memoryview, /) -> int: ...


@dataclass(frozen=True, slots=True)
class RecordFormat:
    """The format of a store's files, which Spark's offset log pins for the life of a checkpoint.

    Attributes:
        compression_codec: lz4, zstd, snappy or lzf (spark.sql.streaming.stateStore.compression.codec).
        row_checksums: whether rows carry checksums (spark.sql.streaming.stateStore.rowChecksum.enabled).
        max_record_bytes: a key or value that declares more bytes than this is refused.
        extensions: the extensions of the files' names.
    """

    compression_codec: str = "lz4"
    row_checksums: bool = False
    max_record_bytes: int = MAX_RECORD_BYTES
    extensions: Extensions = DELTA_FILES


@dataclass(frozen=True, slots=True)
class RecordChunk:
    """Some consecutive records: spans (pairs of int32: offset in `data`, size; -1 = tombstone) of keys and of values.

    The next chunk overwrites the buffers.

    Attributes:
        path: the file of the records.
        position: the offset of `data` in the file's decompressed bytes.
        last: the end mark follows these records, so the buffers are not overwritten.
    """

    data: memoryview
    keys: pa.Buffer
    values: pa.Buffer
    path: str
    position: int
    last: bool = False

    def __len__(self) -> int:
        return int(self.keys.size) // 8

    def first(self, count: int) -> RecordChunk:
        """The first `count` records."""
        return RecordChunk(
            self.data, self.keys.slice(0, 8 * count), self.values.slice(0, 8 * count), self.path, self.position
        )

    def copy(self) -> RecordChunk:
        """The same records in buffers of their own, with `data` only up to their end."""
        spans = [memoryview(spans).cast("i") for spans in (self.keys, self.values)]
        end = max((int(s[-2]) + max(int(s[-1]), 0) for s in spans if len(s)), default=0)
        keys, values = (pa.py_buffer(bytes(spans)) for spans in (self.keys, self.values))
        return RecordChunk(memoryview(bytes(self.data[:end])), keys, values, self.path, self.position, True)

    def locate(self, error: StateStoreError) -> StateStoreError:
        """The same error, with the offset in the file instead of the offset in `data`."""
        return locate(error, self.path, self.position)


def locate(error: StateStoreError, path: str, position: int) -> StateStoreError:
    """The same error with the path, and the offset counted from the start of the decompressed file."""
    offset = None if error.offset is None else error.offset + position
    message = error.message if offset is None else f"{error.message} (offset counted in the decompressed bytes)"
    return type(error)(message, path, offset, error.remedy)


def read_chunks(
    raw: Input,
    file_format: RecordFormat,
    kind: FileKind,
    path: str,
    read_header: Callable[[Reader], int] | None = None,
) -> Iterator[RecordChunk]:
    """Yields all records of a file, in chunks of about CHUNK_BYTES (more only for a record that is larger).

    Args:
        read_header: reads a header before the records, and returns its size in bytes.

    Raises:
        CorruptFileError: the file is damaged or ends before its end mark.
        StateStoreError: a record is larger than the format allows.
    """
    reader = open_reader(file_format.compression_codec, raw, path=path)
    position = 0 if read_header is None else read_header(reader)
    parser = RecordParser(
        row_checksums=file_format.row_checksums,
        tombstones=kind == "delta",
        max_record_bytes=file_format.max_record_bytes,
    )
    # There is room for whole blocks beside the rest of the last chunk, so no block is decoded elsewhere and copied.
    chunk = memoryview(bytearray(CHUNK_BYTES + CHUNK_BYTES // 256))
    filled = 0
    while True:
        read = reader.readinto(chunk[filled : filled + CHUNK_BYTES])
        filled += read
        count = _parse(parser, chunk, filled, path, position)
        if count:
            yield RecordChunk(chunk, parser.keys, parser.values, path, position, parser.ended)
        consumed = parser.consumed
        if parser.ended:
            return
        if read == 0:
            raise CorruptFileError(
                "the file ends before its end mark (offset counted in the decompressed bytes)",
                path,
                position + filled,
                "It was cut off: restore it, or read a batch whose snapshot and deltas do not need it",
            )
        if consumed == 0 and filled == len(chunk):
            # One record fills the chunk, which grows with the bytes that arrive, not by the declared length.
            if len(chunk) >= MAX_CHUNK_BYTES:
                raise CorruptFileError(
                    f"a record takes {MAX_CHUNK_BYTES} bytes or more (offset counted in the decompressed bytes)",
                    path,
                    position,
                    "The file is damaged, or the record is too large to be read",
                )
            grown = memoryview(bytearray(min(2 * len(chunk), MAX_CHUNK_BYTES)))
            grown[:filled] = chunk
            chunk = grown
        elif consumed:
            chunk[: filled - consumed] = chunk[consumed:filled]
            filled -= consumed
            position += consumed


def _parse(parser: RecordParser, chunk: memoryview, filled: int, path: str, position: int) -> int:
    try:
        return parser.parse(chunk, filled)
    except StateStoreError as error:
        raise locate(error, path, position) from None
