"""Spark SQL's data types: from and to the JSON that Spark keeps in schema files, and from and to Arrow.

The JSON is that of Spark's `DataType.json` (`sql/api/.../types/DataType.scala`); the Arrow types are those of Spark's
`DataFrame.toArrow()`. Where an Arrow type alone does not tell which Spark type it stands for (char, varchar, collated
string, year-month interval, time of another precision, user-defined type, a type unknown to us), its field carries the
Spark type's JSON under the metadata key `spark.type`; a field's own Spark metadata is kept under `spark.metadata`.

Types are matched by position, never by name: two fields of one struct may have the same name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pyarrow as pa

from hdfsstore.errors import SchemaMismatchError, UnsupportedTypeError

TYPE_KEY = b"spark.type"
METADATA_KEY = b"spark.metadata"
COLLATIONS_KEY = "__COLLATIONS"
DEFAULT_COLLATION = "UTF8_BINARY"
DAY_TIME_UNITS = ("day", "hour", "minute", "second")
YEAR_MONTH_UNITS = ("year", "month")


@dataclass(frozen=True)
class DataType:
    """Base of all types. `name` is Spark's name of a type without parameters."""

    name: ClassVar[str] = ""

    @property
    def json_value(self) -> Any:
        """What `json.dumps` makes Spark's JSON of."""
        return self.name


@dataclass(frozen=True)
class NullType(DataType):
    name = "void"


@dataclass(frozen=True)
class BooleanType(DataType):
    name = "boolean"


@dataclass(frozen=True)
class ByteType(DataType):
    name = "byte"


@dataclass(frozen=True)
class ShortType(DataType):
    name = "short"


@dataclass(frozen=True)
class IntegerType(DataType):
    name = "integer"


@dataclass(frozen=True)
class LongType(DataType):
    name = "long"


@dataclass(frozen=True)
class FloatType(DataType):
    name = "float"


@dataclass(frozen=True)
class DoubleType(DataType):
    name = "double"


@dataclass(frozen=True)
class BinaryType(DataType):
    name = "binary"


@dataclass(frozen=True)
class DateType(DataType):
    name = "date"


@dataclass(frozen=True)
class TimestampType(DataType):
    name = "timestamp"


@dataclass(frozen=True)
class TimestampNTZType(DataType):
    name = "timestamp_ntz"


@dataclass(frozen=True)
class CalendarIntervalType(DataType):
    name = "interval"


@dataclass(frozen=True)
class VariantType(DataType):
    name = "variant"


@dataclass(frozen=True)
class StringType(DataType):
    collation: str = DEFAULT_COLLATION

    @property
    def json_value(self) -> str:
        return "string" if self.collation == DEFAULT_COLLATION else f"string collate {self.collation}"


@dataclass(frozen=True)
class CharType(DataType):
    length: int

    @property
    def json_value(self) -> str:
        return f"char({self.length})"


@dataclass(frozen=True)
class VarcharType(DataType):
    length: int

    @property
    def json_value(self) -> str:
        return f"varchar({self.length})"


@dataclass(frozen=True)
class DecimalType(DataType):
    precision: int = 10
    scale: int = 0

    @property
    def json_value(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True)
class TimeType(DataType):
    """Time of day; stored as nanoseconds since midnight, whatever its precision."""

    precision: int = 6

    @property
    def json_value(self) -> str:
        return f"time({self.precision})"


@dataclass(frozen=True)
class DayTimeIntervalType(DataType):
    start: str = "day"
    end: str = "second"

    @property
    def json_value(self) -> str:
        return _interval_name(self.start, self.end)


@dataclass(frozen=True)
class YearMonthIntervalType(DataType):
    start: str = "year"
    end: str = "month"

    @property
    def json_value(self) -> str:
        return _interval_name(self.start, self.end)


