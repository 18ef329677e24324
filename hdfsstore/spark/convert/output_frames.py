"""The frames that a user's function gives, gathered to one record batch for many of them.

A function of one key usually gives a frame of a row or two. Joining such frames costs pandas 25 us each, and
converting each by itself 100. Here the blocks' arrays are taken out of a frame as it comes, for 1 us. A hundred of them
are joined at a time, so that their memory is used again while it is in the processor's caches, and they are converted
once for thousands of frames.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.errors import PySparkRuntimeError, PySparkTypeError
from pyspark.sql.types import StructType

from hdfsstore._cext.pandas_frames import FrameRun, FrameTaker
from hdfsstore.spark.convert.frames import KNOWN_BLOCKS
from hdfsstore.spark.convert.pandas_types import PandasConf, ToArrow

# Frames whose arrays are held before they are joined.
_HELD = 100


class OutputFrames(FrameTaker):
    """Gathers frames of the declared columns.

    Columns are found by name where a label is a string and spark.sql.legacy.execution.pandas.groupedMap.
    assignColumnsByName is on, else by position.

    Args:
        output_type: as declared.
        schema: Arrow's for it.

    """

    def __init__(self, output_type: StructType, schema: pa.Schema, conf: PandasConf) -> None:
        self._names = output_type.names
        self._by_name = conf.columns_by_name
        self._to_arrow = ToArrow(output_type, schema, conf)
        self._found: dict[tuple[Any, ...], list[int]] = {}
        super().__init__(_HELD)
        self._start()

    def batch(self, failed: Callable[[int, Exception], Exception]) -> pa.RecordBatch:
        """What was gathered, which is then let go of.

        Args:
            failed: makes the error that is raised for a key whose frame is not of the declared types.
        """
        self._join()
        arrays, keys, lengths = self._arrays, self._keys, self._lengths
        self._start()
        try:
            return self._to_arrow.batch([_joined(parts, lengths) for parts in arrays])
        except Exception as error:
            of_frames = zip(*(_of_frames(parts, lengths) for parts in arrays), strict=True)
            for key, columns in zip(keys, of_frames, strict=True):
                try:
                    self._to_arrow.batch([_joined([column], [len(column)]) for column in columns])
                except Exception as of_key:
                    raise failed(key, of_key) from of_key
            # The frames are good one by one: it is their dtypes together.
            raise failed(keys[0], error) from error

    def _start(self) -> None:
        # Of each column, arrays of one frame or several; behind them come those that the run holds.
        self._arrays: list[list[Any]] = [[] for _ in self._names]
        self._run = None
        self._columns_of_run: list[int] = []
        # By frame.
        self._keys = []
        self._lengths = []
        self.num_rows = 0

    def _add_other(self, frame: Any) -> int:
        """Takes in a frame that is none of the run's, and gives the number of its rows."""
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
            return 0
        columns = self._found.get(labels)
        if columns is None:
            columns = self._found[labels] = self._find(labels)
        self._join()
        self._run = None
        if not num_columns:
            for arrays in self._arrays:
                arrays.append(np.full(num_rows, None, object))
        elif KNOWN_BLOCKS:
            self._run, self._columns_of_run = FrameRun(frame), columns
        else:
            for position, at in enumerate(columns):
                self._arrays[at].append(frame.iloc[:, position]._values)
        return num_rows

    def _join(self) -> None:
        """Joins the arrays that the run holds."""
        for positions, arrays in () if self._run is None else self._run.take():
            joined = _concat(arrays)
            for position, array in zip(positions, joined if joined.ndim > 1 else [joined], strict=True):
                self._arrays[self._columns_of_run[position]].append(array)

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


def _joined(arrays: list[Any], lengths: list[int]) -> Any:
    """One pandas.Series of the arrays of frames of so many rows, of the dtype that PySpark's way of joining them has.

    It puts an empty frame of objects behind the others, which makes objects of integers and booleans; and a number that
    is an object does not fit a string column, say, where one that is none does.
    """
    if len({array.dtype for array in arrays}) == 1:
        series = pd.Series(_concat(arrays), copy=False)
        return series.astype(object) if isinstance(series.dtype, np.dtype) and series.dtype.kind in "biu" else series
    # pandas passes over the dtype of a frame that is nothing but nulls; so those are parts of their own.
    runs = itertools.groupby(_of_frames(arrays, lengths), key=lambda array: (array.dtype, bool(pd.isna(array).all())))
    frames = [pd.DataFrame({0: _concat(list(run))}, copy=False) for _, run in runs]
    return pd.concat([*frames, pd.DataFrame({0: None}, index=[])], ignore_index=True)[0]


def _of_frames(arrays: list[Any], lengths: list[int]) -> Iterator[Any]:
    """An array of each frame, out of those of one frame or several."""
    left = iter(lengths)
    for array in arrays:
        start = 0
        while start < len(array):
            end = start + next(left)
            yield array[start:end]
            start = end


def _concat(arrays: list[Any]) -> Any:
    """Arrays of one dtype, and of as many columns if they have such, in one."""
    first = arrays[0]
    if len(arrays) == 1:
        return first
    if isinstance(first, np.ndarray):
        return np.concatenate(arrays, axis=-1)
    return type(first)._concat_same_type(arrays, **({"axis": 1} if first.ndim > 1 else {}))
