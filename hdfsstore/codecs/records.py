"""Reads a delta or snapshot file record by record, in chunks of bounded size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

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
        value_checksums: False: those of values are not verified, and stay in front of them, as in a RocksDB.
        typed: whether the records of a delta may have types (Spark's changelogs v2 and v4).
        checksum_files: whether files with unique ids may have checksum files beside them, as Spark's have.
    """

    compression_codec: str = "lz4"
    row_checksums: bool = False
    max_record_bytes: int = MAX_RECORD_BYTES
    extensions: Extensions = DELTA_FILES
    value_checksums: bool = True
    typed: bool = False
    checksum_files: bool = False


class Start(NamedTuple):
    """The begin of a decompressed file.

    Attributes:
        size: of the header, in bytes.
        typed: whether the records after it have types.
        rest: the bytes of records that were read with it.
    """

    size: int = 0
    typed: bool = False
    rest: bytes = b""


@dataclass(frozen=True, slots=True)
class RecordChunk:
    """Some consecutive records: spans (pairs of int32: offset in `data`, size; -1 = tombstone) of keys and of values.

    The next chunk overwrites the buffers.

    Attributes:
        path: the file of the records.
        position: the offset of `data` in the file's decompressed bytes.
        last: the end mark follows these records, so the buffers are not overwritten.
        kinds: the type of each record, one byte each, as RocksDB numbers them (cext/records/typed.pxi); None: the
            records have no types.
    """

    data: memoryview
    keys: pa.Buffer
    values: pa.Buffer
    path: str
    position: int
    last: bool = False
    kinds: pa.Buffer | None = None

    def __len__(self) -> int:
        return int(self.keys.size) // 8

    def first(self, count: int) -> RecordChunk:
        """The first `count` records."""
        return replace(
            self,
            keys=self.keys.slice(0, 8 * count),
            values=self.values.slice(0, 8 * count),
            last=False,
            kinds=None if self.kinds is None else self.kinds.slice(0, count),
        )

    def take(self, places: pa.IntegerArray) -> RecordChunk:
        """The records at these places, in this order."""
        keys, values = (each.take(places).buffers()[1] for each in self._spans())
        kinds = None
        if self.kinds is not None:
            kinds = pa.Array.from_buffers(pa.uint8(), len(self), [None, self.kinds]).take(places).buffers()[1]
        return replace(self, keys=keys, values=values, kinds=kinds)

    def sizes(self) -> tuple[int, int]:
        """The bytes of all keys, and those of all values."""
        # The size is the upper half of a span; a tombstone has the size -1.
        keys, values = (pc.max_element_wise(pc.shift_right(each, 32), 0) for each in self._spans())
        return pc.sum(keys).as_py() or 0, pc.sum(values).as_py() or 0

    def _spans(self) -> list[pa.Int64Array]:
        return [pa.Array.from_buffers(pa.int64(), len(self), [None, each]) for each in (self.keys, self.values)]

    def copy(self) -> RecordChunk:
        """The same records in buffers of their own, with `data` only up to their end."""
        spans = [memoryview(spans).cast("i") for spans in (self.keys, self.values)]
        end = max((int(s[-2]) + max(int(s[-1]), 0) for s in spans if len(s)), default=0)
        keys, values = (pa.py_buffer(bytes(spans)) for spans in (self.keys, self.values))
        kinds = None if self.kinds is None else pa.py_buffer(bytes(memoryview(self.kinds)))
        return RecordChunk(memoryview(bytes(self.data[:end])), keys, values, self.path, self.position, True, kinds)

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
    read_start: Callable[[Reader], Start] | None = None,
) -> Iterator[RecordChunk]:
    """Yields all records of a file, in chunks of about CHUNK_BYTES (more only for a record that is larger).

    Args:
        read_start: reads a header before the records.

    Raises:
        CorruptFileError: the file is damaged or ends before its end mark.
        StateStoreError: a record is larger than the format allows.
    """
    reader = open_reader(file_format.compression_codec, raw, path=path)
    start = Start() if read_start is None else read_start(reader)
    position = start.size
    parser = RecordParser(
        row_checksums=file_format.row_checksums,
        tombstones=kind == "delta",
        max_record_bytes=file_format.max_record_bytes,
        value_checksums=file_format.value_checksums,
        typed=start.typed,
    )
    # There is room for whole blocks beside the rest of the last chunk, so no block is decoded elsewhere and copied.
    chunk = _room(CHUNK_BYTES + CHUNK_BYTES // 256)
    filled = len(start.rest)
    chunk[:filled] = start.rest
    while True:
        read = reader.readinto(chunk[filled : filled + CHUNK_BYTES])
        filled += read
        count = _parse(parser, chunk, filled, path, position)
        if count:
            yield RecordChunk(chunk, parser.keys, parser.values, path, position, parser.ended, parser.kinds)
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
            grown = _room(min(2 * len(chunk), MAX_CHUNK_BYTES))
            grown[:filled] = chunk
            chunk = grown
        elif consumed:
            chunk[: filled - consumed] = chunk[consumed:filled]
            filled -= consumed
            position += consumed


def _room(size: int) -> memoryview:
    """Bytes that are undefined: only those that are read take memory, and Arrow keeps them for the next file."""
    return memoryview(pa.allocate_buffer(size)).cast("B")


def _parse(parser: RecordParser, chunk: memoryview, filled: int, path: str, position: int) -> int:
    try:
        return parser.parse(chunk, filled)
    except StateStoreError as error:
        raise locate(error, path, position) from None
