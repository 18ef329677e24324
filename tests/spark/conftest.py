"""One live Spark for the whole run: the oracle that the tests in this folder compare us with."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.services import java
from tests.spark.support.java import use_java
from tests.spark.support.repairs import Wholes

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
# It gets other Sparks, which takes minutes and a gigabyte: `make test-all` runs it.
collect_ignore = [] if os.environ.get("HDFSSTORE_REPAIR_MATRIX") else ["test_repair_other_sparks.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker("spark")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A SparkSession with two local threads, UTC, and ANSI mode as Spark has it by default.

    All tests share it: a test that sets a conf sets it back.
    """
    folder = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as environ:
        use_java(environ)
        environ.setenv("PYSPARK_PYTHON", sys.executable)
        environ.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
        environ.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        # Spark's workers import the modules that hold the tests' functions.
        environ.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]))
        session = (
            SparkSession.builder.master("local[2]")
            .appName("hdfsstore tests")
            .config("spark.ui.enabled", False)
            .config("spark.ui.showConsoleProgress", False)
            .config("spark.driver.memory", "1g")
            .config("spark.driver.extraJavaOptions", " ".join([*java.QUICK_START, "-Duser.timezone=UTC"]))
            .config("spark.local.dir", str(folder / "local"))
            .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.shuffle.partitions", 2)
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("ERROR")
        yield session
        session.stop()


@pytest.fixture(scope="session")
def wholes(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Wholes:
    """Queries that were never stopped; each runs once."""
    return Wholes(spark, tmp_path_factory.mktemp("repairs"))
