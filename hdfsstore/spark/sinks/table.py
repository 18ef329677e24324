"""Appends each batch to a table of Spark's catalog."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

_PROVIDER = "parquet"


class TableSink:
    """Appends to a parquet table. A batch that runs again appends again.

    Args:
        table_name: as in spark.table.
        source: the table's provider.
        options: options of Spark's parquet writer. `path` says where a new table has its files.
        schema: of the output.

    Raises:
        ValueError: it is a view, its provider is not parquet, or its columns are not those of the output.
    """

    def __init__(
        self, spark: SparkSession, table_name: str, source: str, options: Mapping[str, str], schema: StructType
    ) -> None:
        if source.lower() != _PROVIDER:
            raise ValueError(f"toTable appends to parquet tables; {_others(table_name)}, to one of format {source!r}")
        self._spark = spark
        self._name = table_name
        self._path = options.get("path")
        self._options = {name: value for name, value in options.items() if name != "path"}
        self._schema = StructType([StructField(column.name, column.dataType) for column in schema])
        if spark.catalog.tableExists(table_name):
            _check(spark, table_name, schema)

    def make_table(self) -> None:
        """Creates the table if it does not exist."""
        if not self._spark.catalog.tableExists(self._name):
            self._spark.catalog.createTable(self._name, self._path, _PROVIDER, self._schema)

    def __call__(self, df: DataFrame, batch_id: int) -> None:  # noqa: ARG002
        df.write.options(**self._options).format(_PROVIDER).mode("append").saveAsTable(self._name)
        # A batch has a session of its own. The session that started the query still caches the table's old files.
        self._spark.catalog.refreshTable(self._name)


def _check(spark: SparkSession, table_name: str, schema: StructType) -> None:
    described = {row.col_name: row.data_type for row in spark.sql(f"DESCRIBE TABLE EXTENDED {table_name}").collect()}
    provider = described.get("Provider")
    if described.get("Type") == "VIEW" or provider is None:
        raise ValueError(f"{table_name} is a view: toTable appends to parquet tables")
    if provider.lower() != _PROVIDER:
        raise ValueError(f"{table_name} is a table of format {provider!r}; {_others(table_name)}")
    names = spark.table(table_name).columns
    if sorted(name.lower() for name in names) != sorted(name.lower() for name in schema.names):
        raise ValueError(f"{table_name} has the columns {', '.join(names)}, the output {', '.join(schema.names)}")


def _others(table_name: str) -> str:
    return f"foreachBatch(lambda df, batch_id: df.writeTo({table_name!r}).append()) writes to any other"
