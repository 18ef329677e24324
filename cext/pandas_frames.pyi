from collections.abc import Iterator
from typing import Any

import pandas as pd

class FrameCutter:
    """Cuts frames of some rows out of a large frame.

    Each is indexed from 0. Its values are views of the large frame's.

    Args:
        frame: the large frame. It has at least one column, and its labels are an Index of objects.
    """

    def __init__(self, frame: pd.DataFrame) -> None: ...
    def __call__(self, starts: list[int], ends: list[int]) -> list[pd.DataFrame]:
        """Returns a frame of the rows [start, end) for each pair."""

class Each:
    """Takes frames out of lists, and gives an iterator over a single frame for each."""

    def __init__(self, lists: Iterator[list[pd.DataFrame]]) -> None: ...
    def __iter__(self) -> Iterator[Iterator[pd.DataFrame]]: ...
    def __next__(self) -> Iterator[pd.DataFrame]: ...

class FrameRun:
    """The values of frames with the same labels, dtypes and blocks.

    Args:
        frame: the first; it has rows and columns.
    """

    def __init__(self, frame: pd.DataFrame) -> None: ...
    def add(self, frame: Any) -> int:
        """Takes the values of another frame and returns its number of rows. -1: no frame, or another layout."""

    def take(self) -> list[tuple[list[int], list[Any]]]:
        """Takes the values out of the run.

        Returns:
            For each block the positions of its columns, and an array of values for each frame with rows, by column
            unless the block has only one column. An empty list if there are no values.
        """

class FrameTaker:
    """Takes in most frames of OutputFrames, and hands the others to its method _add_other.

    Args:
        max_unjoined: frames whose arrays are kept before _join is called.

    Attributes:
        num_rows: rows gathered since the last batch.
    """

    num_rows: int
    _run: FrameRun | None
    # One item for each frame that has rows.
    _keys: list[int]
    _lengths: list[int]

    def __init__(self, max_unjoined: int) -> None: ...
    def add(self, key: int, frame: Any) -> None:
        """Takes in a frame that the function returned for a key, given by the caller's number for it.

        Raises:
            PySparkTypeError: it is no frame.
            PySparkRuntimeError: its columns are not the declared ones. (If only the names differ, Spark 4.3 silently
                fills columns with nulls.)
        """

    def _add_other(self, frame: Any) -> int: ...
    def _join(self) -> None: ...
