from typing_extensions import Buffer

def crc32c(data: Buffer, value: int = 0) -> int:
    """The CRC-32C (RFC 3720) of data, continued from value, the CRC of what comes before it."""

def crc32c_portable(data: Buffer, value: int = 0) -> int:
    """crc32c by tables, as on a CPU without the instruction for it."""

def first_bad_chunk(data: Buffer, sums: Buffer, chunk: int) -> int:
    """The index of the first chunk of data whose CRC-32C is not the one in sums, or -1 where all are right.

    Args:
        data: chunks of equal size; the last one may be shorter.
        sums: one big-endian CRC a chunk, as Hadoop's `.name.crc` files hold them; more of them than chunks is fine.
        chunk: bytes a chunk, 512 by Hadoop's default.

    Raises:
        ValueError: sums holds too few entries.
    """
