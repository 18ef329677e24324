"""Finds the checkpoint of a query, and names it as Spark and as hdfsstore opens it."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

_CONF = "spark.sql.streaming.checkpointLocation"
# Hadoop's schemes of stores that have another scheme in pyarrow.
_SCHEMES = {"s3a": "s3", "s3n": "s3"}


@dataclass(frozen=True, slots=True)
class CheckpointLocation:
    """A checkpoint's folder.

    Attributes:
        spark: the folder as Spark's writer gets it.
        ours: the same folder as hdfsstore opens it, which is a local path or a URI.
    """

    spark: str
    ours: str

    @property
    def state_root(self) -> str:
        """The folder in which the query's stores are."""
        return f"{self.ours}/hdfsstore/state"


def find_checkpoint(spark: SparkSession, option: str | None, query_name: str | None) -> CheckpointLocation:
    """The checkpoint of a query that starts, found as Spark does (ResolveWriteToStream.scala).

    Args:
        option: checkpointLocation. None: the folder is in spark.sql.streaming.checkpointLocation, and has the query's
            name.

    Raises:
        ValueError: neither is set. For some sinks Spark takes a temporary folder then, but that would lose the state.
    """
    given = option
    if given is None:
        parent = spark.conf.get(_CONF, None)
        if parent is None:
            raise ValueError(
                "the query has no checkpoint, and its state is kept there. "
                f"Set option('checkpointLocation', ...), or the conf {_CONF} and queryName(...)"
            )
        given = f"{parent.rstrip('/')}/{query_name or uuid.uuid4()}"
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(given)
    uri = path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf()).makeQualified(path).toUri()
    scheme = uri.getScheme()
    if scheme == "file":
        return CheckpointLocation(given, uri.getPath())
    rest = uri.toString().partition(":")[2]
    return CheckpointLocation(given, f"{_SCHEMES.get(scheme, scheme)}:{rest}")
