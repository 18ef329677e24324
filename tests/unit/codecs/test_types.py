"""Spark's types: from JSON and back, to Arrow and back."""

from __future__ import annotations

import array
import json

import pyarrow as pa
import pytest
from hypothesis import given

from hdfsstore.codecs import types as t
from hdfsstore.codecs.arrow_types import from_arrow_schema, to_arrow_schema, to_arrow_type
from hdfsstore.codecs.unsafe_row import RowCodec
from hdfsstore.errors import SchemaMismatchError, UnsupportedTypeError
from tests.support.row_strategies import all_leaves, schemas


def field(name: str, type_: object, metadata: dict[str, object] | None = None) -> dict[str, object]:
    return {"name": name, "type": type_, "nullable": True, "metadata": metadata or {}}


def struct(*fields: dict[str, object]) -> str:
    return json.dumps({"type": "struct", "fields": fields}, separators=(",", ":"))


@pytest.mark.parametrize(
    ("name", "type_"),
    [
        ("void", t.NullType()),
        ("boolean", t.BooleanType()),
        ("byte", t.ByteType()),
        ("short", t.ShortType()),
        ("integer", t.IntegerType()),
        ("long", t.LongType()),
        ("float", t.FloatType()),
        ("double", t.DoubleType()),
        ("string", t.StringType()),
        ("string collate UNICODE_CI", t.StringType("UNICODE_CI")),
        ("char(4)", t.CharType(4)),
        ("varchar(255)", t.VarcharType(255)),
        ("binary", t.BinaryType()),
        ("decimal(38,18)", t.DecimalType(38, 18)),
        ("decimal(5,-2)", t.DecimalType(5, -2)),
        ("date", t.DateType()),
        ("timestamp", t.TimestampType()),
        ("timestamp_ntz", t.TimestampNTZType()),
        ("time(3)", t.TimeType(3)),
        ("interval", t.CalendarIntervalType()),
        ("interval day", t.DayTimeIntervalType("day", "day")),
        ("interval hour to second", t.DayTimeIntervalType("hour", "second")),
        ("interval year to month", t.YearMonthIntervalType()),
        ("interval month", t.YearMonthIntervalType("month", "month")),
        ("variant", t.VariantType()),
        ("geometry(4326)", t.UnknownType('"geometry(4326)"')),
        ("timestamp_ntz(9)", t.UnknownType('"timestamp_ntz(9)"')),
        ("decimal(39,0)", t.UnknownType('"decimal(39,0)"')),
    ],
)
def test_names_of_types(name: str, type_: t.DataType) -> None:
    text = json.dumps(name)
    assert t.parse_type(text) == type_
    assert t.to_json(type_) == text


@pytest.mark.parametrize(
    ("old", "new"),
    [("null", "void"), ("timestamp_ltz", "timestamp"), ("calendarinterval", "interval"), ("decimal", "decimal(10,0)")],
)
def test_names_of_older_sparks(old: str, new: str) -> None:
    assert t.to_json(t.parse_type(json.dumps(old))) == json.dumps(new)


def test_collations_stand_in_the_metadata_of_a_field() -> None:
    array = {"type": "array", "elementType": "string", "containsNull": False}
    value = {"type": "map", "keyType": "string", "valueType": array, "valueContainsNull": True}
    collations = {"m.key": "spark.UTF8_LCASE", "m.value.element": "icu.UNICODE"}
    text = struct(field("m", value, {"note": 1, "__COLLATIONS": collations}))
    parsed = t.parse_type(text)
    assert parsed == t.StructType(
        (
            t.StructField(
                "m",
                t.MapType(t.StringType("UTF8_LCASE"), t.ArrayType(t.StringType("UNICODE"), False)),
                metadata={"note": 1},
            ),
        )
    )
    assert t.to_json(parsed) == text


def test_a_user_defined_type_is_its_sql_type() -> None:
    udt = {"type": "udt", "class": "org.example.PointUDT", "pyClass": None, "sqlType": "double"}
    text = struct(field("p", udt))
    parsed = t.parse_type(text)
    assert isinstance(parsed, t.StructType)
    assert to_arrow_schema(parsed).field("p").type == pa.float64()
    assert from_arrow_schema(to_arrow_schema(parsed)) == parsed
    assert t.to_json(parsed) == text


