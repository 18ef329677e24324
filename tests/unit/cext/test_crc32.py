"""CRC-32 a chunk against zlib's own."""

from __future__ import annotations

import random
import zlib

import pytest

from hdfsstore._cext.crc32 import first_bad_chunk


@pytest.mark.parametrize("chunk", [1, 7, 8, 15, 16, 63, 64, 65, 80, 127, 128, 129, 200, 512, 4096, 5003])
def test_agrees_with_zlib(chunk: int) -> None:
    data = random.Random(chunk).randbytes(chunk * 5)
    sums = [zlib.crc32(data[at : at + chunk]) for at in range(0, len(data), chunk)]
    encoded = b"".join(crc.to_bytes(4, "big") for crc in sums)
    assert first_bad_chunk(data, encoded, chunk) == -1
    for bad in range(5):
        flipped = bytearray(data)
        flipped[bad * chunk + chunk // 2] ^= 0x10
        assert first_bad_chunk(flipped, encoded, chunk) == bad


def test_no_chunks() -> None:
    assert first_bad_chunk(b"", b"", 512) == -1


@pytest.mark.parametrize(("size", "sums", "chunk"), [(10, 4, 0), (10, 4, -1), (10, 8, 8), (16, 4, 8), (16, 12, 8)])
def test_sizes_that_do_not_match(size: int, sums: int, chunk: int) -> None:
    with pytest.raises(ValueError, match="chunk"):
        first_bad_chunk(bytes(size), bytes(sums), chunk)
