"""One live Spark for the whole run: the oracle that the tests in this folder compare us with."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
OLDEST_JAVA = 17


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker("spark")


def java_version(java: str | Path) -> int:
    """The major version of a java command; 0 where it does not run."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, check=True, timeout=60).stderr
    except (OSError, subprocess.SubprocessError):
        return 0
    # openjdk version "17.0.15"; Java 8 and older call themselves "1.8.0" and so on.
    found = re.search(r'version "(\d+)', said)
    return int(found[1]) if found else 0


def use_java(environ: pytest.MonkeyPatch) -> None:
    """Sees to it that Spark starts on Java 17 or newer: JAVA_HOME's, else the one on PATH."""
    home = os.environ.get("JAVA_HOME")
    if home and java_version(Path(home, "bin", "java")) >= OLDEST_JAVA:
        return
    on_path = shutil.which("java")
    if on_path and java_version(on_path) >= OLDEST_JAVA:
        environ.delenv("JAVA_HOME", raising=False)
        return
    pytest.fail(
        f"The tests marked spark need Java {OLDEST_JAVA} or newer; JAVA_HOME is {home!r} and the java on PATH is "
        f"{on_path!r}. Install it (make test does so when it runs as root) or point JAVA_HOME at it.",
        pytrace=False,
    )


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
            .config("spark.driver.extraJavaOptions", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Duser.timezone=UTC")
            .config("spark.local.dir", str(folder / "local"))
            .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.shuffle.partitions", 2)
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("ERROR")
        yield session
        session.stop()
