from typing import Protocol

from typing_extensions import Buffer

class _Raw(Protocol):
    def readinto(self, buffer: memoryview, /) -> int: ...

class Lz4BlockReader:
    """Decodes lz4-java's block stream, each block straight into the caller's buffer where it fits.

    Makes all the checks of lz4-java's LZ4BlockInputStream, and one more: a stream has to end with its end mark. For one
    thread at a time; the GIL is released while blocks are decoded.

    Args:
        raw: the compressed bytes.
        path: the file's name in errors.
        portable: decode by python-lz4's own function, which works everywhere and is slower.
    """

    def __init__(self, raw: _Raw, path: str, *, portable: bool = False) -> None: ...
    def readinto(self, buffer: Buffer, /) -> int:
        """Fills as much of the buffer as there is; 0 only at the end of the stream.

        Raises:
            CorruptFileError: with the offset of the damaged block in the compressed file.
        """

class Lz4BlockWriter:
    """Encodes one lz4-java block stream of 32 KiB blocks, raw ones where lz4 does not make them smaller.

    For one thread at a time; the GIL is released while blocks are encoded. What a call returns takes the room of what
    it was given until it is cut to its size, so give a large content in parts.

    Args:
        portable: encode by python-lz4's own function, which works everywhere and is slower.
    """

    def __init__(self, *, portable: bool = False) -> None: ...
    def write(self, data: Buffer) -> bytes:
        """The blocks that these bytes complete."""

    def finish(self) -> bytes:
        """The last block and the end mark; what is written after it begins another stream."""

def xxhash32(data: Buffer, seed: int = 0) -> int:
    """xxHash32, the checksum of the blocks."""
