"""Check and convert one value of the user's at a time for pyarrow, and copy values that can change."""

from __future__ import annotations

import array
import datetime
import numbers
from collections.abc import Callable
from typing import Any, TypeAlias

from pyspark.sql import types as s
from pyspark.sql.conversion import LocalDataToArrowConversion

Converter: TypeAlias = Callable[[Any], Any]

# Types of values that never change.
SCALARS = (
    *(s.ByteType, s.ShortType, s.IntegerType, s.LongType, s.FloatType, s.DoubleType, s.BooleanType),
    *(s.StringType, s.CharType, s.VarcharType, s.DecimalType, s.DateType, s.TimestampType, s.TimestampNTZType),
    *(s.DayTimeIntervalType, s.NullType),
)


def converter_of(data_type: s.DataType, nullable: bool = True) -> Converter:
    """The conversion of values of a Spark type. It is stricter than pyarrow's own.

    It raises a TypeError, ValueError, ArithmeticError or AssertionError for a value that does not fit.
    """
    convert = _converter(data_type)

    def checked(value: Any) -> Any:
        if value is not None:
            return convert(value)
        if not nullable:
            raise ValueError("None where there are no nulls")
        return None

    return checked


def _converter(data_type: s.DataType) -> Converter:
    if isinstance(data_type, s.IntegralType):
        return _integer
    if isinstance(data_type, s.BinaryType):
        return _bytes
    if isinstance(data_type, s.DateType):
        return _date
    if isinstance(data_type, s.TimestampType):
        return _timestamp
    if isinstance(data_type, s.ArrayType):
        return _of_array(data_type)
    if isinstance(data_type, s.MapType):
        return _of_map(data_type)
    if isinstance(data_type, s.StructType):
        return _of_struct(data_type)
    if isinstance(data_type, s.UserDefinedType):
        convert, udt = converter_of(data_type.sqlType()), data_type
        return lambda value: convert(udt.serialize(value))
    of_pyspark: Converter = LocalDataToArrowConversion._create_converter(data_type, True)
    return of_pyspark


def _of_array(data_type: s.ArrayType) -> Converter:
    convert = converter_of(data_type.elementType, data_type.containsNull)

    def to_list(value: Any) -> list[Any]:
        if not isinstance(value, list | tuple | array.array) and not hasattr(value, "__array__"):
            raise TypeError("a list is needed")
        return [convert(element) for element in value]

    return to_list


def _of_map(data_type: s.MapType) -> Converter:
    convert_key = converter_of(data_type.keyType, False)
    convert = converter_of(data_type.valueType, data_type.valueContainsNull)

    def to_pairs(value: Any) -> list[tuple[Any, Any]]:
        if not isinstance(value, dict):
            raise TypeError("a dict is needed")
        return [(convert_key(key), convert(item)) for key, item in value.items()]

    return to_pairs


def _of_struct(data_type: s.StructType) -> Converter:
    names = data_type.names
    converters = [converter_of(field.dataType, field.nullable) for field in data_type.fields]

    def to_tuple(value: Any) -> tuple[Any, ...]:
        if isinstance(value, dict):
            value = tuple(value.get(name) for name in names)
        elif not isinstance(value, tuple):
            raise TypeError("a Row, tuple or dict is needed")
        if len(value) != len(names):
            raise ValueError(f"it has {len(value)} values, and the struct has {len(names)} fields")
        return tuple(convert(item) for convert, item in zip(converters, value, strict=True))

    return to_tuple


def _integer(value: Any) -> int:
    # pyarrow would cut off a fraction.
    if type(value) is int:
        return value
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number or value != value // 1:
        raise TypeError("an integer is needed")
    return int(value)


def _bytes(value: Any) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError("bytes are needed")
    return bytes(value)


def _date(value: Any) -> datetime.date:
    # pyarrow would take a number for the days since 1970.
    if not isinstance(value, datetime.date):
        raise TypeError("a date is needed")
    return value


def in_utc(time: datetime.datetime) -> datetime.datetime:
    """The same time in UTC. OverflowError: in UTC, or in local time, it is not in the years 1 to 9999."""
    utc = time.astimezone(datetime.UTC)
    if not 1 < utc.year < 9999:
        utc.astimezone()
    return utc


def _timestamp(value: Any) -> datetime.datetime:
    if not isinstance(value, datetime.datetime):
        raise TypeError("a datetime is needed")
    if value != value:
        raise ValueError("NaT is no time: give None")
    # A pandas.Timestamp without a zone is in local time, as other datetimes are; but its own astimezone() refuses it.
    time: datetime.datetime = value.to_pydatetime(warn=False) if hasattr(value, "to_pydatetime") else value
    return in_utc(time)
