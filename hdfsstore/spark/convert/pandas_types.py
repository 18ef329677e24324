"""Convert Arrow to pandas and back for user functions, by the conversions of the installed PySpark.

PySpark's own code does it, so a function gets the same as from Spark's applyInPandasWithState: time-zone-naive
timestamps of the session, dates as objects, structs as dicts, arrays as numpy arrays, integers with nulls as floats.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import _create_converter_to_pandas, from_arrow_type, to_arrow_type
from pyspark.sql.types import StructType

try:
    from pyspark.sql.conversion import ArrowArrayToPandasConversion, PandasToArrowConversion
except ImportError:
    from pyspark.sql.pandas.serializers import ArrowStreamPandasUDFSerializer  # type: ignore[attr-defined]

    IS_4_1 = True
else:
    IS_4_1 = False

# Rows of a frame, and of an output batch, where Spark's own limit is off (0 or less).
_MOST_RECORDS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class PandasConf:
    """The session's settings of pandas functions; a task has no session to read them from.

    Attributes:
        timezone: of the session; timestamps are naive in it.
        columns_by_name: whether columns of output frames are matched by name where their labels are strings.
        safe_cast: whether an output value that does not fit exactly is an error.
        int_to_decimal: whether integers are accepted as decimals.
        int_extension: whether integer columns are of pandas' nullable types.
        max_records: of a frame.
    """

    timezone: str = "UTC"
    columns_by_name: bool = True
    safe_cast: bool = True
    int_to_decimal: bool = False
    int_extension: bool = False
    max_records: int = 10_000

    @classmethod
    def of(cls, spark: SparkSession) -> PandasConf:
        """The session's current settings."""

        def said(name: str) -> str:
            return spark.conf.get(name) or ""

        def is_on(name: str) -> bool:
            return said(name).lower() == "true"

        max_records = int(said("spark.sql.execution.arrow.maxRecordsPerBatch"))
        # Not known to 4.1, so with the default that later releases have.
        int_extension = spark.conf.get("spark.sql.execution.pythonUDF.pandas.preferIntExtensionDtype", "false")
        return cls(
            timezone=said("spark.sql.session.timeZone"),
            columns_by_name=is_on("spark.sql.legacy.execution.pandas.groupedMap.assignColumnsByName"),
            safe_cast=is_on("spark.sql.execution.pandas.convertToArrowArraySafely"),
            int_to_decimal=is_on("spark.sql.execution.pythonUDF.pandas.intToDecimalCoercionEnabled"),
            int_extension=(int_extension or "").lower() == "true",
            max_records=max_records if max_records > 0 else _MOST_RECORDS,
        )


class ToPandas:
    """Converts Arrow columns to pandas' as PySpark does for applyInPandasWithState."""

    def __init__(self, conf: PandasConf) -> None:
        self._conf = conf

    def series(self, column: pa.Array[Any] | pa.ChunkedArray[Any]) -> Any:
        """The column as a pandas.Series, whose name is not defined."""
        conf = self._conf
        wanted = _in_zone(column.type, conf.timezone)
        if wanted != column.type:
            column = column.cast(wanted)
        if IS_4_1:
            # As later releases do it: integers within arrays and maps stay integers beside nulls of other keys.
            is_nested = pa.types.is_nested(column.type)
            series = column.to_pandas(
                date_as_object=True, coerce_temporal_nanoseconds=True, integer_object_nulls=is_nested
            )
            spark_type = from_arrow_type(column.type, prefer_timestamp_ntz=True)
            return _create_converter_to_pandas(spark_type, timezone=conf.timezone, struct_in_pandas="dict")(series)
        return ArrowArrayToPandasConversion.convert(
            column,
            from_arrow_type(column.type, prefer_timestamp_ntz=True),
            ser_name="",
            timezone=conf.timezone,
            struct_in_pandas="dict",
            ndarray_as_list=False,
            prefer_int_ext_dtype=conf.int_extension,
            df_for_struct=False,
        )

    def frame(self, rows: pa.Table) -> pd.DataFrame:
        """The rows as a frame, indexed from 0, in memory of its own that may be written to."""
        frame = pd.concat([self.series(column) for column in rows.columns], axis=1)
        frame.columns = pd.Index(rows.column_names, dtype=object)
        return frame

    def tuples(self, keys: pa.StructArray) -> Iterator[tuple[Any, ...]]:
        """The keys, which are not null. Each has the values of the first row in a frame of that key alone."""
        if not keys.type.num_fields:
            return itertools.repeat((), len(keys))
        return zip(*map(self._values, keys.flatten()), strict=True)

    def _values(self, column: pa.Array[Any]) -> list[Any]:
        nothing: Any = None
        if _is_of_structs_of_times(column):
            # A window of event time: converting its columns costs a tenth of converting its values.
            names = [field.name for field in column.type]
            times = zip(*(self.series(part).astype("datetime64[us]") for part in column.flatten()), strict=True)
            return [dict(zip(names, start_and_end, strict=True)) for start_and_end in times]
        if column.null_count and not self._conf.int_extension and pa.types.is_integer(column.type):
            nothing, filled = np.float64("nan"), column.fill_null(0)
        elif column.null_count and pa.types.is_boolean(column.type):
            filled = column.fill_null(False)
        else:
            return _scalars(self.series(column))
        values = _scalars(self.series(filled))
        for i in np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False)).tolist():
            values[i] = nothing
        return values


