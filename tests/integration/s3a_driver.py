"""A driver of Spark for test_s3a_query.py: python -m tests.integration.s3a_driver MASTER CHECKPOINT FOLDER TRUST KEYS.

TRUST is the trust store of its JVM, and KEYS the file for the secret key and the session token that tasks have.

It runs one batch of a stateful query with its checkpoint on s3a, a second one, and prints what a user may print. It
also keeps what tasks see around them, and what Spark's REST API says.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import urllib.request
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

from hdfsstore.spark import groupBy
from hdfsstore.spark.driver.query import StatefulQuery
from tests.services import java, s3a
from tests.spark.support.totals import Events, total
from tests.support.waiting import WAIT_SECONDS

_PAGES = ("environment", "executors", "allexecutors", "jobs", "stages", "sql")


def seeing(folder: str) -> Callable[[pa.Table, Any], pa.Table]:
    """The totals, by a function that writes down its process's environment and the properties of its task."""

    def see(rows: pa.Table, state: Any) -> pa.Table:
        task = TaskContext.get()
        assert task is not None
        properties: dict[str, str] = task._localProperties  # type: ignore[attr-defined]
        seen = json.dumps([dict(os.environ), properties, Path("/proc/self/cmdline").read_text()])
        Path(folder, f"seen-{uuid.uuid4()}").write_text(seen)
        return total(rows, state)

    return see


def keep_rest(spark: SparkSession, folder: str) -> None:
    context = spark.sparkContext
    for page in _PAGES:
        url = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/{page}"
        with urllib.request.urlopen(url, timeout=WAIT_SECONDS) as answer:
            Path(folder, f"rest-{page}").write_bytes(answer.read())


def keep_keys(spark: SparkSession, checkpoint: str, keys: str) -> None:
    """Writes down the secret key and the session token that s3a has."""
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(checkpoint)
    filesystem = path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    found = filesystem.getS3AInternals().shareCredentials("tests").resolveCredentials()
    Path(keys).write_text(f"{found.secretAccessKey()}\n{found.sessionToken()}")


def log_all(spark: SparkSession) -> None:
    """Spark and Hadoop log all they can, but for the headers of requests, and s3a's own word of a proxy's password."""
    spark.sparkContext.setLogLevel("DEBUG")
    log4j: Any = spark._jvm.org.apache.logging.log4j  # type: ignore[union-attr]
    for name in ("org.apache.http", "software.amazon.awssdk", "org.apache.hadoop.fs.s3a.impl.AWSClientConfig"):
        log4j.core.config.Configurator.setLevel(name, log4j.Level.INFO)


def main(master: str, checkpoint: str, folder: str, trust: str, keys: str) -> None:
    logging.basicConfig(level=logging.DEBUG, filename=f"{folder}/driver.log")
    spark = (
        SparkSession.builder.master(master)
        .config("spark.jars", ",".join(map(str, s3a.jars())))
        .config("spark.driver.extraClassPath", os.environ["HADOOP_CONF_DIR"])
        .config("spark.driver.extraJavaOptions", " ".join([*java.QUICK_START, f"-Djavax.net.ssl.trustStore={trust}"]))
        .config("spark.executor.extraJavaOptions", " ".join(java.QUICK_START))
        .config("spark.executorEnv.AWS_CA_BUNDLE", os.environ["AWS_CA_BUNDLE"])
        # Spark shows Hadoop's properties. By default it hides keys of access alone, not those of encryption.
        .config("spark.redaction.regex", "(?i)secret|password|token|access[.]?key|encryption[.]key")
        .config("spark.eventLog.enabled", True)
        .config("spark.eventLog.dir", Path(folder, "events").as_uri())
        # Who looks for a key in files must be able to find it.
        .config("spark.eventLog.compress", False)
        .config("spark.broadcast.compress", False)
        .config("spark.shuffle.compress", False)
        .config("spark.shuffle.spill.compress", False)
        .config("spark.local.dir", f"{folder}/local")
        .config("spark.ui.port", 0)
        .config("spark.executor.syncLogLevel.enabled", True)
        .config("spark.sql.shuffle.partitions", 2)
        .config("spark.sql.warehouse.dir", f"{folder}/warehouse")
        .getOrCreate()
    )
    log_all(spark)
    events = Events(spark, Path(folder, "input"))
    for number in (1, 2):
        events.add(("ann", number, 0), ("bob", 10 * number, 0))
        query = (
            groupBy(events.stream(), "user")
            .mapInArrowWithState(seeing(folder), "user string, total long", "total long", "update", "NoTimeout")
            .writeStream.outputMode("update")
            .option("checkpointLocation", checkpoint)
            .option("hdfsstore.localDir", f"{folder}/images")
            .option("hdfsstore.maintenanceInterval", "1s")
            .format("parquet")
            .start(f"{folder}/output")
        )
        assert isinstance(query, StatefulQuery)
        query.processAllAvailable()
        print(query, query.lastProgress, query.recentProgress)
        query.stop()
        assert query.awaitTermination(WAIT_SECONDS)
    print(spark.sparkContext.getConf().getAll())
    keep_rest(spark, folder)
    logging.disable()  # py4j's log would have the keys
    keep_keys(spark, checkpoint, keys)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
