"""The plan of a batch: rows, and a marker row a partition, to their partitions, through the tasks.

`repartitionById(n, pmod(hash(keys), n))` puts a key where Spark's own operators would. A partition without rows is run
too, as its marker comes there. Markers are left out where each partition is expected to have rows: uniting them with
the rows costs two copies of each row, on as many cores as the batch has files.
"""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from hdfsstore.spark.spec import BatchSpec, QuerySpec
from hdfsstore.spark.worker.task import StatefulTask

MARKER = "__hdfsstore_partition"


def column_name(position: int) -> str:
    """The name of a data or key column in the plan: users' names may be there twice."""
    return f"_{position}"


def batch_plan(
    rows: DataFrame,
    query: QuerySpec,
    batch: BatchSpec,
    task: StatefulTask,
    output: StructType,
    partitions: Collection[int] | None = None,
) -> DataFrame:
    """The output of a batch.

    Args:
        rows: the data and key columns, by column_name.
        batch: says whether there are markers, and whether Spark sorts each partition by key.
        output: the schema of what the user's function gives.
        partitions: those to run; None: all.
    """
    num_partitions = query.num_partitions
    keys = [F.col(column_name(position)) for position in query.columns.key_positions]
    # Rows without key columns are all of one key, which is in partition 0.
    partition = F.pmod(F.hash(*keys), F.lit(num_partitions)) if keys else F.lit(0)
    order = keys
    if batch.has_markers:
        marker = F.col(MARKER)
        rows = _with_markers(rows, num_partitions)
        partition = F.coalesce(marker, partition)
        order = [marker.desc_nulls_last(), *keys]
    if partitions is not None:
        rows = rows.where(partition.isin(list(partitions)))
    placed = rows.repartitionById(num_partitions, partition)
    if batch.is_sorted and order:
        placed = placed.sortWithinPartitions(*order)
    return placed.mapInArrow(task, output)


def _with_markers(rows: DataFrame, num_partitions: int) -> DataFrame:
    """The rows behind a column MARKER, and for each partition a row that has only its number, there."""
    markers = rows.sparkSession.range(0, num_partitions, 1, 1).select(
        F.col("id").cast("int").alias(MARKER),
        *(F.lit(None).cast(field.dataType).alias(field.name) for field in rows.schema),
    )
    return rows.select(F.lit(None).cast("int").alias(MARKER), *rows.columns).union(markers)
