from collections.abc import Iterator
from typing import Any

import pandas as pd

class FrameCutter:
    """Cuts frames of some rows out of a frame.

    Such a frame is indexed from 0, and its values are views of the large one's.

    Args:
        frame: with at least one column, and an Index of objects for their labels.
    """

    def __init__(self, frame: pd.DataFrame) -> None: ...
    def __call__(self, starts: list[int], ends: list[int]) -> list[pd.DataFrame]:
        """A frame for each of these pairs: the rows [start, end)."""

class Each:
    """An iterator over one frame for each of the frames in some lists, which it takes out of them."""

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
        """Takes the values of another frame; the number of its rows, or -1: it is laid out otherwise, or no frame."""

    def take(self) -> list[tuple[list[int], list[Any]]]:
        """What the run holds, which it lets go of: of each block the positions of its columns, and of each frame with
        rows an array of its values, by column unless the block is of one column only; nothing where it holds nothing.
        """

class FrameTaker:
    """What OutputFrames does with most frames; it hands others to its method _add_other.

    Args:
        max_unjoined: frames whose arrays are kept before _join is called.

    Attributes:
        num_rows: that were gathered since the last batch.
    """

    num_rows: int
    _run: FrameRun | None
    # By frame that has rows.
    _keys: list[int]
    _lengths: list[int]

    def __init__(self, max_unjoined: int) -> None: ...
    def add(self, key: int, frame: Any) -> None:
        """Takes in a frame that the function gave for a key, which the caller has a number for.

        Raises:
            PySparkTypeError: it is none.
            PySparkRuntimeError: its columns are not those that were declared. (Where only the names differ, Spark 4.3
                fills columns with nulls without a word.)
        """

    def _add_other(self, frame: Any) -> int: ...
    def _join(self) -> None: ...