class ToArrow:
    """Converts columns of output frames to record batches of the declared type, as PySpark does.

    Args:
        output_type: as declared.
        schema: Arrow's for it.
    """

    def __init__(self, output_type: StructType, schema: pa.Schema, conf: PandasConf) -> None:
        self._type = output_type
        self._schema = schema
        self._conf = conf

    def batch(self, columns: list[Any]) -> pa.RecordBatch:
        """The batch of these pandas.Series, one for each declared column.

        Raises:
            PySparkTypeError, PySparkValueError: the values of a column are not of the declared type.
        """
        conf = self._conf
        if IS_4_1:
            serializer = _serializer(conf)
            arrays = [
                serializer._create_array(
                    column.rename(field.name), to_arrow_type(field.dataType), field.dataType, arrow_cast=True
                )
                for column, field in zip(columns, self._type.fields, strict=True)
            ]
            batch = pa.RecordBatch.from_arrays(arrays, self._type.names)
        else:
            batch = PandasToArrowConversion.convert(
                columns,
                self._type,
                timezone=conf.timezone,
                safecheck=conf.safe_cast,
                arrow_cast=True,
                int_to_decimal_coercion_enabled=conf.int_to_decimal,
            )
        # Timestamps are in the session's time zone there.
        return batch if batch.schema.equals(self._schema) else batch.cast(self._schema)


def _is_of_structs_of_times(column: pa.Array[Any]) -> bool:
    if not pa.types.is_struct(column.type) or not column.type.num_fields:
        return False
    return all(map(_is_of_times, column.flatten())) and not column.null_count


def _is_of_times(column: pa.Array[Any]) -> bool:
    return pa.types.is_timestamp(column.type) and not column.null_count


def _scalars(series: Any) -> list[Any]:
    """The values as series[0], series[1], ... A Series itself iterates over Python's own numbers."""
    return list(series.to_numpy() if isinstance(series.dtype, np.dtype) and series.dtype.kind in "biuf" else series)


def _in_zone(arrow_type: pa.DataType, zone: str) -> pa.DataType:
    """The type with all timestamps in that time zone."""
    if pa.types.is_timestamp(arrow_type):
        return arrow_type if arrow_type.tz in (None, zone) else pa.timestamp(arrow_type.unit, zone)
    if pa.types.is_struct(arrow_type):
        return pa.struct([field.with_type(_in_zone(field.type, zone)) for field in arrow_type])
    if pa.types.is_map(arrow_type):
        key, item = arrow_type.key_field, arrow_type.item_field
        return pa.map_(key.with_type(_in_zone(key.type, zone)), item.with_type(_in_zone(item.type, zone)))
    if pa.types.is_list(arrow_type):
        item = arrow_type.value_field
        return pa.list_(item.with_type(_in_zone(item.type, zone)))
    return arrow_type


def _serializer(conf: PandasConf) -> Any:
    """The converter of PySpark 4.1."""
    return ArrowStreamPandasUDFSerializer(
        conf.timezone,
        conf.safe_cast,
        conf.columns_by_name,
        arrow_cast=True,
        int_to_decimal_coercion_enabled=conf.int_to_decimal,
    )
