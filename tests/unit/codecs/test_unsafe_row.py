"""UnsafeRows made by hand from the layout, and what must be refused."""

from __future__ import annotations

import array
import struct
from decimal import Decimal

import pyarrow as pa
import pytest

from hdfsstore.codecs import types as t
from hdfsstore.codecs.unsafe_row import RowCodec
from hdfsstore.errors import SchemaMismatchError, UnsupportedTypeError


def spans_of(*pairs: tuple[int, int]) -> pa.Buffer:
    return pa.py_buffer(array.array("i", [number for pair in pairs for number in pair]).tobytes())


def pack(rows: list[bytes | None]) -> tuple[bytes, pa.Buffer]:
    """The rows one after the other, each behind four bytes of something else, and their spans."""
    data = b""
    pairs = []
    for row in rows:
        data += b"\xee" * 4
        pairs.append((len(data), -1 if row is None else len(row)))
        data += row or b""
    return data, spans_of(*pairs)


def schema(*fields: t.DataType) -> t.StructType:
    return t.StructType(tuple(t.StructField(f"f{i}", type_) for i, type_ in enumerate(fields)))


def decode(struct_type: t.StructType, *rows: bytes | None) -> pa.StructArray:
    decoded = RowCodec(struct_type).decode(*pack(list(rows)))
    decoded.validate(full=True)
    return decoded


def values(decoded: pa.StructArray, field: int = 0) -> list[object]:
    return decoded.field(field).to_pylist()


def test_flat_row_of_fixed_and_variable_fields() -> None:
    row = struct.pack("<Qq", 0, -7) + struct.pack("<II", 3, 32) + struct.pack("<d", 2.5) + b"abc\0\0\0\0\0"
    decoded = decode(schema(t.LongType(), t.StringType(), t.DoubleType()), row, row)
    assert decoded.to_pylist() == [{"f0": -7, "f1": "abc", "f2": 2.5}] * 2
    assert decoded.null_count == 0
    assert decoded.field(0).buffers()[0] is None


def test_null_fields_and_null_rows() -> None:
    codec_schema = schema(t.IntegerType(), t.StringType(), t.BooleanType(), t.NullType())
    null = struct.pack("<Q4Q", 0b1111, 0, 0, 0, 0)
    full = struct.pack("<QiiIIQQ", 0b1000, -2, 0, 1, 40, 1, 0) + b"z\0\0\0\0\0\0\0"
    decoded = decode(codec_schema, null, None, full)
    assert decoded.to_pylist() == [
        {"f0": None, "f1": None, "f2": None, "f3": None},
        None,
        {"f0": -2, "f1": "z", "f2": True, "f3": None},
    ]


def test_more_than_64_fields_have_two_words_of_null_bits() -> None:
    row = struct.pack("<QQ", 1 << 3, 1) + b"".join(struct.pack("<q", i * (i not in (3, 64))) for i in range(65))
    decoded = decode(schema(*[t.LongType()] * 65), row)
    assert [values(decoded, i)[0] for i in range(65)] == [None if i in (3, 64) else i for i in range(65)]


@pytest.mark.parametrize(
    ("type_", "slot", "value"),
    [
        (t.ByteType(), b"\x80", -128),
        (t.ShortType(), struct.pack("<h", -300), -300),
        (t.FloatType(), struct.pack("<f", 0.5), 0.5),
        (t.DecimalType(5, 2), struct.pack("<q", -12345), Decimal("-123.45")),
        (t.DecimalType(18, 0), struct.pack("<q", 10**18 - 1), Decimal(10**18 - 1)),
        (t.YearMonthIntervalType(), struct.pack("<i", -14), pa.MonthDayNano((-14, 0, 0))),
        (t.VarcharType(3), struct.pack("<II", 0, 16), ""),
    ],
)
def test_types_in_one_slot(type_: t.DataType, slot: bytes, value: object) -> None:
    assert values(decode(schema(type_), bytes(8) + slot.ljust(8, b"\0"))) == [value]


@pytest.mark.parametrize(
    ("type_", "size", "tail", "value"),
    [
        (t.BinaryType(), 17, bytes(range(17)) + bytes(7), bytes(range(17))),
        (t.DecimalType(20, 1), 1, b"\xff" + bytes(15), Decimal("-0.1")),
        (t.DecimalType(38, 0), 16, (10**38 - 1).to_bytes(16, "big"), Decimal(10**38 - 1)),
        (t.DecimalType(38, 0), 16, (1 - 10**38).to_bytes(16, "big", signed=True), Decimal(1 - 10**38)),
        (t.CalendarIntervalType(), 16, struct.pack("<iiq", 1, -2, 3), pa.MonthDayNano((1, -2, 3000))),
        (t.VariantType(), 9, struct.pack("<i", 2) + b"vvmmm" + bytes(7), {"value": b"vv", "metadata": b"mmm"}),
    ],
)
def test_types_in_the_variable_part(type_: t.DataType, size: int, tail: bytes, value: object) -> None:
    assert values(decode(schema(type_), bytes(8) + struct.pack("<II", size, 16) + tail)) == [value]


