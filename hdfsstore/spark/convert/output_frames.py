"""Gather the frames that a user's function returns, and convert many of them to one record batch.

A function usually returns a frame of a row or two for a key. Joining such frames costs pandas 25 us each, and
converting each by itself 100. Here the arrays of its blocks are taken out of a frame as it comes, for 1 us. A hundred
arrays are joined at a time, while their memory is in the processor's caches. Thousands of frames are converted at once.
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

# Frames whose arrays are kept before they are joined.
_UNJOINED_FRAMES = 100
# Rows of a batch, apart from the last frame's.
_BATCH_ROWS = 10_000


class OutputFrames(FrameTaker):
    """Gathers frames of the declared columns.

    Columns are found by name where a label is a string and spark.sql.legacy.execution.pandas.groupedMap.
    assignColumnsByName is on, else by position.

    Args:
        output_type: as declared.
        schema: Arrow's for it.
        conf: of the session.
    """

    def __init__(self, output_type: StructType, schema: pa.Schema, conf: PandasConf) -> None:
        self._names = output_type.names
        self._by_name = conf.columns_by_name
        self._to_arrow = ToArrow(output_type, schema, conf)
        self._found: dict[tuple[Any, ...], list[int]] = {}
        super().__init__(_UNJOINED_FRAMES)
        self._start()

    def iterate(self, result: Any) -> Iterator[Any]:
        """Iterates over what a call of the function returned. PySparkTypeError: it is a frame, or not iterable."""
        expected = "iterable of pandas.DataFrame"
        if not isinstance(result, pd.DataFrame):
            try:
                return iter(result)
            except TypeError:
                expected = "iterable"
        raise PySparkTypeError(
            errorClass="UDF_RETURN_TYPE",
            messageParameters={"expected": expected, "actual": type(result).__name__},
        )

    def take(self, index: int, results: Iterator[Any]) -> bool:
        """Takes the frames of a key. True: all are taken. False: call `batch`, and then `take` again.

        Raises:
            PySparkTypeError, PySparkRuntimeError: as `add` does.
        """
        add = self.add
        for frame in results:
            add(index, frame)
            if self.num_rows >= _BATCH_ROWS:
                return False
        return True

    def batch(self, failed: Callable[[int, Exception], Exception]) -> pa.RecordBatch:
        """Converts the frames that were taken, and drops them.

        Args:
            failed: makes the error for a key, of the given index, that has a frame which is not of the declared types.
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
            # Each frame converts by itself, but their dtypes together do not.
            raise failed(keys[0], error) from error

    def _start(self) -> None:
        # For each column, arrays of one frame or several. The arrays in the FrameRun come behind them.
        self._arrays: list[list[Any]] = [[] for _ in self._names]
        self._run = None
        self._columns_of_run: list[int] = []
        # By frame.
        self._keys = []
        self._lengths = []
        self.num_rows = 0

    def _add_other(self, frame: Any) -> int:
        """Takes a frame that does not fit the current FrameRun; returns the number of its rows."""
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
        """Joins the arrays that the FrameRun holds."""
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
    """Joins the arrays of frames of these lengths to one pandas.Series, of the dtype that PySpark's concat would give.

    PySpark appends an empty frame of objects, which turns integers and booleans into objects. The dtype matters: a
    number that is an object does not fit a string column, for example, but a number of a NumPy dtype does.
    """
    if len({array.dtype for array in arrays}) == 1:
        series = pd.Series(_concat(arrays), copy=False)
        return series.astype(object) if isinstance(series.dtype, np.dtype) and series.dtype.kind in "biu" else series
    # pandas ignores the dtype of a frame of nulls only, so each such frame is a part of its own.
    runs = itertools.groupby(_of_frames(arrays, lengths), key=lambda array: (array.dtype, bool(pd.isna(array).all())))
    frames = [pd.DataFrame({0: _concat(list(run))}, copy=False) for _, run in runs]
    return pd.concat([*frames, pd.DataFrame({0: None}, index=[])], ignore_index=True)[0]


def _of_frames(arrays: list[Any], lengths: list[int]) -> Iterator[Any]:
    """Splits arrays of several frames into one array for each frame."""
    left = iter(lengths)
    for array in arrays:
        start = 0
        while start < len(array):
            end = start + next(left)
            yield array[start:end]
            start = end


def _concat(arrays: list[Any]) -> Any:
    """Joins arrays of one dtype and, where they have columns, of one number of columns."""
    first = arrays[0]
    if len(arrays) == 1:
        return first
    if isinstance(first, np.ndarray):
        return np.concatenate(arrays, axis=-1)
    return type(first)._concat_same_type(arrays, **({"axis": 1} if first.ndim > 1 else {}))
