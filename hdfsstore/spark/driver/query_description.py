"""Describes a query: its input, and the stateful function that runs on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from hdfsstore.codecs import types as t
from hdfsstore.spark.spec import Columns, TimeoutConf
from hdfsstore.spark.worker.engine import Engine


@dataclass(frozen=True, slots=True)
class QueryDescription:
    """A query as the user has declared it, without its output's target.

    Attributes:
        method: name of the method that created the stream, such as applyInPandasWithState.
        rows: the data columns and those of the key, named by plan.column_name.
        columns: the user's names of these columns, and where the key is.
        key_schema, state_schema: of the key, and of the state as the user declared it.
        timeout_conf, output_mode: as PySpark has them; the output mode in lower case.
        output: the schema of what the function returns.
        make_engine: makes the engine that calls the function, from the session's settings. A start of the query calls
            it once.
        has_watermark: whether a column of the data has a watermark.
    """

    method: str
    rows: DataFrame
    columns: Columns
    key_schema: t.StructType
    state_schema: t.StructType
    timeout_conf: TimeoutConf
    output_mode: str
    output: StructType
    make_engine: Callable[[], Engine]
    has_watermark: bool
