"""Converts Spark SQL's data types to Arrow's, and back.

The Arrow types are those of Spark's `DataFrame.toArrow()` (`ArrowUtils.scala`). If the Arrow type
does not determine the Spark type (char, varchar, collated string, year-month interval, time of another precision,
user-defined type, unknown type), the Arrow field has the Spark type's JSON under the metadata key `spark.type`. The
Spark metadata of a field is under `spark.metadata`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from hdfsstore.codecs import types as t
from hdfsstore.errors import SchemaMismatchError, UnsupportedTypeError

TYPE_KEY = b"spark.type"
METADATA_KEY = b"spark.metadata"


def to_arrow_schema(struct: t.StructType) -> pa.Schema:
    return pa.schema(_arrow_fields(struct))


def from_arrow_schema(schema: pa.Schema) -> t.StructType:
    """Errors: UnsupportedTypeError if Spark has no type for an Arrow type; it names the field."""
    return t.StructType(tuple(_from_arrow_field(f, f.name) for f in schema))


def cast_array(array: Any, arrow: Any, what: str) -> Any:
    """Casts the array to an Arrow type.

    Raises:
        SchemaMismatchError: it cannot be cast. The message begins with `what`. Arrow's own message may contain a value
            of the user's, so only the `__cause__` has it.
    """
    if array.type == arrow:
        return array
    try:
        return array.cast(arrow)
    except pa.ArrowException as error:
        message = f"{what} is of Arrow type {array.type}, not {arrow}, and cannot be cast to it"
        raise SchemaMismatchError(message) from error


def to_arrow_type(type_: t.DataType) -> pa.DataType:
    """The Arrow type for values of a Spark type. The metadata of its field completes it."""
    match type_:
        case t.StringType() | t.CharType() | t.VarcharType():
            return pa.string()
        case t.DecimalType(precision, scale):
            return pa.decimal128(precision, scale)
        case t.DayTimeIntervalType():
            return pa.duration("us")
        case t.TimeType():
            return pa.time64("ns")
        case t.YearMonthIntervalType():
            return pa.month_day_nano_interval()
        case t.VariantType():
            tag = {b"variant": b"true"}
            return pa.struct(
                [pa.field("value", pa.binary(), False), pa.field("metadata", pa.binary(), False, metadata=tag)]
            )
        case t.ArrayType(element, contains_null):
            return pa.list_(_arrow_field("element", element, contains_null))
        case t.MapType(key, value, contains_null):
            entry = _arrow_field("key", key, False), _arrow_field("value", value, contains_null)
            return pa.map_(*entry)
        case t.StructType():
            return pa.struct(_arrow_fields(type_))
        case t.UserDefinedType(sql_type):
            return to_arrow_type(sql_type)
        case t.UnknownType():
            return pa.binary()
    return _SIMPLE_ARROW[type(type_)]


_SIMPLE_ARROW: dict[type[t.DataType], pa.DataType] = {
    t.NullType: pa.null(),
    t.BooleanType: pa.bool_(),
    t.ByteType: pa.int8(),
    t.ShortType: pa.int16(),
    t.IntegerType: pa.int32(),
    t.LongType: pa.int64(),
    t.FloatType: pa.float32(),
    t.DoubleType: pa.float64(),
    t.BinaryType: pa.binary(),
    t.DateType: pa.date32(),
    t.TimestampType: pa.timestamp("us", "UTC"),
    t.TimestampNTZType: pa.timestamp("us"),
    t.CalendarIntervalType: pa.month_day_nano_interval(),
}
# The Spark type of an Arrow type without metadata.
_FROM_ARROW: dict[pa.DataType, t.DataType] = {arrow: cls() for cls, arrow in _SIMPLE_ARROW.items()} | {
    pa.duration("us"): t.DayTimeIntervalType(),
    pa.time64("ns"): t.TimeType(),
    pa.string(): t.StringType(),
    pa.large_string(): t.StringType(),
    pa.string_view(): t.StringType(),
    pa.large_binary(): t.BinaryType(),
    pa.binary_view(): t.BinaryType(),
}


def _arrow_fields(struct: t.StructType) -> list[pa.Field[Any]]:
    return [_arrow_field(f.name, f.type, f.nullable, f.metadata) for f in struct.fields]


def _arrow_field(
    name: str, type_: t.DataType, nullable: bool, metadata: Mapping[str, Any] | None = None
) -> pa.Field[Any]:
    arrow = to_arrow_type(type_)
    tags: dict[bytes, bytes] = {}
    told = isinstance(type_, (t.StructType, t.ArrayType, t.MapType, t.VariantType, t.DecimalType))
    if not told and _FROM_ARROW.get(arrow) != type_:
        tags[TYPE_KEY] = t.to_json(type_).encode()
    if metadata:
        tags[METADATA_KEY] = json.dumps(metadata, separators=(",", ":"), ensure_ascii=False).encode()
    if isinstance(type_, t.NullType):  # Only with_type allows a void that is not nullable, as in map() and array().
        return pa.field(name, pa.bool_(), nullable, metadata=tags or None).with_type(arrow)
    return pa.field(name, arrow, nullable, metadata=tags or None)


def _from_arrow_field(arrow: pa.Field[Any], path: str) -> t.StructField:
    tags = arrow.metadata or {}
    type_ = t.parse_type(tags[TYPE_KEY].decode()) if TYPE_KEY in tags else _from_arrow_type(arrow.type, path)
    metadata = json.loads(tags[METADATA_KEY]) if METADATA_KEY in tags else {}
    return t.StructField(arrow.name, type_, arrow.nullable, metadata)


def _from_arrow_type(arrow: pa.DataType, path: str) -> t.DataType:
    if arrow in _FROM_ARROW:
        return _FROM_ARROW[arrow]
    if pa.types.is_decimal128(arrow):
        return t.DecimalType(arrow.precision, arrow.scale)
    if pa.types.is_timestamp(arrow) and arrow.unit == "us":
        return t.TimestampType()
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        element = _from_arrow_field(arrow.value_field, f"{path}[]")
        return t.ArrayType(element.type, element.nullable)
    if pa.types.is_map(arrow):
        key = _from_arrow_field(arrow.key_field, f"{path}.key")
        value = _from_arrow_field(arrow.item_field, f"{path}.value")
        return t.MapType(key.type, value.type, value.nullable)
    if pa.types.is_struct(arrow):
        if any((f.metadata or {}).get(b"variant") == b"true" for f in arrow.fields):
            return t.VariantType()
        return t.StructType(tuple(_from_arrow_field(f, f"{path}.{f.name}") for f in arrow.fields))
    raise UnsupportedTypeError(
        f"field {path!r} has the Arrow type {arrow}, for which there is no Spark type",
        remedy="Give the field one of the types of Spark's toArrow()",
    )
