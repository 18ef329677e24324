"""Group rows by key."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from hdfsstore._cext.key_groups import group_rows
from hdfsstore.state.rows import BinaryRows


@dataclass(frozen=True, slots=True)
class KeyGroups:
    """The rows of each key. Keys are in the order of their first rows; the rows of a key keep their order.

    Attributes:
        order: the rows' numbers, key by key; None if the rows are in this order already.
        starts: where each key's rows begin in `order`, and behind the last one the number of rows.
        first: the number of each key's first row.
    """

    order: npt.NDArray[np.int32] | None
    starts: npt.NDArray[np.int32]
    first: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.first)

    def chunks(self, max_rows: int, first: int = 0, end: int | None = None) -> Iterator[tuple[int, int]]:
        """Splits the keys [first, end) into such pairs, of at most max_rows rows each, or of one key with more."""
        end = len(self) if end is None else end
        starts = self.starts[first : end + 1].tolist()
        begin = 0
        while begin < end - first:
            stop = max(begin + 1, bisect_right(starts, starts[begin] + max_rows, begin + 1) - 1)
            yield first + begin, first + stop
            begin = stop

    def rows(self, table: Any, start: int, end: int) -> Any:
        """The rows of a table, or another Arrow object, that lie at [start, end) of the order."""
        if self.order is None:
            return table.slice(start, end - start)
        return table.take(self.order[start:end])


def group(key_rows: BinaryRows, *, is_sorted: bool) -> KeyGroups:
    """Groups rows by the bytes of their keys.

    Args:
        key_rows: the key of each row.
        is_sorted: equal keys are adjacent.
    """
    order, starts, first = group_rows(key_rows, is_sorted)
    return KeyGroups(None if order is None else _numbers(order), _numbers(starts), _numbers(first))


def _numbers(buffer: Any) -> npt.NDArray[np.int32]:
    return np.frombuffer(buffer, dtype=np.int32)
