"""The Spark that histories run on; one a process."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from tests.chaos.storage import is_s3
from tests.services import java, s3a

ROOT = Path(__file__).parents[2]
# By name: the master, and what its tasks may go through.
_LOCAL = "local[2,4]"
_CLUSTER = "local-cluster[2,1,1024]"
# Spark speculates only on another host than the slow one, and a local cluster has one host.
_TWO_HOSTS = ("127.0.0.1", "127.0.0.2")
_SPECULATION = {
    "spark.speculation": True,
    "spark.speculation.efficiency.enabled": False,
    "spark.speculation.interval": "50ms",
    "spark.speculation.minTaskRuntime": "100ms",
    "spark.speculation.multiplier": 1.1,
    "spark.speculation.quantile": 0.5,
}
SESSIONS: dict[str, tuple[str | None, dict[str, Any]]] = {
    "local": (_LOCAL, {}),
    "cluster": (_CLUSTER, {"spark.sql.adaptive.enabled": True}),
    "speculation": (None, _SPECULATION),
}


@contextmanager
def session(name: str, folder: Path) -> Iterator[SparkSession]:
    """A session of SESSIONS; its local files are in the folder."""
    master, of_session = SESSIONS[name]
    # Workers and executors import this package, and start from processes that have imported what tasks need.
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    settings: dict[str, Any] = {
        "spark.ui.enabled": False,
        "spark.ui.showConsoleProgress": False,
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": " ".join([*java.QUICK_START, "-Duser.timezone=UTC"]),
        "spark.executor.memory": "640m",
        # Half the time that a start takes, and executors are started all the time.
        "spark.executor.extraJavaOptions": " ".join(java.QUICK_START),
        # Executors are killed all the time: no end to new ones.
        "spark.deploy.maxExecutorRetries": -1,
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": 2,
        "spark.sql.streaming.metricsEnabled": False,
        **java.TINY_PLANS,
        "spark.sql.adaptive.enabled": False,
        "spark.python.daemon.module": "tests.chaos.daemon",
        "spark.log.level": "OFF",
        **of_session,
        **({"spark.jars": ",".join(map(str, s3a.jars()))} if is_s3() else {}),
    }
    conf = SparkConf().setAll([(key, str(value)) for key, value in settings.items()]).setAppName("hdfsstore chaos")
    conf.setMaster(master or _start_cluster(conf, folder / "executors"))
    spark = SparkSession.builder.config(conf=conf).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    application = spark.sparkContext.applicationId
    try:
        yield spark
    finally:
        spark.stop()
        # Where Spark's local cluster leaves its executors' folders.
        shutil.rmtree(Path(pyspark.__file__).parent / "work" / application, ignore_errors=True)


def _start_cluster(conf: SparkConf, folder: Path) -> str:
    """Starts a master, and a worker with two cores on each of two hosts, in the JVM of this process.

    Returns:
        the master's URL.
    """
    SparkContext._ensure_initialized(conf=conf)
    jvm: Any = SparkContext._jvm
    deploy = jvm.org.apache.spark.deploy
    # The rest comes from the JVM's properties, where the conf is.
    its = jvm.org.apache.spark.SparkConf().set("spark.master.rest.enabled", "false")
    started = deploy.master.Master.startRpcEnvAndEndpoint(_TWO_HOSTS[0], 0, 0, its)
    masters = SparkContext._gateway.new_array(jvm.java.lang.String, 1)  # type: ignore[union-attr]
    masters[0] = f"spark://{started._1().address().hostPort()}"
    for i, host in enumerate(_TWO_HOSTS):
        number, no_resources = jvm.scala.Option.apply(i), jvm.scala.Option.empty()
        deploy.worker.Worker.startRpcEnvAndEndpoint(
            host, 0, 0, 2, 1024, masters, str(folder), number, its, no_resources
        )
    return str(masters[0])
