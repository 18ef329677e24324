"""Reads the partitions of a store, or of its changes, in tasks of Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from hdfsstore.checkpoint.checkpoint import Checkpoint
from hdfsstore.checkpoint.reading import ChangesToRead, RowsToRead
from hdfsstore.fs.location import StorageLocation
from hdfsstore.spark.source.options import SourceOptions
from hdfsstore.spark.source.spark_schema import as_spark_takes_it


@dataclass(frozen=True, slots=True)
class StateToRead:
    """A store of a checkpoint at a batch, or its changes."""

    location: StorageLocation
    options: SourceOptions

    def newest_batch(self) -> int:
        """The batch of the options, by default the newest committed one."""
        batch_id = self.options.request.batch_id
        return Checkpoint(self.location).latest_batch_id if batch_id is None else batch_id

    def rows(self, partitions: Sequence[int] | None = None) -> RowsToRead | ChangesToRead:
        """What is read, of all partitions or some.

        Raises:
            StateStoreError: as Checkpoint.read_state and read_changes.
        """
        request, first = replace(self.options.request, partitions=partitions), self.options.changes_from
        checkpoint = Checkpoint(self.location, num_threads=1)
        return checkpoint.rows_to_read(request) if first is None else checkpoint.changes_to_read(first, request)


@dataclass
class StatePartition(InputPartition):
    """A partition of the state, by its number."""

    partition_id: int


class StateReader(DataSourceReader):
    """Reads a store partition by partition."""

    def __init__(self, planned: StateToRead, schema: StructType) -> None:
        self._planned = planned
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """One for each partition of the state that may have such rows."""
        return [StatePartition(number) for number in self._planned.rows().partition_ids]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition."""
        if not isinstance(partition, StatePartition):
            return  # Spark gives one of its own where there are none
        rows = self._planned.rows([partition.partition_id])
        given = as_spark_takes_it(self._schema)
        for batch in rows.load(partition.partition_id):
            yield given(batch)
