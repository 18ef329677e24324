"""The plan of a batch: rows and a marker row a partition, to their partitions, through the tasks.

`repartitionById(n, pmod(hash(keys), n))` puts a key where Spark's own operators would, and runs an empty partition too:
its marker comes there.
"""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from hdfsstore.spark.spec import QuerySpec
from hdfsstore.spark.task import StatefulTask

MARKER = "__hdfsstore_partition"


def column_name(position: int) -> str:
    """The name of a data or key column in the plan: users' names may be there twice."""
    return f"_{position}"


def batch_plan(
    rows: DataFrame,
    query: QuerySpec,
    task: StatefulTask,
    output: StructType,
    *,
    is_sorted: bool,
    partitions: Collection[int] | None = None,
) -> DataFrame:
    """The output of a batch.

    Args:
        rows: the data and key columns, by column_name.
        output: the schema of what the user's function gives.
        is_sorted: whether Spark sorts each partition by key.
        partitions: those to run; None: all.
    """
    num_partitions = query.num_partitions
    keys = [F.col(column_name(position)) for position in query.columns.key_positions]
    marker = F.col(MARKER)
    markers = rows.sparkSession.range(0, num_partitions, 1, 1).select(
        F.col("id").cast("int").alias(MARKER),
        *(F.lit(None).cast(field.dataType).alias(field.name) for field in rows.schema),
    )
    all_rows = rows.select(F.lit(None).cast("int").alias(MARKER), *rows.columns).union(markers)
    partition = F.coalesce(marker, _partition(keys, num_partitions))
    if partitions is not None:
        all_rows = all_rows.where(partition.isin(list(partitions)))
    placed = all_rows.repartitionById(num_partitions, partition)
    if is_sorted:
        placed = placed.sortWithinPartitions(marker.desc_nulls_last(), *keys)
    return placed.mapInArrow(task, output)


def _partition(keys: list[Column], num_partitions: int) -> Column:
    # Rows without key columns are all of one key, which is in partition 0.
    return F.pmod(F.hash(*keys), F.lit(num_partitions)) if keys else F.lit(0)