@pytest.mark.parametrize("type_", [t.DecimalType(20, 1), t.CalendarIntervalType()])
@pytest.mark.parametrize("reserved", [True, False])
def test_a_null_may_reserve_its_space(type_: t.DataType, reserved: bool) -> None:
    size = 16 if isinstance(type_, t.CalendarIntervalType) else 0
    slot, tail = (struct.pack("<II", size, 16), bytes(16)) if reserved else (bytes(8), b"")
    assert values(decode(schema(type_), struct.pack("<Q", 1) + slot + tail)) == [None]


def test_stray_bytes_after_a_row_are_dropped() -> None:
    """Spark 2.1 wrote 28 bytes for two longs."""
    row = struct.pack("<Qqq", 0, 1, 2)
    assert decode(schema(t.LongType(), t.LongType()), row + b"abcd").to_pylist() == [{"f0": 1, "f1": 2}]


def test_fields_of_one_name() -> None:
    twice = t.StructType((t.StructField("sum", t.LongType()), t.StructField("sum", t.IntegerType())))
    decoded = decode(twice, struct.pack("<Qqq", 0, 1, 2))
    assert (values(decoded, 0), values(decoded, 1)) == ([1], [2])


def test_invalid_utf8_is_kept() -> None:
    row = bytes(8) + struct.pack("<II", 2, 16) + b"\xff\xfe" + bytes(6)
    decoded = RowCodec(schema(t.StringType())).decode(*pack([row]))
    assert decoded.field(0).cast(pa.binary()).to_pylist() == [b"\xff\xfe"]


REFUSED = {
    "too short": (schema(t.LongType(), t.LongType()), bytes(16), "2 fields need at least 24 bytes"),
    "too long": (schema(t.LongType()), bytes(24), "another size than the 16 bytes"),
    "null bits": (schema(t.LongType()), struct.pack("<QQ", 2, 0), "null bits past its 1 fields"),
    "null slot": (schema(t.LongType()), struct.pack("<QQ", 1, 1), "where field 'f0' is null"),
    "wide boolean": (schema(t.BooleanType()), struct.pack("<QQ", 0, 2), "too wide for field 'f0'"),
    "wide int": (schema(t.IntegerType()), struct.pack("<QQ", 0, 1 << 32), "too wide for field 'f0'"),
    "wide byte": (schema(t.ByteType()), struct.pack("<QQ", 0, 1 << 8), "too wide for field 'f0'"),
    "offset in the slots": (schema(t.StringType()), struct.pack("<QII", 0, 8, 8), "do not lie inside it"),
    "offset behind the row": (schema(t.StringType()), struct.pack("<QII", 0, 8, 16), "do not lie inside it"),
    "negative size": (schema(t.StringType()), struct.pack("<QIIQ", 0, 0xFFFFFFFF, 16, 0), "do not lie inside it"),
    "void not null": (schema(t.NullType()), bytes(16), "where field 'f0' is null"),
    "same bytes twice": (
        schema(t.StringType(), t.StringType()),
        struct.pack("<QIIIIQ", 0, 8, 24, 8, 24, 0),
        "together are longer",
    ),
    "digits": (schema(t.DecimalType(3, 0)), struct.pack("<Qq", 0, 1000), "more digits than field 'f0'"),
    "digits of a long decimal": (
        schema(t.DecimalType(19, 0)),
        struct.pack("<QII", 0, 16, 16) + (10**19).to_bytes(16, "big"),
        "not a decimal of 19 digits",
    ),
    "interval of 8 bytes": (schema(t.CalendarIntervalType()), struct.pack("<QIIQ", 0, 8, 16, 0), "not a calendar"),
    "interval too long": (
        schema(t.CalendarIntervalType()),
        struct.pack("<QIIQq", 0, 16, 16, 0, 1 << 62),
        "Arrow's nanoseconds",
    ),
    "variant": (schema(t.VariantType()), struct.pack("<QIIiI", 0, 8, 16, 5, 0), "not a variant"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_rows_of_another_schema_are_refused(case: str) -> None:
    struct_type, row, message = REFUSED[case]
    with pytest.raises(SchemaMismatchError, match=message) as caught:
        decode(struct_type, None, row)
    assert caught.value.offset is not None
    assert caught.value.offset >= 8


@pytest.mark.parametrize("pair", [(0, 17), (-8, 16), (16, 1), (2**31 - 1, 2**31 - 1)])
def test_spans_outside_of_the_data(pair: tuple[int, int]) -> None:
    with pytest.raises(SchemaMismatchError, match="outside"):
        RowCodec(schema(t.LongType())).decode(bytes(16), spans_of(pair))


def test_an_unknown_type_is_named_with_its_path() -> None:
    inner = t.StructType((t.StructField("deep", t.MapType(t.StringType(), t.UnknownType('"geometry(0)"'))),))
    with pytest.raises(UnsupportedTypeError, match=r"f1\[\]\.deep\.value.*geometry"):
        RowCodec(schema(t.LongType(), t.ArrayType(inner)))
