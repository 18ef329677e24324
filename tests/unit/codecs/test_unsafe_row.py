"""UnsafeRows made by hand from the layout, and what must be refused."""

from __future__ import annotations

import struct
from decimal import Decimal

import pyarrow as pa
import pytest

from hdfsstore.codecs import types as t
from hdfsstore.codecs.unsafe_row import RowCodec
from hdfsstore.errors import SchemaMismatchError, UnsupportedTypeError
from tests.support.unsafe_rows import schema, spans_of


def pack(rows: list[bytes | None]) -> tuple[bytes, pa.Buffer]:
    """The rows one after the other, each behind four bytes of something else, and their spans."""
    data = b""
    pairs = []
    for row in rows:
        data += b"\xee" * 4
        pairs.append((len(data), -1 if row is None else len(row)))
        data += row or b""
    return data, spans_of(*pairs)


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


@pytest.mark.parametrize("at", [0, 511, 512, 1500, 1999])
@pytest.mark.parametrize("whole_row", [False, True])
def test_the_only_null_stands_anywhere_among_many_rows(at: int, whole_row: bool) -> None:
    fields = schema(t.LongType(), t.StringType(), t.BooleanType())
    rows: list[bytes | None] = [
        struct.pack("<QqIIQ", 0, i, 3, 32, i % 2) + f"{i % 1000:03}".encode() + bytes(5) for i in range(2000)
    ]
    expected: list[dict[str, object] | None] = [
        {"f0": i, "f1": f"{i % 1000:03}", "f2": bool(i % 2)} for i in range(2000)
    ]
    rows[at] = None if whole_row else struct.pack("<QqIIQ", 0b101, 0, 3, 32, 0) + b"abc" + bytes(5)
    expected[at] = None if whole_row else {"f0": None, "f1": "abc", "f2": None}
    decoded = decode(fields, *rows)
    assert decoded.to_pylist() == expected
    assert decoded.null_count == whole_row
    assert [decoded.field(i).null_count for i in range(3)] == ([1, 1, 1] if whole_row else [1, 0, 1])


@pytest.mark.parametrize("null_at", [None, 3, 900])
def test_a_row_that_does_not_fit_is_found_behind_many_that_do(null_at: int | None) -> None:
    rows = [struct.pack("<Qq", 0, i) for i in range(2000)]
    if null_at is not None:
        rows[null_at] = struct.pack("<Qq", 1, 0)
    rows[1700] = struct.pack("<Qq", 0b10, 1)
    with pytest.raises(SchemaMismatchError, match="null bits past its 1 fields") as raised:
        decode(schema(t.LongType()), *rows)
    assert raised.value.offset == 1700 * 20 + 4


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


def test_the_slot_of_a_null_string_may_keep_an_offset() -> None:
    """Spark 2.1 wrote it."""
    row = struct.pack("<QQq", 1, 32 << 32, 7)
    assert decode(schema(t.StringType(), t.LongType()), row).to_pylist() == [{"f0": None, "f1": 7}]


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
    "null string": (schema(t.StringType()), struct.pack("<QII", 1, 8, 16), "where field 'f0' is null"),
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


def rows_of(*columns: pa.Array) -> pa.StructArray:
    return pa.StructArray.from_arrays(list(columns), [f"f{i}" for i in range(len(columns))])


def test_a_row_is_written_in_the_order_of_its_fields() -> None:
    codec = RowCodec(schema(t.StringType(), t.IntegerType(), t.DecimalType(20, 0), t.CalendarIntervalType()))
    rows = rows_of(
        pa.array(["ab", None]),
        pa.array([None, -1], pa.int32()),
        pa.array([Decimal(-256), None], pa.decimal128(20, 0)),
        pa.array([None, pa.MonthDayNano((1, 2, 3000))], pa.month_day_nano_interval()),
    )
    first = struct.pack("<QIIQIIII", 0b1010, 2, 40, 0, 2, 48, 16, 64)
    second = struct.pack("<QQIIIIII", 0b0101, 0, 0xFFFFFFFF, 0, 0, 40, 16, 56)
    assert codec.encode(rows).to_pylist() == [
        first + b"ab".ljust(8, b"\0") + b"\xff\0".ljust(16, b"\0") + bytes(16),
        second + bytes(16) + struct.pack("<iiq", 1, 2, 3),
    ]


def test_null_rows_are_null() -> None:
    rows = pa.array([None, {"f0": 7}, None], pa.struct([pa.field("f0", pa.int64())]))
    assert RowCodec(schema(t.LongType())).encode(rows).to_pylist() == [None, struct.pack("<Qq", 0, 7), None]


