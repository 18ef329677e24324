"""The compression codecs of spark.sql.streaming.stateStore.compression.codec, by Spark's names."""

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

_WINDOW_SIZE = 1 << 20


class Reader(Protocol):
    """A stream of decompressed bytes, for one thread at a time."""

    def readinto(self, buffer: Buffer, /) -> int:
        """Fills as much of the buffer as there is; 0 only at the end of the stream."""


class Writer(Protocol):
    """Makes one compressed stream, for one thread at a time."""

    def write(self, data: Buffer, /) -> bytes:
        """Takes the next bytes of the content, and returns what comes next in the stream: often nothing yet."""

    def finish(self) -> bytes:
        """The rest of the stream. Call it once, at the end."""


class ZstdReader:
    """Reads one zstd frame after the other, as Spark's ZstdCompressionCodec writes them.

    The decoder's memory is bounded by zstd's own default: a frame with a window over 128 MiB is refused.
    """

    def __init__(self, raw: Raw, path: str) -> None:
        self._input = _ZstdInput(raw)
        self._path = path
        self._stream = pa.CompressedInputStream(pa.PythonFile(cast("io.IOBase", self._input), mode="r"), "zstd")

    def readinto(self, buffer: Buffer, /) -> int:
        """Fills as much of the buffer as there is; 0 only at the end of the stream."""
        if memoryview(buffer).readonly:  # pyarrow before 19 would write through a null pointer
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
    """What pyarrow.PythonFile asks of a file, and where in it a problem was."""

    closed = False

    def __init__(self, raw: Raw) -> None:
        self._raw = raw
        self.offset = 0  # of the bytes read last
        self.size = 0  # of all that were read
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
        """The caller of open_reader closes what it opened."""


class ZstdWriter:
    """Writes one zstd frame of level 1, which is pyarrow's default too; flushed before it ends, as Spark does."""

    def __init__(self) -> None:
        self._output = _ZstdOutput()
        self._stream = pa.CompressedOutputStream(pa.PythonFile(cast("io.IOBase", self._output), mode="w"), "zstd")

    def write(self, data: Buffer) -> bytes:
        """What zstd has made ready."""
        self._stream.write(data)
        return self._output.take()

    def finish(self) -> bytes:
        """The rest of the frame."""
        self._stream.flush()
        self._stream.close()
        return self._output.take()


class _ZstdOutput:
    """What pyarrow.PythonFile asks of a file."""

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
        """All is in memory."""

    def close(self) -> None:
        """The bytes are still to be taken."""


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

# Spark takes the class of a codec in the place of its short name, either in any case (CompressionCodec.scala).
_CLASSES = {f"org.apache.spark.io.{name}compressioncodec": name for name in _CODECS}


def open_reader(codec: str, raw: Raw, *, path: str) -> Reader:
    """The decompressed bytes of raw.

    Args:
        codec: one of CODECS, in any case, or the class name that Spark takes in its place.
        raw: the compressed bytes; it stays the caller's to close.
        path: the file's name in errors.

    Returns:
        A reader, whose readinto raises CorruptFileError with the offset in the compressed bytes. zstd (as Spark writes
        it), snappy and lzf have no checksums: damage there can decode to other bytes.

    Raises:
        StateStoreError: there is no such codec.
        CorruptFileError: raw does not even begin like a stream of that codec.
    """
    return _codec(codec, path).reader(raw, path)


def open_writer(codec: str) -> Writer:
    """A stream of compressed bytes in Spark's framing; with lz4 and zstd the bytes are Spark's own.

    Args:
        codec: one of CODECS, in any case, or the class name that Spark takes in its place.

    Raises:
        StateStoreError: there is no such codec.
    """
    return _codec(codec).writer()


def compress(codec: str, data: Buffer) -> bytes:
    """data as Spark would write it with that codec."""
    return b"".join(compressed(codec, [data]))


def compressed(codec: str, content: Iterable[Buffer]) -> Iterator[bytes]:
    """One stream of the pieces of a content, piece by piece; errors of theirs are raised as they are."""
    writer = open_writer(codec)
    for piece in content:
        whole = memoryview(piece).cast("B")
        for start in range(0, len(whole), _WINDOW_SIZE):
            yield writer.write(whole[start : start + _WINDOW_SIZE])
    yield writer.finish()


def decompress(codec: str, data: Buffer, *, path: str = "<memory>", max_bytes: int | None = None) -> bytes:
    """All the bytes that data decompresses to.

    Raises:
        CorruptFileError: data is damaged.
        StateStoreError: data is more than max_bytes once decompressed, or there is no such codec.
    """
    reader = open_reader(codec, pa.BufferReader(data), path=path)
    window = memoryview(bytearray(_WINDOW_SIZE))
    result = bytearray()
    while size := reader.readinto(window):
        result += window[:size]
        if max_bytes is not None and len(result) > max_bytes:
            raise StateStoreError(f"more than {max_bytes} bytes come out of the {codec} stream", path)
    return bytes(result)


def canonical_codec(name: str, path: str | None = None) -> str:
    """The short name of a codec that is given by it in any case, or by the class name that Spark takes in its place.

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
