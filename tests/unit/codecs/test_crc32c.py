import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdfsstore._cext.crc32c import crc32c, crc32c_portable, first_bad_chunk

IMPLEMENTATIONS = [crc32c, crc32c_portable]


def bitwise(data: bytes, value: int = 0) -> int:
    """The definition, bit by bit."""
    value ^= 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


@pytest.mark.parametrize("checksum", IMPLEMENTATIONS)
@pytest.mark.parametrize(
    ("data", "expected"),
    [  # RFC 3720, appendix B.4
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
    ],
)
def test_known_values(checksum, data, expected):
    assert checksum(data) == expected


@pytest.mark.parametrize("checksum", IMPLEMENTATIONS)
@given(st.binary(max_size=100), st.integers(0, 2**32 - 1), st.integers(0, 9))
def test_is_the_definition_at_every_length_and_alignment(checksum, data, value, start):
    assert checksum(memoryview(data)[start:], value) == bitwise(data[start:], value)


@pytest.mark.parametrize("size", [12_287, 12_288, 12_289, 3 * 12_288 + 17, 100_000])
def test_long_input_goes_through_three_streams(size):
    data = bytes(i * i % 251 for i in range(size))
    assert crc32c(data) == crc32c_portable(data) == crc32c(data[777:], crc32c(data[:777]))


def sums_of(data: bytes, chunk: int) -> bytes:
    return b"".join(crc32c_portable(data[i : i + chunk]).to_bytes(4, "big") for i in range(0, len(data), chunk))


@given(st.binary(max_size=400), st.sampled_from([1, 7, 8, 16, 100, 512]), st.data())
def test_first_bad_chunk_finds_the_changed_byte(data, chunk, draw):
    sums = sums_of(data, chunk)
    assert first_bad_chunk(data, sums + b"more", chunk) == -1
    if data:
        at = draw.draw(st.integers(0, len(data) - 1))
        damaged = bytearray(data)
        damaged[at] ^= draw.draw(st.integers(1, 255))
        assert first_bad_chunk(damaged, sums, chunk) == at // chunk


def test_first_bad_chunk_checks_its_arguments():
    with pytest.raises(ValueError, match="too few"):
        first_bad_chunk(bytes(513), bytes(4), 512)
    with pytest.raises(ValueError, match="at least 1 byte"):
        first_bad_chunk(b"", b"", 0)
