"""`spark.read.format("hdfsstore-metadata")`: the stores of a checkpoint, a row each, with the columns of Spark's
`state-metadata` and those that it hides.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import ClassVar

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from hdfsstore.checkpoint.checkpoint import Checkpoint
from hdfsstore.errors import StateStoreError, UnsupportedSettingError
from hdfsstore.fs.location import StorageLocation
from hdfsstore.spark.source.storage import SourceStorage

_COLUMNS = {
    "operatorId": "integer",
    "operatorName": "string",
    "stateStoreName": "string",
    "numPartitions": "integer",
    "minBatchId": "long",
    "maxBatchId": "long",
    "operatorProperties": "string",
    "numColsPrefixKey": "integer",
}


class MetadataSource(DataSource):
    """The operators and stores of a checkpoint, and the first and last batch that its commit log has.

    Attributes:
        storage: as StateSource has it.
    """

    storage: ClassVar[SourceStorage] = SourceStorage()

    @classmethod
    def name(cls) -> str:
        """As `format` takes it."""
        return "hdfsstore-metadata"

    def schema(self) -> StructType:
        """A row for each store."""
        schema = StructType()
        for name, kind in _COLUMNS.items():
            schema.add(name, kind)
        return schema

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads them in one task."""
        unknown = [name for name in self.options if name.lower() != "path"]
        if unknown:
            raise UnsupportedSettingError(
                f"the source hdfsstore-metadata has no option {unknown[0]!r}", remedy="It takes a path alone"
            )
        if "path" not in self.options:
            raise StateStoreError(
                "the source hdfsstore-metadata needs a path", remedy="Give the checkpoint to load(...)"
            )
        return MetadataReader(self.storage.location(self.options["path"]), schema.names)


class MetadataReader(DataSourceReader):
    """Reads the metadata of one checkpoint."""

    def __init__(self, location: StorageLocation, columns: list[str]) -> None:
        self._location = location
        self._columns = columns

    def read(self, _partition: InputPartition) -> Iterator[tuple[object, ...]]:
        """A row for each store."""
        checkpoint = Checkpoint(self._location)
        committed = [batch.batch_id for batch in checkpoint.batches if batch.committed]
        first, last = (committed[0], committed[-1]) if committed else (None, None)
        for operator in checkpoint.operators:
            properties = json.dumps(operator.properties, separators=(",", ":")) if operator.properties else None
            for store in operator.stores:
                row = {
                    "operatorId": operator.operator_id,
                    "operatorName": operator.name,
                    "stateStoreName": store.name,
                    "numPartitions": store.num_partitions,
                    "minBatchId": first,
                    "maxBatchId": last,
                    "operatorProperties": properties,
                    "numColsPrefixKey": store.num_cols_prefix_key,
                }
                yield tuple(row[name] for name in self._columns)