@dataclass(frozen=True)
class ArrayType(DataType):
    element_type: DataType
    contains_null: bool = True

    @property
    def json_value(self) -> dict[str, Any]:
        return {
            "type": "array",
            "elementType": _plain_json(self.element_type),
            "containsNull": self.contains_null,
        }


@dataclass(frozen=True)
class MapType(DataType):
    key_type: DataType
    value_type: DataType
    value_contains_null: bool = True

    @property
    def json_value(self) -> dict[str, Any]:
        return {
            "type": "map",
            "keyType": _plain_json(self.key_type),
            "valueType": _plain_json(self.value_type),
            "valueContainsNull": self.value_contains_null,
        }


@dataclass(frozen=True)
class StructField:
    name: str
    type: DataType
    nullable: bool = True
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def json_value(self) -> dict[str, Any]:
        metadata = dict(self.metadata)
        if collations := dict(_collations(self.name, self.type)):
            metadata[COLLATIONS_KEY] = collations
        return {
            "name": self.name,
            "type": _plain_json(self.type),
            "nullable": self.nullable,
            "metadata": metadata,
        }


@dataclass(frozen=True)
class StructType(DataType):
    fields: tuple[StructField, ...] = ()

    @property
    def json_value(self) -> dict[str, Any]:
        return {"type": "struct", "fields": [f.json_value for f in self.fields]}


@dataclass(frozen=True)
class UserDefinedType(DataType):
    """A Scala, Java or Python user-defined type: stored, and shown in Arrow, as its `sql_type`."""

    sql_type: DataType
    json: str

    @property
    def json_value(self) -> Any:
        return json.loads(self.json)


@dataclass(frozen=True)
class UnknownType(DataType):
    """A type that this release does not know. A schema may hold it; decoding and encoding it are errors."""

    json: str

    @property
    def json_value(self) -> Any:
        return json.loads(self.json)


_SIMPLE: dict[str, DataType] = {
    cls.name: cls()
    for cls in (
        NullType, BooleanType, ByteType, ShortType, IntegerType, LongType, FloatType, DoubleType, BinaryType,
        DateType, TimestampType, TimestampNTZType, CalendarIntervalType, VariantType,
    )
} | {
    "null": NullType(),
    "string": StringType(),
    "decimal": DecimalType(),
    "timestamp_ltz": TimestampType(),
    "calendarinterval": CalendarIntervalType(),
}  # fmt: skip

_PARAMETRIC: list[tuple[re.Pattern[str], Callable[..., DataType]]] = [
    (re.compile(r"decimal\(\s*(\d+)\s*,\s*(-?\d+)\s*\)"), lambda p, s: DecimalType(int(p), int(s))),
    (re.compile(r"char\(\s*(\d+)\s*\)"), lambda n: CharType(int(n))),
    (re.compile(r"varchar\(\s*(\d+)\s*\)"), lambda n: VarcharType(int(n))),
    (re.compile(r"time\(\s*(\d+)\s*\)"), lambda n: TimeType(int(n))),
    (re.compile(r"string\s+collate\s+`?(\w+)`?"), StringType),
    (
        re.compile(r"interval (day|hour|minute|second)(?: to (hour|minute|second))?"),
        lambda start, end: DayTimeIntervalType(start, end or start),
    ),
    (
        re.compile(r"interval (year|month)(?: to (month))?"),
        lambda start, end: YearMonthIntervalType(start, end or start),
    ),
]


def parse_type(value: str | Mapping[str, Any]) -> DataType:
    """The type that a JSON text (`DataType.json` of Spark) or the object parsed from one describes.

    A type that is not known becomes an UnknownType. Errors: SchemaMismatchError where the text is not the JSON of a
    type at all.
    """
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise SchemaMismatchError(f"a schema is not JSON: {error}") from error
    try:
        return _parse(value, "", {})
    except RecursionError:
        raise SchemaMismatchError("a schema is nested too deeply to be one of Spark's") from None
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise SchemaMismatchError(f"a schema lacks or misuses a key of Spark's JSON ({error!r})") from error


