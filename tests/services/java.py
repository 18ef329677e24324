"""Java, the jars of PySpark, and more jars through Spark's own Ivy."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.services.missing import ServiceMissingError

_DOWNLOAD_SECONDS = 600
# Options of JVMs that live for a minute: no compiler that pays off later.
QUICK_START = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
# Settings of Spark for tiny plans, each run once or twice: no code is generated for them.
TINY_PLANS = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


@functools.cache
def _spark() -> Path:
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise ServiceMissingError("The tests on HDFS need PySpark, which has Hadoop's jars")
    return Path(found.origin).parent


def executable() -> str:
    """The command java.

    Raises:
        ServiceMissingError: there is none.
    """
    home = os.environ.get("JAVA_HOME")
    found = f"{home}/bin/java" if home else shutil.which("java")
    if found is None:
        raise ServiceMissingError("The tests on HDFS need Java 17 or newer on PATH or in JAVA_HOME")
    return found


def spark_jars() -> Path:
    """The folder with PySpark's jars."""
    return _spark() / "jars"


def spark_jar(name: str) -> Path:
    """The jar of PySpark with that name before its version."""
    (found,) = spark_jars().glob(f"{name}-[0-9]*.jar")
    return found


def hadoop_version() -> str:
    """The version of Hadoop that PySpark brings."""
    return spark_jar("hadoop-client-api").stem.removeprefix("hadoop-client-api-")


def download(folder: Path, packages: Sequence[str], excludes: Sequence[str]) -> None:
    """Puts the jars of Maven packages (group:artifact:version), and of all that they need, into a folder.

    They come from where Spark's `spark.jars.packages` gets them; Ivy compares their checksums.

    Raises:
        ServiceMissingError: they cannot be had.
    """
    executable()
    ivy = folder / "ivy"
    command = [
        str(_spark() / "bin" / "spark-submit"),
        *("--master", "local", "--packages", ",".join(packages)),
        *("--conf", f"spark.jars.ivy={ivy}"),
        *("--conf", f"spark.jars.excludes={','.join(excludes)}"),
        # What runs once the packages are there: a main that prints a line.
        *("--class", "org.apache.ivy.Main", "spark-internal", "-version"),
    ]
    environ = {**os.environ, "SPARK_HOME": str(_spark()), "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        command,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_DOWNLOAD_SECONDS,
    )
    if done.returncode:
        raise ServiceMissingError(f"Spark could not download {', '.join(packages)}:\n{done.stdout[-2000:]}")
    for jar in (ivy / "jars").iterdir():
        jar.rename(folder / jar.name)
    shutil.rmtree(ivy)
