from typing_extensions import Buffer

def crc32c(data: Buffer, value: int = 0) -> int:
    """The CRC-32C (RFC 3720) of data. `value` is the CRC of the bytes before it."""

def crc32c_portable(data: Buffer, value: int = 0) -> int:
    """crc32c by tables, for a CPU without an instruction for it."""
