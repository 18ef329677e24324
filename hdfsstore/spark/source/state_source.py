"""`spark.read.format("hdfsstore")`: the rows of a state store, a partition of the state as a partition of Spark.

Spark makes a StateSource when a query is written, asks it for the schema and pickles it. A process that plans the query
asks it for a reader, and the reader for partitions; tasks get the reader and one partition each. None of these has a
JVM. The batch is resolved with the schema, so that all of them read the same one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from pyspark.sql.datasource import DataSource, DataSourceReader
from pyspark.sql.types import StructType

from hdfsstore.errors import SchemaMismatchError
from hdfsstore.spark.source.options import parse_options
from hdfsstore.spark.source.pushed_filters import PushingReader
from hdfsstore.spark.source.spark_schema import spark_schema, stored_schema
from hdfsstore.spark.source.state_reader import StateReader, StateToRead
from hdfsstore.spark.source.storage import SourceStorage


class StateSource(DataSource):
    """The state of a checkpoint at a batch, or its changes.

    Attributes:
        storage: how checkpoints are reached. `hdfsstore.spark.register` makes a subclass with the session's.
        pushes_filters: whether filters are pushed down where the options do not say it.
    """

    storage: ClassVar[SourceStorage] = SourceStorage()
    pushes_filters: ClassVar[bool] = False
    _planned: StateToRead | None = None

    @classmethod
    def name(cls) -> str:
        """As `format` takes it."""
        return "hdfsstore"

    def schema(self) -> StructType:
        """The schema of `statestore` for the same options, with the columns that are asked for."""
        return spark_schema(self._plan().rows().schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Reads the partitions.

        Args:
            schema: that of `schema`, or one that the user gave, as for the state of Spark 2, which has none.
        """
        planned = self._plan(schema)
        if schema != spark_schema(planned.rows().schema):
            raise SchemaMismatchError(
                f"the rows do not have the schema {schema.simpleString()}",
                planned.location.uri,
                remedy="Leave the schema out, and choose columns with the option columns",
            )
        pushes = planned.options.push_filters
        if self.pushes_filters if pushes is None else pushes:
            return PushingReader(planned, schema)
        return StateReader(planned, schema)

    def _plan(self, given: StructType | None = None) -> StateToRead:
        if self._planned is None:
            options = parse_options(self.options)
            if given is not None:
                key_schema, value_schema = (stored_schema(given, column) for column in ("key", "value"))
                request = replace(options.request, key_schema=key_schema, value_schema=value_schema)
                options = replace(options, request=request)
            location = self.storage.location(options.path)
            found = StateToRead(location, options)
            self._planned = replace(found, options=options.at(found.newest_batch()))
        return self._planned