def to_json(type_: DataType) -> str:
    """Spark's compact JSON of a type."""
    return json.dumps(type_.json_value, separators=(",", ":"), ensure_ascii=False)


def to_arrow_schema(struct: StructType) -> pa.Schema:
    return pa.schema(_arrow_fields(struct))


def from_arrow_schema(schema: pa.Schema) -> StructType:
    """Errors: UnsupportedTypeError where an Arrow type has no counterpart in Spark; it names the field."""
    return StructType(tuple(_from_arrow_field(f, f.name) for f in schema))


def to_arrow_type(type_: DataType) -> pa.DataType:
    """The Arrow type of values of a Spark type; what Arrow cannot tell is told by the fields that hold it."""
    match type_:
        case StringType() | CharType() | VarcharType():
            return pa.string()
        case DecimalType(precision, scale):
            return pa.decimal128(precision, scale)
        case DayTimeIntervalType():
            return pa.duration("us")
        case TimeType():
            return pa.time64("ns")
        case YearMonthIntervalType():
            return pa.month_day_nano_interval()
        case VariantType():
            tag = {b"variant": b"true"}
            return pa.struct(
                [pa.field("value", pa.binary(), False), pa.field("metadata", pa.binary(), False, metadata=tag)]
            )
        case ArrayType(element, contains_null):
            return pa.list_(_arrow_field("element", element, contains_null))
        case MapType(key, value, contains_null):
            entry = _arrow_field("key", key, False), _arrow_field("value", value, contains_null)
            return pa.map_(*entry)
        case StructType():
            return pa.struct(_arrow_fields(type_))
        case UserDefinedType(sql_type):
            return to_arrow_type(sql_type)
        case UnknownType():
            return pa.binary()
    return _SIMPLE_ARROW[type(type_)]


