"""Makes the sink of a format. A sink is a function for foreachBatch, and Spark may repeat the call for a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from hdfsstore.spark.querylog.checkpoint_location import CheckpointLocation
from hdfsstore.spark.sinks.parquet import ParquetSink

Sink: TypeAlias = Callable[[DataFrame, int], None]

FORMATS = ("console", "noop", "parquet")


def make_sink(
    spark: SparkSession,
    source: str,
    path: str | None,
    options: Mapping[str, str],
    schema: StructType,
    checkpoint: CheckpointLocation,
) -> Sink:
    """The sink of a format.

    Args:
        source: one of FORMATS, in any case.
        path: the path of start(), else the option `path`.
        options: the writer's options for the sink, with names in lower case.
        schema: of the output.
        checkpoint: the query's.

    Raises:
        ValueError: there is no such format, it needs a path and has none, or it cannot have these columns.
        StateStoreError: the output of another query, or of Spark's own sink, is at the path.
    """
    name = source.lower()
    if name == "noop":
        return noop
    if name == "console":
        return ConsoleSink(options)
    if name == "parquet":
        return ParquetSink(spark, path, options, schema, checkpoint)
    raise ValueError(
        f"there is no format {source!r} for stateful queries: it is one of {', '.join(FORMATS)}. "
        "foreachBatch(lambda df, batch_id: df.write...) writes any other format of Spark"
    )


def noop(df: DataFrame, batch_id: int) -> None:  # noqa: ARG001
    """Runs the function on all rows and drops the output."""
    df.write.format("noop").mode("overwrite").save()


class ConsoleSink:
    """Prints each batch as Spark's console sink does. The executors keep all of a batch's output meanwhile.

    Args:
        options: numRows (20), and truncate (true, or a number of characters).
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._num_rows = _number("numRows", options.get("numrows", "20"))
        self._truncate: Any = {"true": True, "false": False}.get(options.get("truncate", "true").lower())
        if self._truncate is None:
            self._truncate = _number("truncate", options["truncate"])

    def __call__(self, df: DataFrame, batch_id: int) -> None:
        # show() alone would run partitions until its lines are full, and run some of them twice.
        df.persist()
        try:
            df.count()
            line = "-" * 43
            print(f"{line}\nBatch: {batch_id}\n{line}")
            df.show(self._num_rows, self._truncate)
        finally:
            df.unpersist()


def _number(name: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise ValueError(f"{name}: {value!r} is no number") from None
