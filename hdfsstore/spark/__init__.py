"""Stateful functions in Python on Spark's streaming queries, with their state in this package's store.

from hdfsstore.spark import groupBy

counts = groupBy(events, "user").mapInArrowWithState(count, "user string, n long", "n long", "update", "NoTimeout")
query = counts.writeStream.outputMode("update").option("checkpointLocation", folder).foreachBatch(sink).start()
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame

from hdfsstore.spark.api.grouped_stream import StatefulGroups
from hdfsstore.spark.api.keys import key_columns
from hdfsstore.spark.driver.unsupported import check_input

__all__ = ["groupBy"]


def groupBy(df: DataFrame, *cols: str | int | Column | list[str | int | Column]) -> StatefulGroups:
    """Groups a stream by key for a stateful function, as df.groupBy(*cols) does for Spark's own.

    Args:
        df: of a classic session on Spark 4.1 to 4.3.
        cols: names of columns, their ordinals from 1 on, Columns and expressions, or one list of such; none: all rows
            are of one key, in one partition. Floats are normalised as Spark groups them: -0.0 is 0.0, and there is one
            NaN.

    Raises:
        UnsupportedQueryError: df is not a stream, or of a Spark that this does not run on.
        TypeError: df is no DataFrame, or a key no column.
    """
    check_input(df)
    flat = tuple(cols[0]) if len(cols) == 1 and isinstance(cols[0], list) else cols
    return StatefulGroups(df, key_columns(df, flat))  # type: ignore[arg-type]  # key_columns refuses a list among them
