"""Convert Arrow columns to the values that PySpark's Rows have, and to Rows that cost less than PySpark's own.

Arrow                     Python
integers, floats, bool    int, float, bool
string, binary            str, bytes
decimal                   decimal.Decimal
date                      datetime.date
timestamp with a zone     datetime.datetime without one, in this process's local time, as PySpark's Rows have it
timestamp without one     datetime.datetime
day-time interval         datetime.timedelta
all others                what PySpark's own conversion makes of them
"""

from __future__ import annotations

import itertools
import time
from collections import namedtuple
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeAlias, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Row
from pyspark.sql import types as s
from pyspark.sql.conversion import ArrowTableToRowsConversion

Reader: TypeAlias = "Callable[[pa.Array[Any]], list[Any]]"

_NUMBERS = (s.ByteType, s.ShortType, s.IntegerType, s.LongType, s.FloatType, s.DoubleType, s.BooleanType)
_OBJECTS = (s.StringType, s.CharType, s.VarcharType, s.BinaryType, s.DecimalType, s.DayTimeIntervalType)
# Days and microseconds since 1970 of the years that Python has.
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
_DAY_US = 86_400_000_000
# Until then a float of seconds is exact to the microsecond.
_EXACT_US = 1 << 32
# Before that, fromtimestamp() computes with times before the year 1.
_EARLY_US = (_FIRST_DAY + 2) * _DAY_US
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class RowReader:
    """Reads the columns of one schema as Rows or tuples.

    Args:
        schema: Spark's, with the columns in their order.
    """

    def __init__(self, schema: s.StructType) -> None:
        self._readers = [reader_of(field.dataType) for field in schema.fields]
        self._make: Callable[[tuple[Any, ...]], Row] = partial(tuple.__new__, _row_class(schema.names))

    def rows(self, table: pa.Table) -> list[Row]:
        """The rows of a table with the schema's columns."""
        columns = [_one_array(column) for column in table.columns]
        return list(map(self._make, self._zipped(columns, table.num_rows)))

    def tuples(self, structs: pa.StructArray) -> Iterator[tuple[Any, ...]]:
        """The values of the structs' fields; a struct that is null is a tuple of None."""
        return self._zipped(structs.flatten(), len(structs))

    def _zipped(self, columns: list[pa.Array[Any]], length: int) -> Iterator[tuple[Any, ...]]:
        if not columns:
            return itertools.repeat((), length)
        return zip(*(read(column) for read, column in zip(self._readers, columns, strict=True)), strict=True)


def reader_of(data_type: s.DataType) -> Reader:
    """The function that converts an Arrow array of a Spark type to a list of values, None for nulls."""
    if isinstance(data_type, _NUMBERS):
        return _numbers
    if isinstance(data_type, _OBJECTS):
        return _objects
    if isinstance(data_type, s.DateType):
        return _dates
    if isinstance(data_type, s.TimestampNTZType):
        return _timestamps
    if isinstance(data_type, s.TimestampType):
        return _timestamps if local_time_is_utc() else _local_timestamps
    return partial(_by_pyspark, s.StructType([s.StructField("value", data_type)]))


def local_time_is_utc() -> bool:
    """Whether this process's time zone is UTC, in which a zoned timestamp needs no conversion."""
    return time.tzname == ("UTC", "UTC") and time.timezone == 0 and not time.daylight


def _numbers(array: pa.Array[Any]) -> list[Any]:
    return array.to_pylist() if array.null_count else _objects(array)


def _objects(array: pa.Array[Any]) -> list[Any]:
    # Through NumPy: to_pylist() makes a scalar object of each value in most releases of pyarrow.
    return cast("list[Any]", array.to_numpy(zero_copy_only=False).tolist())


def _dates(array: pa.Array[Any]) -> list[Any]:
    _check_range(array.cast(pa.int32()), 1)
    return _objects(array)


def _timestamps(array: pa.Array[Any]) -> list[Any]:
    array = array.cast(pa.timestamp("us", array.type.tz))
    check_years(array)
    return _objects(array)


def _local_timestamps(array: pa.Array[Any]) -> list[Any]:
    local = datetime.fromtimestamp
    return [
        None
        if us is None
        else local(us / 1e6)
        if 0 <= us < _EXACT_US
        else local(us // 1_000_000).replace(microsecond=us % 1_000_000)
        if us > _EARLY_US
        else _early(us)
        for us in array.cast(pa.timestamp("us", array.type.tz)).cast(pa.int64()).to_pylist()
    ]


def _early(us: int) -> datetime:
    try:
        return (_EPOCH + timedelta(microseconds=us)).astimezone().replace(tzinfo=None)
    except OverflowError as error:
        raise ValueError("there is a timestamp of a year before 1, which Python has no object for") from error


def check_years(timestamps: pa.Array[Any]) -> None:
    """ValueError: Python has no objects for some of these microseconds, and NumPy would give numbers."""
    _check_range(timestamps.cast(pa.int64()), _DAY_US)


def _check_range(times: pa.Array[Any], unit: int) -> None:
    least, most = pc.min_max(times).as_py().values()
    if least is not None and not _FIRST_DAY * unit <= least <= most < (_LAST_DAY + 1) * unit:
        raise ValueError("there is a date or timestamp outside of the years 1 to 9999, which Python has no object for")


def _by_pyspark(schema: s.StructType, array: pa.Array[Any]) -> list[Any]:
    rows = ArrowTableToRowsConversion.convert(pa.table([array], names=schema.names), schema)
    return [row[0] for row in rows]


def _one_array(column: pa.ChunkedArray[Any]) -> pa.Array[Any]:
    return column.chunk(0) if column.num_chunks == 1 else cast("pa.Array[Any]", column.combine_chunks())


def _row_class(names: list[str]) -> type[Row]:
    """A class of Rows with these fields.

    Each Row of PySpark's has a dict with the names of its fields, and looks a field up in Python code. This class finds
    an attribute as a named tuple does. Its Rows compare, print, pickle and convert as PySpark's.
    """
    getters = cast("Any", namedtuple)("Getters", [f"f{i}" for i in range(len(names))])
    fields: dict[str, Any] = {"__slots__": (), "__fields__": names}
    for i, name in reversed(list(enumerate(names))):  # if two fields have one name, the first counts
        # row.count and row.index are methods of tuples in PySpark too.
        if not hasattr(Row, name) and not name.startswith("__"):
            fields[name] = getattr(getters, f"f{i}")
    return type("Row", (Row,), fields)
