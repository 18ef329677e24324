"""Our stateful functions, on the functions that Spark's run too."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery

from bench.spark_sides import PARTITIONS, to_noop
from bench.user_functions import OUTPUT, STATE, arrow_sums, pandas_sums, row_sums
from hdfsstore.spark import groupBy
from hdfsstore.spark.stream import StatefulStream


def in_arrow(rows: DataFrame, checkpoint: Path) -> StreamingQuery:
    """mapInArrowWithState."""
    grouped = groupBy(rows.select("user", "amount"), "user")
    return start(grouped.mapInArrowWithState(arrow_sums, OUTPUT, STATE, "update", "NoTimeout"), checkpoint)


def in_rows(rows: DataFrame, checkpoint: Path) -> StreamingQuery:
    """mapWithState."""
    grouped = groupBy(rows.select("user", "amount"), "user")
    return start(grouped.mapWithState(row_sums, OUTPUT, STATE), checkpoint)


def in_pandas(rows: DataFrame, checkpoint: Path) -> StreamingQuery:
    """applyInPandasWithState."""
    grouped = groupBy(rows.select("user", "amount"), "user")
    return start(grouped.applyInPandasWithState(pandas_sums, OUTPUT, STATE, "update", "NoTimeout"), checkpoint)


def start(out: StatefulStream, checkpoint: Path, num_partitions: int = PARTITIONS) -> StreamingQuery:
    """Starts a query of ours."""
    writer = out.writeStream.outputMode("update").option("checkpointLocation", str(checkpoint))
    return writer.option("hdfsstore.numPartitions", num_partitions).foreachBatch(to_noop).start()
