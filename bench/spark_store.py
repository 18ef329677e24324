"""Spark's own state stores without a query: SparkStore.java, compiled inside Spark's JVM, one call a batch."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bench import store_data

_STATE = "spark.sql.streaming.stateStore"
_PROVIDERS = "org.apache.spark.sql.execution.streaming.state"
HDFS_BACKED = {f"{_STATE}.providerClass": f"{_PROVIDERS}.HDFSBackedStateStoreProvider"}
HDFS_BACKED_SNAPSHOTS = {**HDFS_BACKED, f"{_STATE}.minDeltasForSnapshot": "0"}  # one is always due
ROCKSDB = {f"{_STATE}.providerClass": f"{_PROVIDERS}.RocksDBStateStoreProvider"}
ROCKSDB_CHANGELOG = {**ROCKSDB, f"{_STATE}.rocksdb.changelogCheckpointing.enabled": "true"}
"""Settings; all others are Spark's defaults. In Spark 4.3 changelog checkpointing is off unless it is asked for."""

_SOURCE = Path(__file__).with_name("SparkStore.java")


def spark_store(spark: SparkSession, folder: Path, settings: dict[str, str], version: int = 0) -> Any:
    """A SparkStore on the store in `folder`, at that version: see the methods of SparkStore.java."""
    store = _class(spark).newInstance()
    store.init(str(store_data.root(folder)), store_data.KEY_DDL, store_data.VALUE_DDL, settings, version)
    return store


@cache  # Py4J remembers methods by the class's name: a second class of that name would be called by the first one's
def _class(spark: SparkSession) -> Any:
    jvm: Any = spark._jvm
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.Thread.currentThread().getContextClassLoader())
    compiler.cook(_SOURCE.read_text())
    return compiler.getClassLoader().loadClass(_SOURCE.stem)
