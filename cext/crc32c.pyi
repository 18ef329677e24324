from typing_extensions import Buffer

def crc32c(data: Buffer, value: int = 0) -> int:
    """The CRC-32C (RFC 3720) of data, continued from value, the CRC of what comes before it."""

def crc32c_portable(data: Buffer, value: int = 0) -> int:
    """crc32c by tables, as on a CPU without the instruction for it."""
