"""The Spark session that writes and reads the checkpoints."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from pyspark.sql import SparkSession

PARTITIONS = 2
SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"


def start(folder: Path, class_path: Path | None, confs: dict[str, str]) -> SparkSession:
    """A session in UTC with two threads and two shuffle partitions; its own files go to folder."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.extraJavaOptions", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Duser.timezone=UTC")
        .config("spark.local.dir", str(folder / "local"))
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.sql.session.timeZone", "UTC")
        .config(SHUFFLE_PARTITIONS, str(PARTITIONS))
    )
    if class_path:
        builder = builder.config("spark.driver.extraClassPath", str(class_path))
    for name, value in confs.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def unset(spark: SparkSession, confs: Iterable[str]) -> None:
    """Puts confs back to what they were at the start."""
    for name in confs:
        spark.conf.unset(name)
    spark.conf.set(SHUFFLE_PARTITIONS, str(PARTITIONS))
