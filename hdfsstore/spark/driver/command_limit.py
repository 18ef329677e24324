"""Keeps keys off the disk: a task's command that is too long becomes a broadcast variable, which is a file."""

from __future__ import annotations

from typing import Any

from pyspark import cloudpickle

from hdfsstore.errors import SizeLimitError


def check_command(task: object, output: object, limit: int) -> None:
    """Refuses to send keys in a command that Spark would write to a file.

    Args:
        task: what mapInArrow runs.
        output: the schema of what it returns, which PySpark sends in the command too.
        limit: PySpark makes a broadcast variable of what takes more bytes (spark.broadcast.UDFCompressionThreshold).

    Raises:
        SizeLimitError: it takes more.
    """
    size = len(cloudpickle.dumps((task, output)))  # type: ignore[no-untyped-call]
    if size > limit:
        raise SizeLimitError(
            f"the command of a batch's tasks has keys of the storage in it and takes {size} bytes, and Spark writes a "
            f"command of more than {limit} bytes to a disk",
            remedy="Use fewer partitions or fewer columns, or give each machine a role of its own, so that no keys "
            "travel, or raise spark.broadcast.UDFCompressionThreshold",
        )


def limit_of(context: Any) -> int:
    """The limit of a SparkContext."""
    limit: int = context._jvm.PythonUtils.getBroadcastThreshold(context._jsc)
    return limit
