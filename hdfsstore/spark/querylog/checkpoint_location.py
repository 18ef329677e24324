"""Finds the checkpoint of a query, and names it as Spark and as hdfsstore open it."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from hdfsstore.fs.location import StorageLocation
from hdfsstore.spark.querylog.session_storage import SessionStorage, session_storage

_CONF = "spark.sql.streaming.checkpointLocation"
STATE = "hdfsstore/state"


@dataclass(frozen=True, slots=True)
class CheckpointLocation:
    """A checkpoint's folder.

    Attributes:
        spark: the folder as Spark's writer gets it.
        storage: the same folder as hdfsstore opens it.
    """

    spark: str
    storage: SessionStorage

    @property
    def ours(self) -> StorageLocation:
        """The folder, with the keys that are valid now."""
        return self.storage.location()


def find_checkpoint(
    spark: SparkSession,
    option: str | None,
    query_name: str | None,
    *,
    client: str | None = None,
    timeout_s: float | None = None,
) -> CheckpointLocation:
    """The checkpoint of a query that starts, found as Spark does (ResolveWriteToStream.scala).

    Args:
        option: checkpointLocation. None: the folder is in spark.sql.streaming.checkpointLocation, and has the query's
            name.
        client: of HDFS; None: the default.
        timeout_s: seconds without progress after which a call fails; None: the default.

    Raises:
        ValueError: neither is set. For some sinks Spark takes a temporary folder then, but that would lose the state.
        UnsupportedSettingError: a setting of Hadoop about security, or about where data lies, cannot be honoured.
        StateStoreError: the value of such a setting makes no sense, or there are no keys.
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
    hadoop_conf = spark._jsparkSession.sessionState().newHadoopConf()
    return CheckpointLocation(given, session_storage(spark, path, hadoop_conf, client=client, timeout_s=timeout_s))
