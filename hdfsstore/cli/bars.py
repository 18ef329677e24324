"""Bars of a store's partitions: the fullest ones, where not all have room."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

from rich.text import Text


class Partition(Protocol):
    """What a bar is made of."""

    @property
    def rows(self) -> int | None: ...
    @property
    def bytes(self) -> int: ...


P = TypeVar("P", bound=Partition)


class Bars(Generic[P]):
    """Bars whose length shows the rows, relative to the largest partition; the bytes unless all rows are known.

    Args:
        most: so many have room.
        width: of the longest bar.

    Attributes:
        unit: "rows" or "bytes".
        shown: all in their order, or the fullest ones from the largest on.
        others: those that have no room.
    """

    def __init__(self, partitions: Sequence[P], most: int, width: int) -> None:
        self.unit = "bytes" if any(partition.rows is None for partition in partitions) else "rows"
        self._largest = max(1, *(self._weight(partition) for partition in partitions))
        self._width = width
        ordered = partitions
        if len(partitions) > most:
            ordered = sorted(partitions, key=self._weight, reverse=True)
        self.shown, self.others = ordered[:most], ordered[most:]

    def of(self, partition: P) -> Text:
        """The bar of a partition."""
        return Text("█" * round(self._width * self._weight(partition) / self._largest) or "▏", "cyan")

    def _weight(self, partition: P) -> int:
        return partition.bytes if self.unit == "bytes" else partition.rows or 0
