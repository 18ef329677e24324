"""The schema of Arrow rows for Spark, and the rows as Spark's Arrow reader takes them."""

from __future__ import annotations

import json
from collections.abc import Callable

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from hdfsstore.codecs.arrow_types import from_arrow_schema
from hdfsstore.codecs.arrow_types import to_arrow_schema as stored_arrow_schema
from hdfsstore.codecs.types import StructType as StoredType
from hdfsstore.codecs.types import parse_type, to_json
from hdfsstore.conditions.names import with_names
from hdfsstore.errors import UnsupportedTypeError


def spark_schema(schema: pa.Schema) -> StructType:
    """The schema of Spark's own `statestore` for the same rows.

    Raises:
        UnsupportedTypeError: Spark takes no values of a type from Python.
    """
    fields = from_arrow_schema(schema).fields
    found = StructType()
    for field in fields:
        found.add(_taken(StoredType((field,)), field.name).fields[0])
    return found


def _taken(struct: StoredType, column: str) -> StructType:
    """The type in PySpark, if it has an Arrow type there."""
    try:
        spark = StructType.fromJson(json.loads(to_json(struct)))
        to_arrow_schema(spark, timezone="UTC")
    except (PySparkException, ValueError) as error:
        raise UnsupportedTypeError(
            f"Spark takes no values of a type in the column {column!r} from a Python source: {error}",
            remedy="Leave such fields out with the option columns, or read them with the source statestore",
        ) from error
    return spark


def as_spark_takes_it(schema: StructType) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """Gives batches the exact schema that Spark compares them with. No values are copied."""
    expected = to_arrow_schema(schema, timezone="UTC")
    return lambda batch: with_names(batch, expected)


def stored_schema(struct: StructType, column: str) -> pa.Schema | None:
    """The fields of a column that is a struct, as Arrow has them; None: there is no such column."""
    if column not in struct.names or not isinstance(struct[column].dataType, StructType):
        return None
    stored = parse_type(struct[column].dataType.json())
    assert isinstance(stored, StoredType)
    return stored_arrow_schema(stored)
