"""Offers stateful functions on a grouped stream, with the names of PySpark's GroupedData."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.state import GroupState
from pyspark.sql.types import StructType

from hdfsstore.codecs import types as t
from hdfsstore.codecs.arrow_types import to_arrow_schema
from hdfsstore.spark.api.declared_schemas import output_type, state_type, struct_type
from hdfsstore.spark.api.keys import Keys
from hdfsstore.spark.api.stateful_stream import StatefulStream
from hdfsstore.spark.driver.plan import column_name
from hdfsstore.spark.driver.query_description import QueryDescription
from hdfsstore.spark.driver.unsupported import check_output_mode
from hdfsstore.spark.spec import (
    EVENT_TIME_TIMEOUT,
    NO_TIMEOUT,
    PROCESSING_TIME_TIMEOUT,
    Columns,
    EventTime,
)
from hdfsstore.spark.worker.arrow_engine import ArrowEngine, UserFunction
from hdfsstore.spark.worker.engine import Engine
from hdfsstore.spark.worker.rows_engine import RowsEngine
from hdfsstore.spark.worker.value_codec import VALUE_SCHEMA

if TYPE_CHECKING:
    import pandas as pd

# Spark marks event-time columns and their windows with this key (EventTimeWatermark.delayKey).
_WATERMARK_KEY = "spark.watermarkDelayMs"


class StatefulGroups:
    """A stream grouped by key. hdfsstore.spark.groupBy creates it."""

    def __init__(self, df: DataFrame, keys: Keys) -> None:
        self._df = df
        self._keys = keys

    def mapInArrowWithState(
        self,
        func: UserFunction,
        outputStructType: StructType | str,
        stateStructType: StructType | str,
        outputMode: str,
        timeoutConf: str,
    ) -> StatefulStream:
        """Calls func(rows: pyarrow.Table, state: ArrowState) -> pyarrow.Table once per partition and batch.

        Args:
            func: `rows` has the data columns. It also has the key columns that are expressions or floats, by their
                names. All rows of a key are in one call. A partition of more than hdfsstore.maxBytesPerCall bytes takes
                several calls, sorted by key. Keys whose timeout has expired take another call, with no rows. Without
                rows and expired keys there is no call. The table that func returns has outputStructType's columns, by
                name. None means no rows.
            outputStructType, stateStructType: schemas of the output and the state, or DDL strings.
            outputMode: "append" or "update", as the query's.
            timeoutConf: "NoTimeout", "ProcessingTimeTimeout" or "EventTimeTimeout".
        """
        output = _nullable(output_type(outputStructType))

        def engine(columns: Columns) -> Engine:
            return ArrowEngine(func, columns, to_arrow_schema(spark_schema(output)))

        state = struct_type(stateStructType, "stateStructType")
        return self._stream("mapInArrowWithState", func, engine, output, state, outputMode, timeoutConf)

    def applyInPandasWithState(
        self,
        func: Callable[[tuple[Any, ...], Iterable[pd.DataFrame], GroupState], Iterable[pd.DataFrame]],
        outputStructType: StructType | str,
        stateStructType: StructType | str,
        outputMode: str,
        timeoutConf: str,
    ) -> StatefulStream:
        """Calls func(key, frames, state) once per key. It takes the same functions as PySpark's method.

        Args:
            func: `key` is a tuple; `frames` iterates over pandas.DataFrames of at most
                spark.sql.execution.arrow.maxRecordsPerBatch rows each; `state` is a GroupState. It returns an iterable
                of frames with outputStructType's columns.
            outputStructType, stateStructType: schemas of the output and the state, or DDL strings.
            outputMode: "append" or "update", as the query's.
            timeoutConf: "NoTimeout", "ProcessingTimeTimeout" or "EventTimeTimeout".
        """
        # Imported here, because the other methods work without pandas.
        from hdfsstore.spark.convert.pandas_types import PandasConf
        from hdfsstore.spark.worker.pandas_engine import PandasEngine

        output = _nullable(output_type(outputStructType))
        state = state_type(stateStructType)
        arrow = to_arrow_schema(spark_schema(output))

        def engine(_: Columns) -> Engine:
            return PandasEngine(func, output, arrow, state, PandasConf.of(self._df.sparkSession))

        return self._stream("applyInPandasWithState", func, engine, output, state, outputMode, timeoutConf)

    def mapWithState(
        self,
        func: Callable[[tuple[Any, ...], Iterator[Row], GroupState], Iterable[Any] | None],
        outputStructType: StructType | str,
        stateStructType: StructType | str | None = None,
        outputMode: str = "update",
        timeoutConf: str = NO_TIMEOUT,
    ) -> StatefulStream:
        """Calls func(key, rows, state) once per key, with plain values of Python.

        Args:
            func: `key` is a tuple; `rows` iterates over the key's Rows; `state` is a GroupState. It returns an iterable
                of Rows, tuples or dicts with outputStructType's columns, or None.
            outputStructType: the schema of the output, or a DDL string.
            stateStructType: the schema of the state, which is then a tuple of these columns. None: the state is one
                value that msgpack can encode, such as a number, a list or a dict.
            outputMode: "append" or "update", as the query's.
            timeoutConf: "NoTimeout", "ProcessingTimeTimeout" or "EventTimeTimeout".
        """
        output = output_type(outputStructType)
        state = None if stateStructType is None else state_type(stateStructType)
        keys = StructType(self._keys.fields)
        engine = RowsEngine(func, self._df.schema, keys, output, to_arrow_schema(spark_schema(output)), state)
        kept = VALUE_SCHEMA if state is None else state
        return self._stream("mapWithState", func, lambda _: engine, output, kept, outputMode, timeoutConf)

    def _stream(
        self,
        method: str,
        func: object,
        engine: Callable[[Columns], Engine],
        output: StructType,
        state: StructType,
        output_mode: str,
        timeout_conf: str,
    ) -> StatefulStream:
        check_output_mode(output_mode)
        if not callable(func):
            raise TypeError(f"func is a function, not {type(func).__name__}")
        if timeout_conf not in (NO_TIMEOUT, PROCESSING_TIME_TIMEOUT, EVENT_TIME_TIMEOUT):
            raise ValueError(
                f"timeoutConf is {NO_TIMEOUT}, {PROCESSING_TIME_TIMEOUT} or {EVENT_TIME_TIMEOUT}, not {timeout_conf!r}"
            )
        watermarked = [i for i, f in enumerate(self._keys.rows.schema) if _WATERMARK_KEY in f.metadata]
        event_time = self._event_time(watermarked) if timeout_conf == EVENT_TIME_TIMEOUT else None
        columns = Columns(tuple(self._df.columns), self._keys.names, self._keys.positions, event_time)
        rows = self._keys.rows
        description = QueryDescription(
            method=method,
            rows=rows.toDF(*(column_name(i) for i in range(len(rows.columns)))),
            columns=columns,
            key_schema=spark_schema(StructType(self._keys.fields)),
            state_schema=spark_schema(state),
            timeout_conf=timeout_conf,
            output_mode=output_mode.lower(),
            output=output,
            make_engine=partial(engine, columns),
            has_watermark=bool(watermarked),
        )
        return StatefulStream(description)

    def _event_time(self, watermarked: list[int]) -> EventTime:
        """The event-time column that decides which rows are late: one of the key, else the only one of the data."""
        of_keys = [position for position in self._keys.positions if position in watermarked]
        found = of_keys or watermarked
        if not found:
            raise ValueError(
                "EventTimeTimeout needs a watermark: call withWatermark(column, delay) on the DataFrame before groupBy"
            )
        if len(set(found)) > 1:
            fields = self._keys.rows.schema
            raise ValueError(
                f"there are several event-time columns: {', '.join(fields[position].name for position in found)}. Keep "
                "only one, or group by one"
            )
        return EventTime(found[0], isinstance(self._keys.rows.schema[found[0]].dataType, StructType))


def _nullable(output: StructType) -> StructType:
    """The schema with all columns nullable. As in Spark, a function may return None for a column that is NOT NULL."""
    return output.toNullable()


def spark_schema(schema: StructType) -> t.StructType:
    """Converts PySpark's struct to this package's."""
    return cast("t.StructType", t.parse_type(schema.json()))
