from typing_extensions import Buffer

def decode(data: Buffer, raw_size: int) -> bytes:
    """The raw_size bytes that data, the body of an LZF chunk, holds.

    Raises:
        ValueError: it does not hold them.
    """

def encode(data: Buffer) -> bytes:
    """The body of an LZF chunk that holds data; 1/32 longer than data at worst."""
