"""Cut a pandas frame for each group of rows out of a large frame, at little cost.

Making a frame costs pandas about 100 us, whatever its size; cutting one out of the blocks of a large frame costs 4 us.
A frame that is cut here is like any other: it is indexed from 0, and its rows are in memory that may be written to and
that no other frame has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pandas.core.internals import BlockManager

from hdfsstore._cext.pandas_frames import Each, FrameCutter
from hdfsstore.spark.convert.pandas_types import ToPandas

# The releases of pandas whose blocks are as cext/pandas_frames.pyx expects them.
KNOWN_BLOCKS = (2, 2) <= tuple(map(int, pd.__version__.split(".")[:2])) < (3, 0) and isinstance(
    pd.DataFrame()._mgr, BlockManager
)

# Frames that are cut together, while the code is in the processor's caches. Python's garbage collector runs after 700
# new objects, and a frame has some 15.
_AHEAD = 16

# Cuts a frame for each pair of the first row's number and the one behind the last row's.
Cut = Callable[[list[int], list[int]], list[pd.DataFrame]]


class Frames:
    """Yields for each group of rows an iterator over its frame, as a user's function gets it. To be iterated over once.

    Args:
        rows: of all groups, one group after the other.
        starts: the first row of each group, and then the number of rows; no group is empty.
    """

    def __init__(self, rows: pa.Table, starts: np.ndarray[Any, Any], to_pandas: ToPandas) -> None:
        self._cuts: list[Cut] = []
        lengths = np.diff(starts)
        kinds = _kinds(rows, starts)
        if kinds is None:
            self._add(rows, to_pandas)
            self._which = [0] * len(lengths)
            self._starts, self._ends = starts[:-1].tolist(), starts[1:].tolist()
            return
        self._which = kinds.tolist()
        first = np.empty(len(lengths), np.int64)
        kind_of_row = np.repeat(kinds, lengths)
        for kind in range(int(kinds.max()) + 1):
            self._add(rows.take(np.flatnonzero(kind_of_row == kind)), to_pandas)
            of_kind = kinds == kind
            ends = np.cumsum(lengths[of_kind])
            first[of_kind] = ends - lengths[of_kind]
        self._starts, self._ends = first.tolist(), (first + lengths).tolist()

    def __iter__(self) -> Iterator[Iterator[pd.DataFrame]]:
        return Each(map(self._cut, range(0, len(self._which), _AHEAD)))

    def _cut(self, first: int) -> list[pd.DataFrame]:
        """Cuts the frames of some groups, beginning with that one."""
        some = slice(first, first + _AHEAD)
        which, starts, ends = self._which[some], self._starts[some], self._ends[some]
        kinds = set(which)
        if len(kinds) == 1:
            return self._cuts[which[0]](starts, ends)
        frames: list[Any] = [None] * len(which)
        for kind in kinds:
            of_kind = [i for i, its_kind in enumerate(which) if its_kind == kind]
            cut = self._cuts[kind]([starts[i] for i in of_kind], [ends[i] for i in of_kind])
            for i, frame in zip(of_kind, cut, strict=True):
                frames[i] = frame
        return frames

    def _add(self, rows: pa.Table, to_pandas: ToPandas) -> None:
        self._cuts.append(cutter(to_pandas.frame(rows)))


def cutter(frame: pd.DataFrame) -> Cut:
    """Makes the function that cuts frames out of one with at least one column, whose labels are an Index of objects."""
    return FrameCutter(frame) if KNOWN_BLOCKS else _cut_rows(frame)


def _kinds(rows: pa.Table, starts: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
    """Numbers the groups so that groups of one number have the same dtypes. None: all groups have.

    In pandas a column of integers or booleans has another dtype if it has a null. Spark decides this frame by frame.
    """
    flags = []
    for column in rows.columns:
        if column.null_count and (pa.types.is_integer(column.type) or pa.types.is_boolean(column.type)):
            has_null = np.logical_or.reduceat(column.is_null().to_numpy(), starts[:-1])
            if not has_null.all():
                flags.append(has_null)
    if not flags:
        return None
    _, kinds = np.unique(np.packbits(np.array(flags), axis=0), axis=1, return_inverse=True)
    return kinds.reshape(-1)


def _cut_rows(frame: pd.DataFrame) -> Cut:
    def cut(starts: list[int], ends: list[int]) -> list[pd.DataFrame]:
        return [one(start, end) for start, end in zip(starts, ends, strict=True)]

    def one(start: int, end: int) -> pd.DataFrame:
        rows = frame.iloc[start:end].reset_index(drop=True)
        rows.columns = frame.columns.copy(deep=True)  # a function may change its labels
        return rows

    return cut
