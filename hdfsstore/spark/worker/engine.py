"""Define the protocol of engines, which run the user's function in a task: one for each method of StatefulGroups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from hdfsstore.spark.worker.partition_state import PartitionState


@dataclass(frozen=True, slots=True)
class KeyedRows:
    """Some keys, with all rows that a batch has of them.

    Attributes:
        rows: the data columns, under the user's names.
        keys: the key of each row, normalised; a struct, because there may be no key column.
        is_sorted: whether equal keys are adjacent.
    """

    rows: pa.Table
    keys: pa.StructArray
    is_sorted: bool


class Engine(Protocol):
    """Made on the driver, and pickled for the tasks."""

    def data(self, keyed_rows: Iterator[KeyedRows], state: PartitionState) -> Iterator[pa.RecordBatch]:
        """Runs the function on the rows; yields its output in the declared schema."""

    def expired(self, state: PartitionState) -> Iterator[pa.RecordBatch]:
        """Runs the function on the keys that have expired, after `data`."""