@pytest.mark.parametrize(
    ("type_", "column"),
    [
        (t.StringType(), pa.array(["a", None, "bc"], pa.large_string())),
        (t.StringType(), pa.array(["a", None, "bc"], pa.string_view())),
        (t.StringType(), pa.array(["a", None, "bc"]).dictionary_encode()),
        (t.BinaryType(), pa.array([b"a", None, b"bc"], pa.large_binary())),
        (t.DecimalType(9, 2), pa.array([Decimal("1.5"), None, Decimal("-2")], pa.decimal256(40, 1))),
        (t.TimestampType(), pa.array([1, None, 2], pa.timestamp("ms", "Europe/Berlin"))),
        (t.TimestampNTZType(), pa.array([1000, None, 2000], pa.timestamp("ns"))),
        (t.ArrayType(t.LongType()), pa.array([[1], None, [2, None]], pa.large_list(pa.int64()))),
    ],
)
def test_arrow_types_that_say_the_same_are_cast(type_: t.DataType, column: pa.Array) -> None:
    codec = RowCodec(schema(type_))
    plain = rows_of(column.cast(codec.arrow_type.field(0).type))
    assert codec.encode(rows_of(column)).equals(codec.encode(plain))


DOES_NOT_FIT = {
    "wrong type": (t.LongType(), pa.array([1], pa.int32()), "'f0' has the Arrow type int32"),
    "text for a number": (t.LongType(), pa.array(["1"]), "'f0' has the Arrow type string"),
    "naive time": (t.TimestampType(), pa.array([1], pa.timestamp("us")), "'f0' has the Arrow type timestamp"),
    "half a microsecond": (t.TimestampNTZType(), pa.array([1], pa.timestamp("ns")), "'f0' is of Arrow type time"),
    "digits": (t.DecimalType(3, 0), pa.array([Decimal(1000)]), "'f0' is of Arrow type decimal"),
    "months only": (
        t.YearMonthIntervalType(),
        pa.array([pa.MonthDayNano((1, 1, 0))]),
        "'f0' has an interval with days",
    ),
    "nanoseconds": (
        t.CalendarIntervalType(),
        pa.array([pa.MonthDayNano((0, 0, 1500))]),
        "'f0' has an interval with a fraction",
    ),
    "element": (t.ArrayType(t.LongType()), pa.array([["x"]]), r"'f0\[\]' has the Arrow type string"),
    "map": (t.MapType(t.LongType(), t.LongType()), pa.array([[1]]), "'f0' has the Arrow type list"),
    "other fields": (
        schema(t.LongType(), t.LongType()),
        pa.array([(1, 1)], pa.struct([("f1", pa.int64()), ("f0", pa.int64())])),
        "'f0' has the Arrow type struct",
    ),
}


@pytest.mark.parametrize("case", DOES_NOT_FIT)
def test_values_that_the_type_cannot_hold(case: str) -> None:
    type_, column, message = DOES_NOT_FIT[case]
    with pytest.raises(SchemaMismatchError, match=message):
        RowCodec(schema(type_)).encode(rows_of(column))


def test_what_arrow_says_of_a_value_is_the_cause_alone() -> None:
    column = pa.array([1_234_567_891], pa.timestamp("ns"))
    with pytest.raises(SchemaMismatchError) as caught:
        RowCodec(schema(t.TimestampNTZType())).encode(rows_of(column))
    assert "1234567891" not in str(caught.value)
    assert "1234567891" in str(caught.value.__cause__)


@pytest.mark.parametrize("digits", [9, 30])
def test_a_decimal_array_that_breaks_its_own_type_is_refused(digits: int) -> None:
    arrow = pa.decimal128(digits, 0)
    too_many = pa.Array.from_buffers(arrow, 1, [None, pa.py_buffer((10**digits).to_bytes(16, "little"))])
    with pytest.raises(SchemaMismatchError, match=f"'f0' has a decimal with more than {digits} digits"):
        RowCodec(schema(t.DecimalType(digits, 0))).encode(rows_of(too_many))


def test_values_behind_a_null_are_not_looked_at() -> None:
    inner = pa.StructArray.from_arrays([pa.array([pa.MonthDayNano((0, 0, 1))])], ["f0"], mask=pa.array([True]))
    codec = RowCodec(schema(schema(t.CalendarIntervalType())))
    assert codec.encode(rows_of(inner)).to_pylist() == [struct.pack("<QQ", 1, 0)]


