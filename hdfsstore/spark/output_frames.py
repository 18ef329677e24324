"""The frames that a user's function gives, gathered to one record batch for many of them.

A function of one key usually gives a frame of a row or two. Joining such frames costs pandas 25 us each, and
converting each by itself 100. Here the columns' arrays are taken out of a frame as it comes, for 3 us, and are joined
and converted once for thousands of frames.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.errors import PySparkRuntimeError, PySparkTypeError
from pyspark.sql.types import StructType

from hdfsstore.spark.frames import KNOWN_BLOCKS
from hdfsstore.spark.pandas_types import PandasConf, ToArrow


class OutputFrames:
    """Gathers frames of the declared columns.

    Columns are found by name where a label is a string and spark.sql.legacy.execution.pandas.groupedMap.
    assignColumnsByName is on, else by position.

    Args:
        output_type: as declared.
        schema: Arrow's for it.

    Attributes:
        num_rows: that were gathered since the last batch.
    """

    def __init__(self, output_type: StructType, schema: pa.Schema, conf: PandasConf) -> None:
        self._names = output_type.names
        self._by_name = conf.columns_by_name
        self._to_arrow = ToArrow(output_type, schema, conf)
        self._found: dict[tuple[Any, ...], list[int]] = {}
        self._start()

    def add(self, key: int, frame: Any) -> None:
        """Takes in a frame that the function gave for a key, which the caller has a number for.

        Raises:
            PySparkTypeError: it is none.
            PySparkRuntimeError: its columns are not those that were declared. (Where only the names differ, Spark 4.3
                fills columns with nulls without a word.)
        """
        if not isinstance(frame, pd.DataFrame):
            raise PySparkTypeError(
                errorClass="UDF_RETURN_TYPE",
                messageParameters={
                    "expected": "iterator of pandas.DataFrame",
                    "actual": f"iterator of {type(frame).__name__}",
                },
            )
        labels = tuple(frame.columns.tolist())
        num_columns = len(labels)
        if num_columns != len(self._names) and num_columns:
            # As PySpark 4.3 has it; the names of such errors differ between releases.
            raise PySparkRuntimeError(
                "[RESULT_COLUMN_SCHEMA_MISMATCH] Number of columns of the returned data doesn't match specified "
                f"schema. Expected: {len(self._names)} Actual: {num_columns}"
            )
        num_rows = len(frame)
        if not num_rows:
            return
        self._keys.append(key)
        self.num_rows += num_rows
        columns = self._found.get(labels)
        if columns is None:
            columns = self._found[labels] = self._find(labels)
        arrays = self._arrays
        if not num_columns:
            for column in arrays:
                column.append(np.full(num_rows, None, object))
        elif KNOWN_BLOCKS:
            for block in frame._mgr.blocks:
                values = block.values
                if values.ndim == 1:
                    arrays[columns[block._mgr_locs.as_array[0]]].append(values)
                else:
                    for row, position in enumerate(block._mgr_locs):
                        arrays[columns[position]].append(values[row])
        else:
            for position, at in enumerate(columns):
                arrays[at].append(frame.iloc[:, position]._values)

    def batch(self, failed: Callable[[int, Exception], Exception]) -> pa.RecordBatch:
        """What was gathered, which is then let go of.

        Args:
            failed: makes the error that is raised for a key whose frame is not of the declared types.
        """
        arrays, keys = self._arrays, self._keys
        self._start()
        try:
            return self._to_arrow.batch([_joined(parts) for parts in arrays])
        except Exception as error:
            for i, key in enumerate(keys):
                try:
                    self._to_arrow.batch([_joined([parts[i]]) for parts in arrays])
                except Exception as of_key:
                    raise failed(key, of_key) from of_key
            # The frames are good one by one: it is their dtypes together.
            raise failed(keys[0], error) from error

    def _start(self) -> None:
        self._arrays: list[list[Any]] = [[] for _ in self._names]
        self._keys: list[int] = []
        self.num_rows = 0

    def _find(self, labels: tuple[Any, ...]) -> list[int]:
        """Which of the declared columns each column of a frame is."""
        named = self._by_name and any(isinstance(label, str) for label in labels)
        if not named or list(labels) == self._names:
            return list(range(len(labels)))
        missing = [name for name in self._names if name not in labels]
        extra = [str(label) for label in labels if label not in self._names]
        if missing or extra:
            raise PySparkRuntimeError(
                "[RESULT_COLUMN_NAMES_MISMATCH] Column names of the returned data do not match specified schema."
                f"{' Missing: ' * bool(missing)}{', '.join(missing)}{' Unexpected: ' * bool(extra)}{', '.join(extra)}"
            )
        return [self._names.index(label) for label in labels]


def _joined(arrays: list[Any]) -> Any:
    """One pandas.Series of the arrays, of the dtype that PySpark's way of joining frames has.

    It puts an empty frame of objects behind the others, which makes objects of integers and booleans; and a number that
    is an object does not fit a string column, say, where one that is none does.
    """
    dtypes = {array.dtype for array in arrays}
    if len(dtypes) == 1:
        series = _series(arrays)
        return series.astype(object) if isinstance(series.dtype, np.dtype) and series.dtype.kind in "biu" else series
    # pandas passes over the dtype of what is nothing but nulls; so those are parts of their own.
    runs = itertools.groupby(arrays, key=lambda array: (array.dtype, bool(pd.isna(array).all())))
    frames = [_series(list(run)).to_frame(0) for _, run in runs]
    return pd.concat([*frames, pd.DataFrame({0: None}, index=[])], ignore_index=True)[0]


def _series(arrays: list[Any]) -> Any:
    """One pandas.Series of arrays of one dtype."""
    if len(arrays) == 1:
        return pd.Series(arrays[0], copy=False)
    if isinstance(arrays[0], np.ndarray):
        return pd.Series(np.concatenate(arrays), copy=False)
    return pd.Series(type(arrays[0])._concat_same_type(arrays), copy=False)
