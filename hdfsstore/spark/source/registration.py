"""Registers the sources with a session, with what its JVM knows of the storages of checkpoints."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from hdfsstore.errors import UnsupportedQueryError
from hdfsstore.spark.querylog.session_storage import session_conf, session_storage
from hdfsstore.spark.source.metadata_source import MetadataSource
from hdfsstore.spark.source.state_source import StateSource
from hdfsstore.spark.source.storage import SourceStorage

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def register(spark: SparkSession, *locations: str) -> None:
    """Registers the sources `hdfsstore` and `hdfsstore-metadata` with the filesystem settings that the session has now.

    Without it Spark finds the sources by their names. They know the settings in HADOOP_CONF_DIR and in AWS's
    environment variables, and not those of the session. If spark.sql.python.filterPushdown.enabled is true, filters on
    keys are pushed down from now on. Settings and keys never show in plans. Call it again when they have changed.

    Args:
        spark: a classic session.
        locations: a folder of each bucket or HDFS whose settings only the JVM can tell: keys that Hadoop's credential
            providers have, connections that servers have to protect.

    Raises:
        UnsupportedQueryError: the session is one of Spark Connect.
        UnsupportedSettingError: a setting for one of the locations cannot be honoured.
        StateStoreError: s3a has no keys for one of them.
    """
    if getattr(spark, "_jsparkSession", None) is None:
        raise UnsupportedQueryError(
            "the settings of this session cannot be asked for: it is one of Spark Connect",
            remedy="Leave register out: the server finds the sources by their names, with HADOOP_CONF_DIR",
        )
    jvm: Any = spark._jvm
    hadoop_conf = spark._jsparkSession.sessionState().newHadoopConf()
    paths = [jvm.org.apache.hadoop.fs.Path(location) for location in locations]
    known = [session_storage(spark, path, hadoop_conf, client=None, timeout_s=None).location() for path in paths]
    conf, user = session_conf(spark, hadoop_conf)
    storage = SourceStorage(conf, user, tuple(known))
    pushes = spark.conf.get(_PUSHDOWN, "false") == "true"
    # Spark takes a class. A class that no module has is pickled whole, with its attributes.
    spark.dataSource.register(
        type("RegisteredStateSource", (StateSource,), {"storage": storage, "pushes_filters": pushes})
    )
    spark.dataSource.register(type("RegisteredMetadataSource", (MetadataSource,), {"storage": storage}))
