"""Parses and writes Spark SQL's data types in the JSON of schema files.

PySpark's types are not used: reading needs no PySpark, and its parser refuses types that it does not know.

The JSON is that of Spark's `DataType.json` (`sql/api/.../types/DataType.scala`). Types are matched by position, never
by name: two fields of one struct may have the same name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from hdfsstore.codecs.spark_json import dump_json
from hdfsstore.errors import SchemaMismatchError

# Deeper than the types that people write. Walks over types are recursive.
MAX_DEPTH = 100
COLLATIONS_KEY = "__COLLATIONS"
DEFAULT_COLLATION = "UTF8_BINARY"
DAY_TIME_UNITS = ("day", "hour", "minute", "second")
YEAR_MONTH_UNITS = ("year", "month")


@dataclass(frozen=True)
class DataType:
    """The base of all types. `name` is Spark's name of a type without parameters."""

    name: ClassVar[str] = ""

    @property
    def json_value(self) -> Any:
        """The object whose JSON is Spark's JSON of the type."""
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
    """Time of day, stored as nanoseconds since midnight in any precision."""

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
    """A Scala, Java or Python user-defined type. Its values are stored, and read into Arrow, as its `sql_type`."""

    sql_type: DataType
    json: str

    @property
    def json_value(self) -> Any:
        return json.loads(self.json)


@dataclass(frozen=True)
class UnknownType(DataType):
    """A type that this release does not know. A schema may have it, but its values cannot be decoded or encoded."""

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
    """Parses a type from Spark's `DataType.json`, as text or as the object of its JSON.

    An unknown type becomes an UnknownType. Errors: SchemaMismatchError if the text is not the JSON of a type.
    """
    try:
        if isinstance(value, str):
            value = json.loads(value)
        return _parse(value, "", {}, MAX_DEPTH)
    except RecursionError:
        raise SchemaMismatchError(f"a schema is nested more than {MAX_DEPTH} levels deep") from None
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise SchemaMismatchError(f"a schema is not Spark's JSON of one: {error!r}") from error


def to_json(type_: DataType) -> str:
    """Spark's compact JSON of a type."""
    return dump_json(type_.json_value)


def _parse(value: Any, path: str, collations: Mapping[str, str], depth: int) -> DataType:
    """Parses one type.

    Args:
        path: the place in the nearest struct field, which is the key of Spark's collation metadata.
        depth: how many levels may still be nested.
    """
    if depth == 0:
        raise RecursionError
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
            return StructType(tuple(_parse_field(f, depth - 1) for f in value["fields"]))
        case "array":
            return ArrayType(
                _parse(value["elementType"], f"{path}.element", collations, depth - 1), value["containsNull"]
            )
        case "map":
            return MapType(
                _parse(value["keyType"], f"{path}.key", collations, depth - 1),
                _parse(value["valueType"], f"{path}.value", collations, depth - 1),
                value["valueContainsNull"],
            )
        case "udt" if value.get("sqlType") is not None:
            text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
            return UserDefinedType(_parse(value["sqlType"], "", {}, depth - 1), text)
    return UnknownType(json.dumps(value, separators=(",", ":"), ensure_ascii=False))


def _parse_field(value: Mapping[str, Any], depth: int) -> StructField:
    metadata = dict(value.get("metadata") or {})
    collations = metadata.pop(COLLATIONS_KEY, {})
    name = value["name"]
    if not isinstance(name, str):
        raise TypeError(f"the name {name!r} of a field")
    return StructField(name, _parse(value["type"], name, collations, depth), value.get("nullable", True), metadata)


def _plain_json(type_: DataType) -> Any:
    """The JSON of a type in a struct field; the field's metadata has the collation."""
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
