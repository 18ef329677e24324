from typing_extensions import Buffer

def first_bad_chunk(data: Buffer, sums: Buffer, chunk: int) -> int:
    """Index of the first chunk of `data` whose CRC-32 differs from its one in `sums`, or -1.

    `data` is whole chunks of `chunk` bytes; `sums` has a big-endian uint32 for each. The GIL is released.

    Raises:
        ValueError: the sizes do not match.
    """
