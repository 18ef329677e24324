"""The schemas that the user declares: of the output and of the state."""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, TimeType, YearMonthIntervalType

from hdfsstore.errors import UnsupportedQueryError

_TIME_CONF = "spark.sql.timeType.enabled"


def output_type(given: StructType | str) -> StructType:
    """The outputStructType that the user gave.

    Raises:
        TypeError: it is none.
        UnsupportedQueryError: Spark's Python functions cannot give a column's type.
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
    """A schema that the user gave, as a struct or a DDL string.

    Raises:
        TypeError: it is neither; it is called `name`.
    """
    if isinstance(given, str):
        parsed: DataType = DataType.fromDDL(given)
        if isinstance(parsed, StructType):
            return parsed
    if not isinstance(given, StructType):
        raise TypeError(f"{name} is a StructType or a DDL string of one, not {given!r}")
    return given


def state_type(given: StructType | str) -> StructType:
    """The stateStructType of states that are Python's values.

    Raises:
        TypeError: it is none.
        UnsupportedQueryError: Python has no values of a column's type.
    """
    declared = struct_type(given, "stateStructType")
    for field in declared:
        if _holds(field.dataType, YearMonthIntervalType):
            raise UnsupportedQueryError(
                f"the state's column {field.name!r} is of type {field.dataType.simpleString()}, for which "
                "Python has no values",
                remedy="Declare int, a number of months",
            )
    return declared


def check_time_type(spark: SparkSession, *schemas: StructType) -> None:
    """Refuses columns of type TIME where Spark does, which is when a query starts.

    Raises:
        UnsupportedQueryError: the column is named.
    """
    if (spark.conf.get(_TIME_CONF) or "").lower() == "true":
        return
    for schema in schemas:
        for field in schema:
            if _holds(field.dataType, TimeType):
                raise UnsupportedQueryError(
                    f"the column {field.name!r} is of type {field.dataType.simpleString()}, and {_TIME_CONF} is false",
                    remedy=f"Set {_TIME_CONF} to true, or declare string",
                )


def _holds(data_type: DataType, kind: type[DataType]) -> bool:
    match data_type:
        case StructType():
            return any(_holds(field.dataType, kind) for field in data_type)
        case ArrayType():
            return _holds(data_type.elementType, kind)
        case MapType():
            return _holds(data_type.keyType, kind) or _holds(data_type.valueType, kind)
    return isinstance(data_type, kind)
