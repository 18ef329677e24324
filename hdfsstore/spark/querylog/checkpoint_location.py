"""Where a query keeps its checkpoint, for Spark and for us."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

_CONF = "spark.sql.streaming.checkpointLocation"
# Schemes of Hadoop for stores that pyarrow knows under another one.
_SCHEMES = {"s3a": "s3", "s3n": "s3"}


@dataclass(frozen=True, slots=True)
class CheckpointLocation:
    """A checkpoint's folder.

    Attributes:
        spark: what Spark's writer is given.
        ours: the same folder as hdfsstore.fs opens it: a local path, or a URI.
    """

    spark: str
    ours: str

    @property
    def state_root(self) -> str:
        """The checkpoint_root of our stores."""
        return f"{self.ours}/hdfsstore/state"


def find_checkpoint(spark: SparkSession, option: str | None, query_name: str | None) -> CheckpointLocation:
    """The checkpoint of a query that starts, found as Spark does (ResolveWriteToStream.scala).

    Args:
        option: checkpointLocation; else the folder is in spark.sql.streaming.checkpointLocation, by the query's name.

    Raises:
        ValueError: neither is there. Spark would take a temporary folder for some sinks: the state would be lost.
    """
    given = option
    if given is None:
        parent = spark.conf.get(_CONF, None)
        if parent is None:
            raise ValueError(
                "the query has no checkpoint, where its state is kept. "
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
