"""Keys and values of RocksDB stores: what is encoded decodes to the same, in the order that RocksDB gives it."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdfsstore._cext import rocksdb_rows
from hdfsstore._cext.crc32c import crc32c
from hdfsstore.codecs import types as t
from hdfsstore.codecs.rocksdb_keys import VERSION, KeyCodec, family_prefix, key_codec
from hdfsstore.codecs.rocksdb_values import ValueCodec
from hdfsstore.codecs.unsafe_row import RowCodec
from hdfsstore.errors import (
    CorruptFileError,
    SchemaMismatchError,
    StateStoreError,
    UnsupportedTypeError,
    UnsupportedVersionError,
)
from tests.support.row_strategies import tables
from tests.support.rows import same

WORD, NUMBER = t.StructField("word", t.StringType()), t.StructField("number", t.LongType())
KEY = t.StructType((WORD, NUMBER))
VALUE = t.StructType((NUMBER,))
PREFIX, RANGE = "PrefixKeyScanStateEncoderSpec", "RangeKeyScanStateEncoderSpec"
FRONT, END = "TimestampAsPrefixKeyStateEncoderSpec", "TimestampAsPostfixKeyStateEncoderSpec"
FAMILY = family_prefix(0x0102)


def spread(rows: Sequence[bytes | None]) -> tuple[pa.Buffer, pa.Buffer]:
    """The rows with something between them, and their spans."""
    data, numbers = b"", []
    for row in rows:
        data += b"\xee" * 3
        numbers += [len(data), -1 if row is None else len(row)]
        data += row or b""
    return pa.py_buffer(data), pa.py_buffer(struct.pack(f"{len(numbers)}i", *numbers))


def encoder(kind: str, **parameters: Any) -> dict[str, Any]:
    return {"keyStateEncoderType": kind, **parameters}


def structs(schema: t.StructType, rows: Sequence[tuple[Any, ...]]) -> pa.StructArray:
    arrow = RowCodec(schema).arrow_type
    columns = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), arrow, strict=True)]
    return pa.StructArray.from_arrays(columns, fields=list(arrow))


def again(codec: KeyCodec, keys: pa.StructArray) -> pa.StructArray:
    decoded = codec.decode(*spread(codec.encode(keys).to_pylist()))
    decoded.validate(full=True)
    return decoded


@given(tables(null_rows=False), st.data())
def test_keys_of_all_types_in_all_layouts(table: tuple[t.StructType, pa.StructArray], data: st.DataObject) -> None:
    schema, keys = table
    family = data.draw(st.sampled_from([b"", FAMILY]))
    assert same(again(key_codec(schema, {}, family), keys), keys)
    if len(schema.fields) > 1:
        count = data.draw(st.integers(1, len(schema.fields) - 1))
        codec = key_codec(schema, encoder(PREFIX, numColsPrefixKey=count), family)
        assert same(again(codec, keys), keys)
        first = [keys.field(i) for i in range(count)]
        prefixes = codec.prefix(pa.StructArray.from_arrays(first, fields=[keys.type[i] for i in range(count)]))
        for key, prefix in zip(codec.encode(keys).to_pylist(), prefixes.to_pylist(), strict=True):
            assert key.startswith(prefix)
    ordinals = [
        i for i, field in enumerate(schema.fields) if type(field.type) in (t.ByteType, t.LongType, t.DoubleType)
    ]
    if ordinals:
        wanted = data.draw(st.permutations(ordinals))
        assert same(again(key_codec(schema, encoder(RANGE, orderingOrdinals=wanted), family), keys), keys)
    if not schema.fields:
        return
    times = data.draw(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=len(keys), max_size=len(keys)))
    timed = t.StructType((*schema.fields, t.StructField("__event_time", t.LongType(), False)))
    columns = [*keys.flatten(), pa.array(times, pa.int64())]
    with_times = pa.StructArray.from_arrays(columns, fields=list(RowCodec(timed).arrow_type))
    for kind in (FRONT, END):
        assert same(again(key_codec(timed, encoder(kind), family), with_times), with_times)


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        (t.ByteType(), [-128, -1, 0, 1, 127, None]),
        (t.ShortType(), [-(2**15), -2, 0, 2, 2**15 - 1, None]),
        (t.IntegerType(), [-(2**31), -2, 0, 2, 2**31 - 1, None]),
        (t.LongType(), [-(2**63), -2, 0, 2, 2**63 - 1, None]),
        (t.FloatType(), [-math.inf, -1.5, -0.0, 0.0, 1.5, math.inf, math.nan, None]),
        (t.DoubleType(), [-math.inf, -1.5, -0.0, 0.0, 1e-300, math.inf, math.nan, None]),
    ],
)
def test_ordered_keys_have_the_order_of_their_numbers(type_: t.DataType, values: list[Any]) -> None:
    schema = t.StructType((t.StructField("n", type_),))
    codec = key_codec(schema, encoder(RANGE, orderingOrdinals=[0]), FAMILY)
    keys = structs(schema, [(value,) for value in values])
    encoded = codec.encode(keys).to_pylist()
    assert encoded == sorted(encoded)
    assert repr(again(codec, keys).to_pylist()) == repr(keys.to_pylist())  # nan, and the sign of zero


def test_timestamps_in_front_have_their_order() -> None:
    schema = t.StructType((WORD, t.StructField("__event_time", t.LongType())))
    codec = key_codec(schema, encoder(FRONT), FAMILY)
    encoded = codec.encode(structs(schema, [("c", -(2**63)), ("b", -1), ("d", 0), ("a", 2**63 - 1)])).to_pylist()
    assert encoded == sorted(encoded)
    with pytest.raises(ValueError, match="timestamp"):
        codec.prefix(structs(t.StructType((WORD,)), [("a",)]))
    at_end = key_codec(schema, encoder(END), FAMILY)
    (prefix,) = at_end.prefix(structs(t.StructType((WORD,)), [("a",)])).to_pylist()
    assert at_end.encode(structs(schema, [("a", 5)])).to_pylist() == [prefix + (5 ^ 1 << 63).to_bytes(8, "big")]


def test_what_a_key_lacks_or_has_of_another() -> None:
    codec = key_codec(KEY, {}, FAMILY)
    (key,) = codec.encode(structs(KEY, [("a", 1)])).to_pylist()
    assert key.startswith(b"\x02\x01\0")
    with pytest.raises(CorruptFileError, match="other column family"):
        codec.decode(*spread([b"\x03" + key[1:]]))
    with pytest.raises(UnsupportedVersionError, match="version 7, this release reads 0"):
        codec.decode(*spread([key[:2] + b"\x07" + key[3:]]))
    with pytest.raises(CorruptFileError, match="2 bytes") as raised:
        codec.decode(*spread([key, key[:2]]))
    assert raised.value.offset == 3 + len(key) + 3
    with pytest.raises(UnsupportedVersionError, match="'Other'"):
        key_codec(KEY, encoder("Other"), b"")
    with pytest.raises(UnsupportedTypeError, match="'word'"):
        key_codec(KEY, encoder(RANGE, orderingOrdinals=[0]), b"")


@pytest.mark.parametrize(
    "layout",
    [{}, encoder(PREFIX, numColsPrefixKey=1), encoder(RANGE, orderingOrdinals=[1]), encoder(FRONT), encoder(END)],
    ids=lambda layout: str(layout.get("keyStateEncoderType")),
)
def test_damaged_keys(layout: dict[str, Any]) -> None:
    """Each byte changed, and the key cut there: a key or a StateStoreError, and nothing worse."""
    codec = key_codec(KEY, layout, FAMILY)
    (key,) = codec.encode(structs(KEY, [("a long word", 1)])).to_pylist()
    for at in range(len(key)):
        for damaged in (
            key[:at],
            *(key[:at] + bytes([key[at] ^ flipped]) + key[at + 1 :] for flipped in (1, 0x81, 255)),
        ):
            try:
                codec.decode(*spread([damaged])).validate()
            except StateStoreError:
                continue


def element(number: int | None) -> bytes:
    row = b"\0" + RowCodec(VALUE).encode(structs(VALUE, [(number,)]))[0].as_py()
    return struct.pack("<i", len(row)) + row


def lists(values: Sequence[bytes | None], keys: Sequence[bytes] = (), *, row_checksums: bool = False) -> Any:
    codec = ValueCodec(VALUE, lists=True, row_checksums=row_checksums)
    both = [*(keys or [b"key"] * len(values)), *values]
    data, spans = spread(both)
    decoded = codec.decode(data, spans.slice(0, 8 * len(values)), spans.slice(8 * len(values)))
    decoded.validate(full=True)
    return [None if row is None else [item["number"] for item in row] for row in decoded.to_pylist()]


@given(st.lists(st.lists(st.tuples(st.none() | st.integers(-9, 2**40), st.booleans()), max_size=5)))
def test_elements_by_either_joint(values: list[list[tuple[int | None, bool]]]) -> None:
    stored = []
    for value in values:
        joined = b""
        for number, comma in value:
            joined += (b"," if joined and comma else b"") + element(number)
        stored.append(joined)
    assert lists(stored) == [[number for number, _ in value] for value in values]


def test_both_joints_are_told(caplog: pytest.LogCaptureFixture) -> None:
    assert lists([element(1) + element(2)]) == [[1, 2]]
    assert lists([element(1) + b"," + element(2), None]) == [[1, 2], None]
    assert not caplog.records
    lists([element(1) + element(2) + b"," + element(3)])
    assert "another tool" in caplog.text


def test_elements_of_other_sizes_by_the_joint_that_is_told() -> None:
    first, second = b"\x02\0\0\0ab", b"\x2c\0\0\0" + bytes(44)
    for joint, other in ((b",", b""), (b"", b",")):
        data, spans = spread([first + joint + second])
        told = rocksdb_rows.elements(data, spans, False, joint == b",")
        assert told == rocksdb_rows.elements(data, spans, False, other == b",")
        offsets, parts, commas, closed = told
        assert struct.unpack("2i", offsets) == (0, 2)
        assert struct.unpack("4i", parts)[1::2] == (2, 44)
        assert (commas, closed) == ((1, 0) if joint else (0, 1))


def test_a_wrong_way_to_cut_may_find_more_elements_than_the_right_one() -> None:
    """A comma is also the size 44: of each 49 bytes the wrong way makes ten elements before it fails."""
    value = (bytes(4) + b",\0\0\0" + (b"\0,\0\0\0" * 9)[:44]) * 400
    data, spans = spread([value])
    offsets, elements, commas, closed = rocksdb_rows.elements(data, spans, False, True)
    assert memoryview(offsets).cast("i").tolist() == [0, 800]
    assert memoryview(elements).cast("i").tolist()[1::2] == [0, 44] * 400
    assert (commas, closed) == (0, 799)


@pytest.mark.parametrize("value", [element(1)[:-1], element(1) + b",", b"\0\0\0", element(1) + b";" + element(2)])
def test_elements_whose_sizes_do_not_add_up(value: bytes) -> None:
    with pytest.raises(StateStoreError, match="add up"):
        lists([value])


def checked(key: bytes, value: bytes) -> bytes:
    return struct.pack("<Ii", crc32c(key + value), len(value)) + value


@given(st.lists(st.tuples(st.binary(max_size=9), st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=1))))
def test_merged_values_have_a_checksum_each(rows: list[tuple[bytes, list[tuple[int, bool]]]]) -> None:
    stored = []
    for key, value in rows:
        joined = b""
        for number, comma in value:
            joined += (b"," if joined and comma else b"") + checked(key, element(number))
        stored.append(joined)
    keys = [key for key, _ in rows]
    assert lists(stored, keys, row_checksums=True) == [[number for number, _ in value] for _, value in rows]


def test_wrong_checksums() -> None:
    codec = ValueCodec(VALUE, lists=False, row_checksums=True)
    row = element(5)[4:]
    value = checked(b"key", row)
    for stored in (value, None):
        data, spans = spread([b"key", b"key", value, stored])
        assert codec.decode(data, spans.slice(0, 16), spans.slice(16)).to_pylist()[0] == {"number": 5}
    for at in range(len(value)):
        data, spans = spread([b"key", value[:at] + bytes([value[at] ^ 0x10]) + value[at + 1 :]])
        with pytest.raises(CorruptFileError, match="checksum"):
            codec.decode(data, spans.slice(0, 8), spans.slice(8))
        data, spans = spread([b"key", value[:at]])
        with pytest.raises(CorruptFileError, match="checksum"):
            codec.decode(data, spans.slice(0, 8), spans.slice(8))
    data, spans = spread([b"key", b"key", value + b"," + value, None])
    with pytest.raises(CorruptFileError, match="no list"):
        codec.decode(data, spans.slice(0, 16), spans.slice(16))


def test_the_keys_of_a_family_among_others() -> None:
    data, spans = spread([b"\1\0a", b"\2\0b", b"\1", b"\1\0", b""])
    assert struct.unpack("2q", rocksdb_rows.begin_with(data, spans, family_prefix(1))) == (0, 3)


def outcome(codec: RowCodec, data: pa.Buffer, spans: pa.Buffer, prefix: bytes, *, at_once: bool) -> Any:
    """The rows, or what is said of the one that does not fit."""
    try:
        if at_once:
            return codec.decode(data, spans, prefix).to_pylist()
        return codec.decode(data, rocksdb_rows.strip(data, spans, prefix)).to_pylist()
    except StateStoreError as error:
        return type(error), error.message, error.offset


@pytest.mark.parametrize("at", [0, 511, 512, 1299])
@pytest.mark.parametrize("prefix", [VERSION, FAMILY + VERSION, b"longer than a word" + VERSION])
@pytest.mark.parametrize("schema", [KEY, VALUE], ids=["variable", "fixed"])
@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda row, start: row[: start - 1] + b"\1" + row[start:], UnsupportedVersionError),
        (lambda row, start: row[: start - 1], CorruptFileError),
        (lambda row, start: row[: start + 8], SchemaMismatchError),
        (lambda row, start: row[:start] + b"\x80" + row[start + 1 :], SchemaMismatchError),
        (lambda *_: None, None),
    ],
    ids=["version", "empty", "cut", "null bits", "null"],
)
def test_one_row_of_many_is_not_like_the_others(
    at: int,
    prefix: bytes,
    schema: t.StructType,
    change: Callable[[bytes, int], bytes | None],
    error: type[StateStoreError] | None,
) -> None:
    """Many rows are checked together; what is wrong with one of them is found all the same."""
    codec = RowCodec(schema)
    values = [(f"word {i}", i)[-len(schema.fields) :] for i in range(1300)]
    rows: list[bytes | None] = [prefix + row for row in codec.encode(structs(schema, values)).to_pylist()]
    rows[at] = change(rows[at] or b"", len(prefix))
    data, spans = spread(rows)
    found = outcome(codec, data, spans, prefix, at_once=True)
    assert found == outcome(codec, data, spans, prefix, at_once=False)
    if error is None:
        assert [row and row["number"] for row in found] == [None if i == at else i for i in range(1300)]
    else:
        assert found[0] is error


@pytest.mark.parametrize("span", [(-1, 25), (-(1 << 31), 25), (1, (1 << 31) - 1), ((1 << 31) - 1, 25), (10, 25)])
def test_one_span_of_many_is_outside_of_the_data(span: tuple[int, int]) -> None:
    row = VERSION + RowCodec(VALUE).encode(structs(VALUE, [(5,)]))[0].as_py()
    spans = pa.py_buffer(struct.pack("2i", 0, len(row)) * 600 + struct.pack("2i", *span))
    with pytest.raises(SchemaMismatchError, match="outside"):
        RowCodec(VALUE).decode(pa.py_buffer(row), spans, VERSION)


@pytest.mark.parametrize("schema", [KEY, VALUE], ids=["variable", "fixed"])
@pytest.mark.parametrize("span", [(0, -1), ((1 << 31) - 1, -2), ((1 << 31) - 1, -(1 << 31))])
def test_a_row_of_any_size_below_zero_is_null(schema: t.StructType, span: tuple[int, int]) -> None:
    codec = RowCodec(schema)
    row = VERSION + codec.encode(structs(schema, [("a word", 5)[-len(schema.fields) :]]))[0].as_py()
    spans = pa.py_buffer(struct.pack("4i", 0, len(row), *span))
    assert codec.decode(pa.py_buffer(row), spans, VERSION).is_valid().to_pylist() == [True, False]


def test_spans_outside_of_the_data() -> None:
    for span in ((0, 9), (-1, 2), (2**31 - 1, 2**31 - 1)):
        with pytest.raises(CorruptFileError, match="outside"):
            rocksdb_rows.strip(pa.py_buffer(b"\0\0"), pa.py_buffer(struct.pack("2i", *span)), b"\0")
