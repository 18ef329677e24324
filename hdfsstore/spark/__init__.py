"""Runs stateful functions in Python on Spark's streaming queries, and keeps their state in this package's store.

Reads the state of any checkpoint with a cluster: spark.read.format("hdfsstore").load(checkpoint).

from hdfsstore.spark import groupBy

counts = groupBy(events, "user").mapInArrowWithState(count, "user string, n long", "n long", "update", "NoTimeout")
query = counts.writeStream.outputMode("update").option("checkpointLocation", folder).foreachBatch(sink).start()
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame

from hdfsstore.spark.api.grouped_stream import StatefulGroups
from hdfsstore.spark.api.keys import key_columns
from hdfsstore.spark.driver.unsupported import check_input
from hdfsstore.spark.source.registration import register

__all__ = ["groupBy", "register"]


def groupBy(df: DataFrame, *cols: str | int | Column | list[str | int | Column]) -> StatefulGroups:
    """Groups a stream by key for a stateful function, as df.groupBy(*cols) does for Spark's own.

    Args:
        df: a stream of a classic session on Spark 4.1 to 4.3.
        cols: names of columns, ordinals (the first column is 1), Columns and expressions, or one list of them. Without
            any, all rows have one key, in one partition. Floats are normalized as in Spark's grouping: -0.0 is 0.0,
            and all NaNs are equal.

    Raises:
        UnsupportedQueryError: df is not a stream, or belongs to a Spark that hdfsstore does not support.
        TypeError: df is not a DataFrame, or a key is not a column.
        IndexError: no column has that ordinal.
    """
    check_input(df)
    flat = tuple(cols[0]) if len(cols) == 1 and isinstance(cols[0], list) else cols
    return StatefulGroups(df, key_columns(df, flat))  # type: ignore[arg-type]  # key_columns refuses a list among them
