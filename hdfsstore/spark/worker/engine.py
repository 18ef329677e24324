"""What runs the user's function in a task: one engine for each method of StatefulGroups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from hdfsstore.spark.worker.partition_state import PartitionState


@dataclass(frozen=True, slots=True)
class KeyedRows:
    """Rows of whole keys: all that a batch has of them.

    Attributes:
        rows: the data columns, under the user's names.
        keys: the key of each row, normalised; a struct as there may be no key column.
        is_sorted: whether equal keys are adjacent.
    """

    rows: pa.Table
    keys: pa.StructArray
    is_sorted: bool


class Engine(Protocol):
    """Made on the driver, and pickled for the tasks."""

    def data(self, calls: Iterator[KeyedRows], state: PartitionState) -> Iterator[pa.RecordBatch]:
        """Runs the function on the rows; gives its output in the declared schema."""

    def expired(self, state: PartitionState) -> Iterator[pa.RecordBatch]:
        """Runs it on the keys whose timeout is over, after the data."""