_SIMPLE_ARROW: dict[type[DataType], pa.DataType] = {
    NullType: pa.null(),
    BooleanType: pa.bool_(),
    ByteType: pa.int8(),
    ShortType: pa.int16(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    FloatType: pa.float32(),
    DoubleType: pa.float64(),
    BinaryType: pa.binary(),
    DateType: pa.date32(),
    TimestampType: pa.timestamp("us", "UTC"),
    TimestampNTZType: pa.timestamp("us"),
    CalendarIntervalType: pa.month_day_nano_interval(),
}
# What an Arrow type stands for where nothing else is said.
_FROM_ARROW: dict[pa.DataType, DataType] = {arrow: cls() for cls, arrow in _SIMPLE_ARROW.items()} | {
    pa.duration("us"): DayTimeIntervalType(),
    pa.time64("ns"): TimeType(),
    pa.string(): StringType(),
    pa.large_string(): StringType(),
    pa.string_view(): StringType(),
    pa.large_binary(): BinaryType(),
    pa.binary_view(): BinaryType(),
}


def _parse(value: Any, path: str, collations: Mapping[str, str]) -> DataType:
    """`path` is the place inside the nearest struct field, by which Spark's field metadata names collations."""
    if isinstance(value, str):
        if value == "string" and path in collations:
            return StringType(collations[path].split(".", 1)[-1])
        if value in _SIMPLE:
            return _SIMPLE[value]
        for pattern, make in _PARAMETRIC:
            if found := pattern.fullmatch(value):
                type_ = make(*found.groups())
                if not isinstance(type_, DecimalType) or (1 <= type_.precision <= 38 and abs(type_.scale) <= 38):
                    return type_
        return UnknownType(json.dumps(value))
    match value["type"]:
        case "struct":
            return StructType(tuple(_parse_field(f) for f in value["fields"]))
        case "array":
            return ArrayType(_parse(value["elementType"], f"{path}.element", collations), value["containsNull"])
        case "map":
            return MapType(
                _parse(value["keyType"], f"{path}.key", collations),
                _parse(value["valueType"], f"{path}.value", collations),
                value["valueContainsNull"],
            )
        case "udt" if value.get("sqlType") is not None:
            text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
            return UserDefinedType(_parse(value["sqlType"], "", {}), text)
    return UnknownType(json.dumps(value, separators=(",", ":"), ensure_ascii=False))


def _parse_field(value: Mapping[str, Any]) -> StructField:
    metadata = dict(value.get("metadata") or {})
    collations = metadata.pop(COLLATIONS_KEY, {})
    name = value["name"]
    if not isinstance(name, str):
        raise TypeError(f"the name {name!r} of a field")
    return StructField(name, _parse(value["type"], name, collations), value.get("nullable", True), metadata)


def _plain_json(type_: DataType) -> Any:
    """A type inside a struct field: its collation stands in the field's metadata instead."""
    return "string" if isinstance(type_, StringType) else type_.json_value


def _collations(path: str, type_: DataType) -> list[tuple[str, str]]:
    match type_:
        case StringType(collation) if collation != DEFAULT_COLLATION:
            return [(path, f"{'spark' if collation.startswith('UTF8_') else 'icu'}.{collation}")]
        case ArrayType(element):
            return _collations(f"{path}.element", element)
        case MapType(key, value):
            return _collations(f"{path}.key", key) + _collations(f"{path}.value", value)
    return []


def _interval_name(start: str, end: str) -> str:
    return f"interval {start}" if start == end else f"interval {start} to {end}"


def _arrow_fields(struct: StructType) -> list[pa.Field[Any]]:
    return [_arrow_field(f.name, f.type, f.nullable, f.metadata) for f in struct.fields]


def _arrow_field(
    name: str, type_: DataType, nullable: bool, metadata: Mapping[str, Any] | None = None
) -> pa.Field[Any]:
    arrow = to_arrow_type(type_)
    tags: dict[bytes, bytes] = {}
    told = isinstance(type_, (StructType, ArrayType, MapType, VariantType, DecimalType))
    if not told and _FROM_ARROW.get(arrow) != type_:
        tags[TYPE_KEY] = to_json(type_).encode()
    if metadata:
        tags[METADATA_KEY] = json.dumps(metadata, separators=(",", ":"), ensure_ascii=False).encode()
    return pa.field(name, arrow, nullable, metadata=tags or None)


def _from_arrow_field(arrow: pa.Field[Any], path: str) -> StructField:
    tags = arrow.metadata or {}
    type_ = parse_type(tags[TYPE_KEY].decode()) if TYPE_KEY in tags else _from_arrow_type(arrow.type, path)
    metadata = json.loads(tags[METADATA_KEY]) if METADATA_KEY in tags else {}
    return StructField(arrow.name, type_, arrow.nullable, metadata)


def _from_arrow_type(arrow: pa.DataType, path: str) -> DataType:
    if arrow in _FROM_ARROW:
        return _FROM_ARROW[arrow]
    if pa.types.is_decimal128(arrow):
        return DecimalType(arrow.precision, arrow.scale)
    if pa.types.is_timestamp(arrow) and arrow.unit == "us":
        return TimestampType()
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        element = _from_arrow_field(arrow.value_field, f"{path}[]")
        return ArrayType(element.type, element.nullable)
    if pa.types.is_map(arrow):
        key = _from_arrow_field(arrow.key_field, f"{path}.key")
        value = _from_arrow_field(arrow.item_field, f"{path}.value")
        return MapType(key.type, value.type, value.nullable)
    if pa.types.is_struct(arrow):
        if any((f.metadata or {}).get(b"variant") == b"true" for f in arrow.fields):
            return VariantType()
        return StructType(tuple(_from_arrow_field(f, f"{path}.{f.name}") for f in arrow.fields))
    raise UnsupportedTypeError(
        f"field {path!r} has the Arrow type {arrow}, which no Spark type is shown as",
        remedy="Give the field one of the types that Spark's toArrow() gives",
    )
