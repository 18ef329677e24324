"""Convert rows and states that the user's functions return to Arrow columns; arrow_to_rows.py converts back.

A value has to fit the declared type: numbers in its range, datetimes for timestamps (those without a zone in local
time, as PySpark's Rows have it), and so on.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import types as s

from hdfsstore.errors import SizeLimitError
from hdfsstore.spark.convert.arrow_to_rows import check_years, local_time_is_utc
from hdfsstore.spark.convert.value_converters import SCALARS, converter_of, in_utc
from hdfsstore.spark.redaction import Shown

_INTEGERS: frozenset[type] = frozenset((int, type(None)))
_DATETIMES: frozenset[type] = frozenset((datetime.datetime, type(None)))
_DATES: frozenset[type] = _DATETIMES | {datetime.date}
# What conversions raise for values that do not fit.
_MISFITS = (pa.ArrowException, TypeError, ValueError, AttributeError, ArithmeticError, AssertionError)


class MisfitError(Exception):
    """A row does not fit the schema.

    Attributes:
        message: about the row, or about the value and its column.
        row: the row's number among those that were converted together; None: the row was converted alone.
    """

    def __init__(self, message: str, row: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.row = row


class RowWriter:
    """Converts rows of one schema to Arrow columns.

    Args:
        schema: Spark's.
        fields: Arrow's for it, one for each of its fields.
        shown: how messages show values.

    Attributes:
        is_plain: whether `accept` returns a tuple of the schema's width unchanged, without copying values.
    """

    def __init__(self, schema: s.StructType, fields: Sequence[pa.Field[Any]], shown: Shown) -> None:
        self._schema = schema
        self._shown = shown
        self._fields = list(fields)
        self._columns = [_column_of(field.dataType) for field in schema.fields]
        # Values that may change are copied at once; all others are converted a column at a time.
        self._at_once = [
            (i, field, converter_of(field.dataType))
            for i, field in enumerate(schema.fields)
            if not isinstance(field.dataType, SCALARS)
        ]
        self._width = len(self._fields)
        self.is_plain = not self._at_once

    def accept(self, row: Any) -> tuple[Any, ...]:
        """The row as a tuple that no longer changes; MisfitError."""
        if not isinstance(row, tuple):
            row = self._as_tuple(row)
        if len(row) != self._width:
            wanted = f"the schema has {self._width} columns ({', '.join(self._schema.names)})"
            raise MisfitError(f"it has {len(row)} values, and {wanted}: {self._shown.value(row)}")
        return self._with_copies(row) if self._at_once else row

    def arrays(self, rows: Sequence[tuple[Any, ...]]) -> list[pa.Array[Any]]:
        """The columns of accepted rows; MisfitError, SizeLimitError."""
        return self.columns(list(zip(*rows, strict=True)) if rows else [()] * self._width)

    def columns(self, columns: Sequence[Sequence[Any]], is_there: Sequence[bool] | None = None) -> list[pa.Array[Any]]:
        """Converts columns of accepted rows. Where `is_there` is False there is no row, and any column may be None."""
        return [self._array(i, column, is_there) for i, column in enumerate(columns)]

    def _array(self, i: int, values: Sequence[Any], is_there: Sequence[bool] | None) -> pa.Array[Any]:
        arrow_type = self._fields[i].type
        try:
            array = self._columns[i](values, arrow_type)
        except _MISFITS:
            array = self._one_by_one(i, values)
        array = whole(array, self._schema.names[i])
        if array.null_count and not self._schema.fields[i].nullable:
            for row, value in enumerate(array):
                if not value.is_valid and (is_there is None or is_there[row]):
                    raise MisfitError(
                        f"the column {self._schema.names[i]!r} is not nullable, and its value is None", row
                    )
        return array

    def _one_by_one(self, i: int, values: Sequence[Any]) -> pa.Array[Any]:
        """Converts value by value, slowly; MisfitError names the value that does not fit."""
        field, arrow_type = self._schema.fields[i], self._fields[i].type
        convert = _same if self._is_converted(i) else converter_of(field.dataType)
        try:
            return pa.array([convert(value) for value in values], arrow_type)
        except _MISFITS:
            for row, value in enumerate(values):
                try:
                    pa.array([convert(value)], arrow_type)
                except _MISFITS as error:
                    raise MisfitError(self._misfit(field, value, error), row) from error
            raise

    def _is_converted(self, i: int) -> bool:
        return any(i == column for column, _, _ in self._at_once)

    def _with_copies(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        # The function may use the same list again for its next row, for example.
        values = list(row)
        for i, field, convert in self._at_once:
            try:
                values[i] = convert(values[i])
            except _MISFITS as error:
                raise MisfitError(self._misfit(field, row[i], error)) from error
        return tuple(values)

    def _as_tuple(self, row: Any) -> tuple[Any, ...]:
        if isinstance(row, list):
            return tuple(row)
        if isinstance(row, dict):
            unknown = [name for name in row if name not in self._schema.names]
            if unknown:
                raise MisfitError(f"it has keys that are no columns of the schema: {self._shown.value(unknown)}")
            return tuple(row.get(name) for name in self._schema.names)
        raise MisfitError(f"a row is a Row, tuple, list or dict, not {type(row).__name__}: {self._shown.value(row)}")

    def _misfit(self, field: s.StructField, value: Any, error: BaseException) -> str:
        given = f"{self._shown.value(value)} ({type(value).__name__})"
        return (
            f"the column {field.name!r} is of type {field.dataType.simpleString()}, which {given} does not fit"
            f"{self._shown.because(error)}"
        )


def whole(array: pa.Array[Any] | pa.ChunkedArray, column: str) -> pa.Array[Any]:
    """Checks that pyarrow made one array of the values of a column.

    Raises:
        SizeLimitError: it is in chunks, because one array has no room for so many bytes.
    """
    if isinstance(array, pa.ChunkedArray):
        raise SizeLimitError(
            f"the column {column!r} of {len(array)} rows takes 2 GiB or more, which one Arrow array has no room for",
            remedy="Keep or give smaller values: up to 10,000 of them are converted together",
        )
    return array


def _same(value: Any) -> Any:
    return value


def _column_of(data_type: s.DataType) -> Callable[[Sequence[Any], Any], pa.Array[Any]]:
    """The fast conversion of a column; it raises one of _MISFITS if a value may not fit."""
    if isinstance(data_type, s.IntegralType):
        return _integers
    if isinstance(data_type, s.DateType):
        return _dates
    if isinstance(data_type, s.TimestampType):
        return _timestamps if local_time_is_utc() else _local_timestamps
    if isinstance(data_type, s.TimestampNTZType):
        return _timestamps_without_zone
    return cast("Callable[[Sequence[Any], Any], pa.Array[Any]]", pa.array)


def _integers(values: Sequence[Any], arrow_type: pa.DataType) -> pa.Array[Any]:
    _check_types(values, _INTEGERS)
    return pa.array(values, arrow_type)


def _dates(values: Sequence[Any], arrow_type: pa.DataType) -> pa.Array[Any]:
    _check_types(values, _DATES)
    return pa.array(values, arrow_type)


def _timestamps(values: Sequence[Any], arrow_type: pa.DataType) -> pa.Array[Any]:
    _check_types(values, _DATETIMES)
    array = pa.array(values, arrow_type)
    check_years(array)  # of values that are in another zone
    return array


def _local_timestamps(values: Sequence[Any], arrow_type: pa.DataType) -> pa.Array[Any]:
    _check_types(values, _DATETIMES)
    return pa.array([None if value is None else in_utc(value) for value in values], arrow_type)


def _timestamps_without_zone(values: Sequence[Any], arrow_type: pa.DataType) -> pa.Array[Any]:
    _check_types(values, _DATETIMES)
    if any(value is not None and value.tzinfo is not None for value in values):
        raise ValueError("there is a time zone in it")
    return pa.array(values, arrow_type)


def _check_types(values: Sequence[Any], types: frozenset[type]) -> None:
    if not types.issuperset(map(type, values)):
        raise TypeError("there are values of other types")
