"""Records with types, of changelogs v2 and v4: parsing in chunks, checksums, damage."""

from __future__ import annotations

import io
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdfsstore._cext.crc32c import crc32c
from hdfsstore._cext.records import RecordParser
from hdfsstore.codecs.compression import compress
from hdfsstore.codecs.records import RecordFormat, Start, read_chunks
from hdfsstore.errors import CorruptFileError
from tests.support.changelogs import DELETE, DELETE_RANGE, MERGE, PUT, TypedRecord, checksummed, encode_typed, sized

KINDS = {PUT: 1, DELETE: 0, MERGE: 2, DELETE_RANGE: 15}  # RocksDB's numbers
BYTES = st.binary(max_size=40)
RECORDS = st.lists(
    st.tuples(st.sampled_from([PUT, MERGE, DELETE_RANGE]), BYTES, BYTES) | st.tuples(st.just(DELETE), BYTES, st.none()),
    max_size=30,
)


def parser(*, row_checksums: bool = False, max_record_bytes: int = 1 << 20) -> RecordParser:
    return RecordParser(
        row_checksums=row_checksums,
        tombstones=True,
        max_record_bytes=max_record_bytes,
        value_checksums=False,
        typed=True,
    )


def parsed(parser: RecordParser, data: bytes) -> list[TypedRecord]:
    keys = struct.unpack(f"={parser.keys.size // 4}i", parser.keys)
    values = struct.unpack(f"={parser.values.size // 4}i", parser.values)
    assert parser.kinds is not None
    types = {number: kind for kind, number in KINDS.items()}
    return [
        (types[number], data[ko : ko + kn], None if vn < 0 else data[vo : vo + vn])
        for number, ko, kn, vo, vn in zip(
            parser.kinds.to_pybytes(), keys[::2], keys[1::2], values[::2], values[1::2], strict=True
        )
    ]


def test_layout_is_sparks() -> None:
    data = (
        b"\x01" + sized(b"key!") + sized(b"value")
        + b"\x10" + sized(b"gone") + struct.pack(">i", -1)
        + b"\x11" + sized(b"list") + sized(b"more")
        + b"\x20" + sized(b"from") + sized(b"to")
        + b"\0"
    )  # fmt: skip
    records = [
        (PUT, b"key!", b"value"),
        (DELETE, b"gone", None),
        (MERGE, b"list", b"more"),
        (DELETE_RANGE, b"from", b"to"),
    ]
    assert encode_typed(records) == data
    reader = parser()
    assert reader.parse(data, len(data)) == 4
    assert reader.ended
    assert reader.consumed == len(data)
    assert parsed(reader, data) == records


@given(RECORDS, st.integers(1, 50))
def test_chunks_of_any_size_give_the_same_records(records: list[TypedRecord], step: int) -> None:
    data = encode_typed(records)
    reader = parser()
    got, start, end = [], 0, 0
    while not reader.ended:
        end = min(end + step, len(data))
        reader.parse(data[start:end], end - start)
        got += parsed(reader, data[start:end])
        start += reader.consumed
    assert got == records


@given(RECORDS)
def test_checksums_of_values_stay_and_others_are_verified(records: list[TypedRecord]) -> None:
    data = encode_typed(records, row_checksums=True)
    reader = parser(row_checksums=True)
    reader.parse(data, len(data))
    stored = [(k, key, checksummed(key, v) if k in (PUT, MERGE) and v is not None else v) for k, key, v in records]
    assert parsed(reader, data) == stored


@given(RECORDS.filter(lambda records: any(kind in (DELETE, DELETE_RANGE) for kind, _, _ in records)), st.data())
def test_checksums_catch_every_changed_byte_of_what_is_deleted(records: list[TypedRecord], data: st.DataObject) -> None:
    encoded = bytearray(encode_typed(records, row_checksums=True))
    reader = parser(row_checksums=True)
    reader.parse(bytes(encoded), len(encoded))
    keys = struct.unpack(f"={reader.keys.size // 4}i", reader.keys)
    covered = [
        i
        for (kind, _, _), offset, size in zip(records, keys[::2], keys[1::2], strict=True)
        for i in range(offset, offset + size)
        if kind in (DELETE, DELETE_RANGE)
    ]
    if covered:
        encoded[data.draw(st.sampled_from(covered))] ^= 1 << data.draw(st.integers(0, 7))
        with pytest.raises(CorruptFileError, match="row checksum"):
            reader.parse(bytes(encoded), len(encoded))


def of_range(key: bytes, checksum: int, size: int, end: bytes) -> bytes:
    return b"\x20" + sized(key) + sized(struct.pack("<Ii", checksum, size) + end)


@pytest.mark.parametrize(
    ("data", "row_checksums", "message"),
    [
        (b"\x02", False, "unknown type 0x02"),
        (b"\xff", False, "unknown type 0xff"),
        (b"\x01" + struct.pack(">i", -1), False, "key of -1 bytes"),
        (b"\x01" + struct.pack(">i", 2**31 - 1), False, "key of 2147483647 bytes"),
        (b"\x01" + struct.pack(">ii", 0, -1), False, "value of -1 bytes"),
        (b"\x11" + struct.pack(">ii", 0, -1), False, "value of -1 bytes"),
        (b"\x20" + struct.pack(">ii", 0, -1), False, "value of -1 bytes"),
        (b"\x10" + struct.pack(">ii", 0, 0), False, "value of 0 bytes"),
        (b"\x01" + struct.pack(">ii", 0, 2**30), False, "value of 1073741824 bytes"),
        (b"\x10" + sized(b"abc") + struct.pack(">i", -1), True, "too short"),
        (b"\x10" + sized(b"abcde") + struct.pack(">i", -1), True, "row checksum"),
        (b"\x20" + sized(b"a") + sized(b"1234567"), True, "too short"),
        (of_range(b"a", 1, 1, b"b"), True, "row checksum"),
        (of_range(b"a", crc32c(b"ab"), 2, b"b"), True, "row checksum"),
    ],
)
def test_damage_is_named_with_its_offset(data: bytes, row_checksums: bool, message: str) -> None:
    good = encode_typed([(PUT, b"k", b"v")])[:-1]
    reader = parser(row_checksums=row_checksums)
    with pytest.raises(CorruptFileError, match=message) as error:
        reader.parse(good + data, len(good + data))
    assert error.value.offset == len(good)


def test_a_whole_range_is_deleted() -> None:
    data = of_range(b"a", crc32c(b"ab"), 1, b"b") + b"\0"
    reader = parser(row_checksums=True)
    assert reader.parse(data, len(data)) == 1
    assert parsed(reader, data) == [(DELETE_RANGE, b"a", b"b")]


@pytest.mark.parametrize("cut", range(1, 20))
def test_a_file_that_is_cut_off(cut: int) -> None:
    content = encode_typed([(PUT, b"key", b"value"), (DELETE, b"gone", None)])
    raw = io.BytesIO(compress("lz4", content[:-cut]))
    with pytest.raises(CorruptFileError, match="end mark"):
        list(read_chunks(raw, RecordFormat(), "delta", "1.changelog", lambda _: Start(typed=True)))
