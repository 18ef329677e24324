from typing import Protocol

from typing_extensions import Buffer

class _Raw(Protocol):
    def readinto(self, buffer: memoryview, /) -> int: ...

class Lz4BlockReader:
    """Decodes lz4-java's block stream. A block that fits is decoded directly into the caller's buffer.

    Makes all the checks of lz4-java's LZ4BlockInputStream, and one more: a stream has to end with its end mark. For one
    thread at a time. The GIL is released while blocks are decoded.

    Args:
        raw: the compressed bytes.
        path: the file's name in errors.
        portable: decode with python-lz4's own function, which works everywhere and is slower.
    """

    def __init__(self, raw: _Raw, path: str, *, portable: bool = False) -> None: ...
    def readinto(self, buffer: Buffer, /) -> int:
        """Fills the buffer as far as the stream goes. Returns 0 only at the end of the stream.

        Raises:
            CorruptFileError: with the offset of the damaged block in the compressed file.
        """

class Lz4BlockWriter:
    """Encodes an lz4-java block stream of 32 KiB blocks. A block that lz4 does not make smaller is stored raw.

    For one thread at a time. The GIL is released while blocks are encoded. The result of a call is first allocated
    as large as its input and then cut to its size, so write large content in parts.

    Args:
        portable: encode with python-lz4's own function, which works everywhere and is slower.
    """

    def __init__(self, *, portable: bool = False) -> None: ...
    def write(self, data: Buffer) -> bytes:
        """Returns the blocks that these bytes complete."""

    def finish(self) -> bytes:
        """Returns the last block and the end mark. Later bytes begin another stream."""

def xxhash32(data: Buffer, seed: int = 0) -> int:
    """Returns xxHash32, the checksum of the blocks."""