def test_metadata_and_nullable_may_be_missing() -> None:
    parsed = t.parse_type('{"type":"struct","fields":[{"name":"a","type":"long"}]}')
    assert parsed == t.StructType((t.StructField("a", t.LongType()),))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "7",
        "null",
        "{}",
        '{"type":"struct"}',
        '{"type":"struct","fields":[1]}',
        '{"type":"struct","fields":[{"name":1,"type":"long"}]}',
        '{"type":"struct","fields":[{"type":"long"}]}',
        '{"type":"array","elementType":"long"}',
        '{"type":"array","elementType":' * 100_000,
    ],
)
def test_what_is_no_type(text: str) -> None:
    with pytest.raises(SchemaMismatchError, match="schema"):
        t.parse_type(text)


@given(schemas(all_leaves))
def test_any_schema_comes_back(schema: t.StructType) -> None:
    assert t.parse_type(t.to_json(schema)) == schema
    assert from_arrow_schema(to_arrow_schema(schema)) == schema
    hash(schema)


@pytest.mark.parametrize(
    ("type_", "arrow"),
    [
        (t.TimestampType(), pa.timestamp("us", "UTC")),
        (t.TimestampNTZType(), pa.timestamp("us")),
        (t.DayTimeIntervalType(), pa.duration("us")),
        (t.YearMonthIntervalType(), pa.month_day_nano_interval()),
        (t.TimeType(), pa.time64("ns")),
        (t.DecimalType(5, 2), pa.decimal128(5, 2)),
        (t.ArrayType(t.LongType(), False), pa.list_(pa.field("element", pa.int64(), False))),
        (t.UnknownType('"geometry(0)"'), pa.binary()),
    ],
)
def test_arrow_types(type_: t.DataType, arrow: pa.DataType) -> None:
    assert to_arrow_type(type_) == arrow


def test_arrow_types_without_metadata() -> None:
    arrow = pa.schema(
        [
            pa.field("s", pa.large_string()),
            pa.field("i", pa.month_day_nano_interval()),
            pa.field("ts", pa.timestamp("us", "Europe/Berlin")),
            pa.field("l", pa.large_list(pa.int32())),
        ]
    )
    types = [f.type for f in from_arrow_schema(arrow).fields]
    assert types == [t.StringType(), t.CalendarIntervalType(), t.TimestampType(), t.ArrayType(t.IntegerType())]


def test_an_arrow_type_that_spark_lacks_is_named() -> None:
    arrow = pa.schema([pa.field("a", pa.list_(pa.struct([pa.field("x", pa.uint16())])))])
    with pytest.raises(UnsupportedTypeError, match=r"a\[\]\.x.*uint16"):
        from_arrow_schema(arrow)


def test_a_schema_may_be_nested_a_hundred_levels_deep() -> None:
    def nested(levels: int) -> str:
        return '{"type":"array","containsNull":true,"elementType":' * levels + '"long"' + "}" * levels

    codec = RowCodec(t.StructType((t.StructField("deep", t.parse_type(nested(99))),)))
    row = bytes(8) + (16 << 32 | 8).to_bytes(8, "little") + bytes(8)  # one empty array
    decoded = codec.decode(row, pa.py_buffer(array.array("i", [0, len(row)]).tobytes()))
    assert decoded.to_pylist() == [{"deep": []}]
    assert codec.encode(decoded).to_pylist() == [row]
    with pytest.raises(SchemaMismatchError, match="levels deep"):
        t.parse_type(nested(100))


@pytest.mark.parametrize(
    "type_",
    [
        t.MapType(t.NullType(), t.NullType(), False),
        t.ArrayType(t.NullType(), False),
        t.StructType((t.StructField("f", t.NullType(), False),)),
    ],
    ids=repr,
)
def test_a_void_that_is_not_null_as_spark_has_it_in_empty_maps_and_arrays(type_: t.DataType) -> None:
    struct_type = t.StructType((t.StructField("f", type_),))
    assert from_arrow_schema(to_arrow_schema(struct_type)) == struct_type
    codec = RowCodec(struct_type)
    empty = [] if not isinstance(type_, t.StructType) else {"f": None}
    rows = pa.array([{"f": empty}, {"f": None}], codec.arrow_type)
    encoded = codec.encode(rows)
    spans = array.array("i", [0, len(encoded[0].as_py()), len(encoded[0].as_py()), len(encoded[1].as_py())])
    assert codec.decode(encoded.buffers()[2], pa.py_buffer(spans)).equals(rows)
