from typing import Any

import pandas as pd

class FrameCutter:
    """Cuts frames of some rows out of a frame.

    Such a frame is indexed from 0, and its values are views of the large one's.

    Args:
        frame: with at least one column, and an Index of objects for their labels.
    """

    def __init__(self, frame: pd.DataFrame) -> None: ...
    def __call__(self, start: int, end: int) -> pd.DataFrame:
        """The rows [start, end)."""

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
