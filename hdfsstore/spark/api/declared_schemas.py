"""Parses and checks the schemas that the user declares for the output and the state."""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType, StructType, YearMonthIntervalType

from hdfsstore.errors import UnsupportedQueryError
from hdfsstore.spark.driver.unsupported import holds_type


def output_type(given: StructType | str) -> StructType:
    """The outputStructType that the user gave.

    Raises:
        TypeError: it is not a struct.
        UnsupportedQueryError: functions in Python cannot return a column's type to Spark.
    """
    declared = struct_type(given, "outputStructType")
    for field in declared:
        try:
            to_arrow_type(field.dataType, timezone="UTC")
        except PySparkException as error:
            raise UnsupportedQueryError(
                f"the output column {field.name!r} is of type {field.dataType.simpleString()}, which functions in "
                "Python cannot give to Spark",
                remedy="Declare string for char and varchar, and int, a number of months, for intervals of them",
            ) from error
    return declared


def struct_type(given: StructType | str, name: str) -> StructType:
    """A schema that the user gave as a struct or a DDL string.

    Args:
        name: of the parameter, for the error.

    Raises:
        TypeError: it is neither.
    """
    if isinstance(given, str):
        parsed: DataType = DataType.fromDDL(given)
        if isinstance(parsed, StructType):
            return parsed
    if not isinstance(given, StructType):
        raise TypeError(f"{name} is a StructType or a DDL string of one, not {given!r}")
    return given


def state_type(given: StructType | str) -> StructType:
    """The stateStructType of a state whose columns are values of Python.

    Raises:
        TypeError: it is not a struct.
        UnsupportedQueryError: Python has no values of a column's type.
    """
    declared = struct_type(given, "stateStructType")
    for field in declared:
        if holds_type(field.dataType, YearMonthIntervalType):
            raise UnsupportedQueryError(
                f"the state's column {field.name!r} is of type {field.dataType.simpleString()}, for which "
                "Python has no values",
                remedy="Declare int, a number of months",
            )
    return declared