def test_a_variant_without_its_metadata() -> None:
    column = pa.array(
        [{"value": b"v", "metadata": None}], pa.struct([("value", pa.binary()), ("metadata", pa.binary())])
    )
    with pytest.raises(SchemaMismatchError, match="'f0' has a variant without"):
        RowCodec(schema(t.VariantType())).encode(rows_of(column))


NESTED = {
    "array": (t.ArrayType(t.ShortType()), struct.pack("<qQhhhh", 3, 0b010, 1, 0, -3, 0), [1, None, -3]),
    "empty array": (t.ArrayType(t.StringType()), bytes(8), []),
    "booleans": (
        t.ArrayType(t.BooleanType()),
        struct.pack("<qQ8B", 3, 0b100, 1, 0, 0, 0, 0, 0, 0, 0),
        [True, False, None],
    ),
    "voids": (t.ArrayType(t.NullType()), struct.pack("<qQQ", 1, 1, 0), [None]),
    "strings": (
        t.ArrayType(t.StringType()),
        struct.pack("<qQIIQ", 2, 0b10, 3, 32, 0) + b"abc".ljust(8, b"\0"),
        ["abc", None],
    ),
    "decimals": (
        t.ArrayType(t.DecimalType(20, 0)),
        struct.pack("<qQIIQ", 2, 0b10, 1, 32, 0) + b"\x07".ljust(8, b"\0"),
        [Decimal(7), None],
    ),
    "map": (
        t.MapType(t.IntegerType(), t.LongType()),
        struct.pack("<q", 24) + struct.pack("<qQii", 1, 0, 5, 0) + struct.pack("<qQq", 1, 1, 0),
        [(5, None)],
    ),
    "struct": (schema(t.LongType()), struct.pack("<Qq", 0, 9), {"f0": 9}),
}


@pytest.mark.parametrize("case", NESTED)
def test_nested_values(case: str) -> None:
    type_, part, value = NESTED[case]
    row = bytes(8) + struct.pack("<II", len(part), 16) + part
    decoded = decode(schema(type_), row)
    assert values(decoded) == [value]
    assert RowCodec(schema(type_)).encode(decoded).to_pylist() == [row]


BROKEN = {
    "count too large": (t.ArrayType(t.LongType()), struct.pack("<q", 1 << 40), "counts more elements"),
    "count negative": (t.ArrayType(t.LongType()), struct.pack("<q", -1), "counts more elements"),
    "no count": (t.ArrayType(t.LongType()), b"", "counts more elements"),
    "null bits": (t.ArrayType(t.ByteType()), struct.pack("<qQQ", 1, 2, 0), "null bits past its last element"),
    "boolean": (t.ArrayType(t.BooleanType()), struct.pack("<qQQ", 1, 0, 2), "neither 0 nor 1"),
    "void": (t.ArrayType(t.NullType()), struct.pack("<qQQ", 1, 0, 0), "void element that is not null"),
    "element outside": (t.ArrayType(t.StringType()), struct.pack("<qQII", 1, 0, 1, 24), "do not lie inside it"),
    "elements overlap": (
        t.ArrayType(t.StringType()),
        struct.pack("<qQIIIIQ", 2, 0, 8, 32, 8, 32, 0),
        "together are longer",
    ),
    "digits": (t.ArrayType(t.DecimalType(2, 0)), struct.pack("<qQq", 1, 0, 100), "more digits than its type"),
    "map's keys too long": (t.MapType(t.LongType(), t.LongType()), struct.pack("<qQ", 9, 0), "not a map"),
    "more values than keys": (
        t.MapType(t.LongType(), t.NullType()),
        struct.pack("<qq", 8, 0) + struct.pack("<qQQ", 1, 1, 0),
        "not as many keys as values",
    ),
    "null key": (
        t.MapType(t.ByteType(), t.NullType()),
        struct.pack("<q", 24) + struct.pack("<qQQ", 1, 1, 0) * 2,
        "null keys",
    ),
    "struct": (schema(t.LongType()), bytes(8), r"a struct of 8 bytes in field 'f0'.*too short"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_nested_values(case: str) -> None:
    type_, part, message = BROKEN[case]
    row = bytes(8) + struct.pack("<II", len(part), 16) + part
    with pytest.raises(SchemaMismatchError, match=message) as caught:
        decode(schema(type_), row)
    assert caught.value.offset == 4 + 16  # of the nested value
