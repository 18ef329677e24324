"""Compresses and decompresses with the codecs of spark.sql.streaming.stateStore.compression.codec.

pyarrow does zstd and raw blocks of snappy. It has neither LZF nor the block framings of lz4-java and snappy-java.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

import pyarrow as pa

from hdfsstore._cext.lz4_block import Lz4BlockReader, Lz4BlockWriter
from hdfsstore.codecs.block_streams import LzfReader, LzfWriter, Raw, SnappyReader, SnappyWriter
from hdfsstore.errors import CorruptFileError, StateStoreError

if TYPE_CHECKING:
    import io

    from typing_extensions import Buffer

_PIECE_SIZE = 1 << 20


class Reader(Protocol):
    """A stream of decompressed bytes, for one thread at a time."""

    def readinto(self, buffer: Buffer, /) -> int:
        """Fills as much of the buffer as there is; 0 only at the end of the stream."""


class Writer(Protocol):
    """Makes one compressed stream, for one thread at a time."""

    def write(self, data: Buffer, /) -> bytes:
        """Takes the next bytes of the content, and returns the next bytes of the stream, often none yet."""

    def finish(self) -> bytes:
        """The rest of the stream. Call it once, at the end."""


class ZstdReader:
    """Reads the zstd frames that Spark's ZstdCompressionCodec writes, one after the other.

    zstd's default bounds the memory of the decoder: it refuses a frame with a window over 128 MiB.
    """

    def __init__(self, raw: Raw, path: str) -> None:
        self._input = _ZstdInput(raw)
        self._path = path
        self._stream = pa.CompressedInputStream(pa.PythonFile(cast("io.IOBase", self._input), mode="r"), "zstd")

    def readinto(self, buffer: Buffer, /) -> int:
        """Fills as much of the buffer as there is; 0 only at the end of the stream."""
        if memoryview(buffer).readonly:  # pyarrow before 19 would write through a null pointer.
            raise BufferError("the buffer is read-only")
        try:
            filled: int = self._stream.readinto(buffer)
        except OSError as error:
            if self._input.error is not None:
                raise self._input.error from None
            raise CorruptFileError(f"the zstd stream is damaged ({error})", self._path, self._input.offset) from error
        if self._input.size == 0 and filled == 0 and memoryview(buffer).nbytes:
            raise CorruptFileError("the zstd stream is cut off", self._path, 0)
        return filled


class _ZstdInput:
    """The methods that pyarrow.PythonFile calls to read. Keeps the offset of a problem."""

    closed = False

    def __init__(self, raw: Raw) -> None:
        self._raw = raw
        self.offset = 0  # Of the bytes read last.
        self.size = 0  # Of all bytes read.
        self.error: OSError | None = None

    def read(self, size: int) -> memoryview:
        data = memoryview(bytearray(size))
        try:
            data = data[: self._raw.readinto(data)]
        except OSError as error:
            self.error = error
            raise
        self.offset = self.size
        self.size += len(data)
        return data

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        """Does nothing: the caller of open_reader closes its file."""


class ZstdWriter:
    """Writes one zstd frame of level 1, pyarrow's default, and flushes it before its end, as Spark does."""

    def __init__(self) -> None:
        self._output = _ZstdOutput()
        self._stream = pa.CompressedOutputStream(pa.PythonFile(cast("io.IOBase", self._output), mode="w"), "zstd")

    def write(self, data: Buffer) -> bytes:
        """Returns the bytes that zstd has ready."""
        self._stream.write(data)
        return self._output.take()

    def finish(self) -> bytes:
        """The rest of the frame."""
        self._stream.flush()
        self._stream.close()
        return self._output.take()


class _ZstdOutput:
    """The methods that pyarrow.PythonFile calls to write."""

    closed = False

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def take(self) -> bytes:
        taken = b"".join(self._parts)
        self._parts.clear()
        return taken

    def write(self, data: bytes) -> int:
        self._parts.append(data)
        return len(data)

    def writable(self) -> bool:
        return True

    def flush(self) -> None:
        """Does nothing: all bytes are in memory."""

    def close(self) -> None:
        """Does nothing: `take` still has to return the bytes."""


class _Codec(NamedTuple):
    reader: Callable[[Raw, str], Reader]
    writer: Callable[[], Writer]


_CODECS = {
    "lz4": _Codec(Lz4BlockReader, Lz4BlockWriter),
    "lzf": _Codec(LzfReader, LzfWriter),
    "snappy": _Codec(SnappyReader, SnappyWriter),
    "zstd": _Codec(ZstdReader, ZstdWriter),
}
CODECS = tuple(_CODECS)

# Spark also takes the class of a codec instead of its short name, both in any case (CompressionCodec.scala).
_CLASSES = {f"org.apache.spark.io.{name}compressioncodec": name for name in _CODECS}


def open_reader(codec: str, raw: Raw, *, path: str) -> Reader:
    """Opens a stream of the decompressed bytes of raw.

    Args:
        codec: one of CODECS, in any case, or its class name.
        raw: the compressed bytes; the caller closes it.
        path: the file's name in errors.

    Returns:
        A reader, whose readinto raises CorruptFileError with the offset in the compressed bytes. zstd (as Spark writes
        it), snappy and lzf have no checksums, so damage can decode to other bytes.

    Raises:
        StateStoreError: there is no such codec.
        CorruptFileError: raw does not begin like a stream of that codec.
    """
    return _codec(codec, path).reader(raw, path)


def open_writer(codec: str) -> Writer:
    """Opens a stream of compressed bytes in Spark's framing. With lz4 and zstd, Spark writes the same bytes.

    Args:
        codec: one of CODECS, in any case, or its class name.

    Raises:
        StateStoreError: there is no such codec.
    """
    return _codec(codec).writer()


def compress(codec: str, data: Buffer) -> bytes:
    """Compresses data as Spark does with that codec."""
    return b"".join(compressed(codec, [data]))


def compressed(codec: str, content: Iterable[Buffer]) -> Iterator[bytes]:
    """Compresses the pieces of a content into one stream. Errors of the iterable are raised as they are."""
    writer = open_writer(codec)
    for piece in content:
        whole = memoryview(piece).cast("B")
        for start in range(0, len(whole), _PIECE_SIZE):
            yield writer.write(whole[start : start + _PIECE_SIZE])
    yield writer.finish()


def decompress(codec: str, data: Buffer, *, path: str = "<memory>", max_bytes: int | None = None) -> bytes:
    """Decompresses data.

    Raises:
        CorruptFileError: data is damaged.
        StateStoreError: data decompresses to more than max_bytes, or there is no such codec.
    """
    reader = open_reader(codec, pa.BufferReader(data), path=path)
    buffer = memoryview(bytearray(_PIECE_SIZE))
    result = bytearray()
    while size := reader.readinto(buffer):
        result += buffer[:size]
        if max_bytes is not None and len(result) > max_bytes:
            raise StateStoreError(f"more than {max_bytes} bytes come out of the {codec} stream", path)
    return bytes(result)


def canonical_codec(name: str, path: str | None = None) -> str:
    """The short name of a codec, from that name in any case or from its class name.

    Raises:
        StateStoreError: there is no such codec.
    """
    short = _CLASSES.get(name.lower(), name.lower())
    if short not in _CODECS:
        raise StateStoreError(
            f"there is no compression codec {name!r}", path, remedy=f"Spark's are {', '.join(CODECS)}"
        )
    return short


def _codec(name: str, path: str | None = None) -> _Codec:
    return _CODECS[canonical_codec(name, path)]
