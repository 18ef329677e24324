"""Records of delta and snapshot files: parsing in chunks, encoding, checksums, damage."""

import struct

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdfsstore._cext.records import RecordParser, encode_records
from hdfsstore.codecs import records as chunks
from hdfsstore.codecs.compression import Reader, compress, open_reader
from hdfsstore.codecs.records import RecordFormat, read_chunks
from hdfsstore.errors import CorruptFileError
from tests.support.records import Record

RECORDS = st.lists(st.tuples(st.binary(max_size=40), st.none() | st.binary(max_size=40)), max_size=30)


def encode(records: list[Record], *, row_checksums: bool = False) -> bytes:
    keys = pa.array([key for key, _ in records], pa.binary())
    values = pa.array([value for _, value in records], pa.large_binary())
    return encode_records(keys, values, row_checksums=row_checksums).to_pybytes()


def parser(**options: object) -> RecordParser:
    return RecordParser(**({"row_checksums": False, "tombstones": True, "max_record_bytes": 1 << 20} | options))


def parsed(parser: RecordParser, data: bytes) -> list[Record]:
    keys = struct.unpack(f"={parser.keys.size // 4}i", parser.keys)
    values = struct.unpack(f"={parser.values.size // 4}i", parser.values)
    return [
        (data[ko : ko + kn], None if vn < 0 else data[vo : vo + vn])
        for ko, kn, vo, vn in zip(keys[::2], keys[1::2], values[::2], values[1::2], strict=True)
    ]


def test_layout_is_sparks() -> None:
    data = encode([(b"key!", b"value"), (b"gone", None)])
    assert data == (
        struct.pack(">i", 4) + b"key!" + struct.pack(">i", 5) + b"value"
        + struct.pack(">i", 4) + b"gone" + struct.pack(">i", -1)
        + struct.pack(">i", -1)
    )  # fmt: skip


def test_row_checksums_lie_where_spark_puts_them() -> None:
    # CRC-32C of "123456789" is the check value of the algorithm's catalogue entry, 0xE3069283.
    data = encode([(b"1234", b"56789"), (b"123456789", None)], row_checksums=True)
    crc = struct.pack("<I", 0xE3069283)
    assert data == (
        struct.pack(">i", 4) + b"1234" + struct.pack(">i", 9) + crc + b"56789"
        + struct.pack(">i", 13) + crc + b"123456789" + struct.pack(">i", -1)
        + struct.pack(">i", -1)
    )  # fmt: skip


@given(RECORDS, st.booleans())
def test_round_trip(records: list[Record], row_checksums: bool) -> None:
    data = encode(records, row_checksums=row_checksums)
    reader = parser(row_checksums=row_checksums)
    assert reader.parse(data, len(data)) == len(records)
    assert reader.ended
    assert reader.consumed == len(data)
    assert parsed(reader, data) == records


@given(RECORDS, st.integers(1, 50))
def test_chunks_of_any_size_give_the_same_records(records: list[Record], step: int) -> None:
    data = encode(records)
    reader = parser()
    got, start, end = [], 0, 0
    while not reader.ended:
        end = min(end + step, len(data))
        reader.parse(data[start:end], end - start)
        got += parsed(reader, data[start:end])
        start += reader.consumed
    assert got == records


def chunk_sizes(content: bytes) -> list[int]:
    """How many records each chunk of a file has."""
    raw = pa.BufferReader(compress("lz4", content))
    return [len(chunk) for chunk in read_chunks(raw, RecordFormat("lz4"), "delta", "1.delta")]


def test_chunks_have_room_for_whole_blocks_beside_what_is_left_over(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    class Asked:
        def __init__(self, reader: Reader) -> None:
            self._reader = reader

        def readinto(self, buffer: memoryview) -> int:
            asked.append(len(buffer))
            return self._reader.readinto(buffer)

    def opened(codec: str, raw: pa.NativeFile, *, path: str) -> Asked:
        return Asked(open_reader(codec, raw, path=path))

    monkeypatch.setattr(chunks, "open_reader", opened)
    content = encode([(b"key %07d" % i, bytes(50)) for i in range(60_000)])
    assert sum(chunk_sizes(content)) == 60_000
    assert asked == [chunks.CHUNK_BYTES] * 4


@pytest.mark.parametrize("size", [10, 500, 900, 980])
def test_a_chunk_grows_for_a_record_as_far_as_is_allowed(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK_BYTES", 64)
    monkeypatch.setattr(chunks, "MAX_CHUNK_BYTES", 1000)
    records = [(b"first", b"x"), (b"large", bytes(size)), (b"last", None)]
    assert sum(chunk_sizes(encode(records))) == 3
    with pytest.raises(CorruptFileError, match="a record takes 1000 bytes or more"):
        chunk_sizes(encode([*records, (b"too large", bytes(1000))]))


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (struct.pack(">i", -2), {}, "key of -2 bytes"),
        (struct.pack(">i", 2**31 - 1), {}, "key of 2147483647 bytes"),
        (struct.pack(">ii", 0, -3), {}, "value of -3 bytes"),
        (struct.pack(">ii", 0, 2**30), {}, "value of 1073741824 bytes"),
        (struct.pack(">ii", 0, -1), {"tombstones": False}, "tombstone"),
        (struct.pack(">ii", 0, 3) + b"abc", {"row_checksums": True}, "too short"),
        (struct.pack(">ii", 0, -1), {"row_checksums": True}, "too short"),
        (struct.pack(">ii", 0, 4) + b"abcd", {"row_checksums": True}, "row checksum"),
    ],
)
def test_damage_is_named_with_its_offset(data: bytes, options: dict[str, object], message: str) -> None:
    good = encode([(b"k", b"v")], row_checksums=bool(options.get("row_checksums")))[:-4]
    reader = parser(**options)
    with pytest.raises(CorruptFileError, match=message) as error:
        reader.parse(good + data, len(good + data))
    assert error.value.offset == len(good)


@given(RECORDS.filter(len), st.data())
def test_row_checksums_catch_every_changed_row_byte(records: list[Record], data: st.DataObject) -> None:
    encoded = bytearray(encode(records, row_checksums=True))
    reader = parser(row_checksums=True)
    reader.parse(bytes(encoded), len(encoded))
    spans = struct.unpack(f"={reader.keys.size // 4}i", reader.keys)
    covered = [i for o, n in zip(spans[::2], spans[1::2], strict=True) for i in range(o, o + n)]
    if covered:
        encoded[data.draw(st.sampled_from(covered))] ^= 1 << data.draw(st.integers(0, 7))
        with pytest.raises(CorruptFileError, match="row checksum"):
            reader.parse(bytes(encoded), len(encoded))


def test_slices_of_arrays_are_encoded_from_their_offset() -> None:
    keys = pa.array([b"left out", b"a", b"b"])
    values = pa.array([None, b"1", None], pa.binary())
    assert encode_records(keys[1:], values[1:]).to_pybytes() == encode([(b"a", b"1"), (b"b", None)])


def test_encode_refuses_what_is_no_record() -> None:
    two = pa.array([b"a", b"b"])
    with pytest.raises(ValueError, match="2 keys and 1 values"):
        encode_records(two, two[:1])
    with pytest.raises(ValueError, match="key 1 is null"):
        encode_records(pa.array([b"a", None]), two)
    with pytest.raises(TypeError, match="not string"):
        encode_records(pa.array(["a", "b"]), two)
