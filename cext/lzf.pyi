from typing_extensions import Buffer

def decode(data: Buffer, raw_size: int) -> bytes:
    """Decodes the body of an LZF chunk to raw_size bytes.

    Raises:
        ValueError: data is damaged, or of another size.
    """

def encode(data: Buffer) -> bytes:
    """Encodes data as the body of an LZF chunk, which is at most 1/32 longer than data."""
