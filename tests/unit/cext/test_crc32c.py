import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdfsstore._cext.crc32c import crc32c, crc32c_portable

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


@pytest.mark.parametrize("size", [4_079, 4_080, 4_096, 12_287, 12_288, 12_289, 3 * 12_288 + 17, 100_000])
def test_long_input_goes_through_three_streams(size):
    data = bytes(i * i % 251 for i in range(size))
    assert crc32c(data) == crc32c_portable(data) == crc32c(data[777:], crc32c(data[:777]))
