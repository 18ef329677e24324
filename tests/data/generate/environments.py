"""A virtual environment for each Spark version, kept in a cache folder."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Environment:
    """A Spark release, the Python it runs on and the packages it wants beside it."""

    spark: str
    python: str
    packages: tuple[str, ...] = ()
    cases: tuple[str, ...] = ()
    """The cases of old_spark.py that it writes: for the Sparks whose Python is too old for cases.py."""

    @property
    def folder(self) -> Path:
        return cache_folder() / f"spark-{self.spark}"

    @property
    def interpreter(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def jars(self) -> Path:
        """The folder of Spark's jars."""
        (jars,) = self.folder.glob("lib/python*/site-packages/pyspark/jars")
        return jars

    def create(self) -> None:
        """Makes the environment, unless a finished one is there."""
        done = self.folder / "ok"
        if done.exists():
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        subprocess.run([find_python(self.python), "-m", "venv", self.folder], check=True)
        pip = [self.interpreter, "-m", "pip", "install", "-q"]
        if self.cases:
            subprocess.run([*pip, "--upgrade", "pip", "setuptools", "wheel"], check=True)
        subprocess.run([*pip, f"pyspark=={self.spark}", *self.packages], check=True)
        done.touch()


OLD_CASES = ("aggregation", "drop_duplicates", "window_aggregation")
OLD_ROCKSDB_CASES = tuple(f"rocksdb_{name}" for name in (*OLD_CASES, "session_window", "self_join"))
ENVIRONMENTS = {
    environment.spark: environment
    for environment in (
        Environment("4.3.0", "3.11", ("pandas==2.3.3", "pyarrow==21.0.0", "numpy==2.2.6", "protobuf==6.33.5")),
        Environment("4.1.4", "3.11", ("pandas==2.2.3", "pyarrow==18.1.0", "numpy==1.26.4", "protobuf==6.33.5")),
        Environment("4.0.5", "3.11", ("pandas==2.2.3", "pyarrow==18.1.0", "numpy==1.26.4", "protobuf==5.28.3")),
        Environment("4.0.0", "3.11", ("pandas==2.2.3", "pyarrow==18.1.0", "numpy==1.26.4", "protobuf==5.28.3")),
        # 3.2.1 and 3.3.0 are the last of their lines that declare the input row as the value of dropDuplicates.
        Environment("3.3.0", "3.8", cases=("drop_duplicates",)),
        Environment("3.2.1", "3.8", cases=OLD_CASES + OLD_ROCKSDB_CASES),
        Environment("2.4.8", "3.7", cases=OLD_CASES),
        # In 2.1 dropDuplicates is an aggregation.
        Environment("2.1.3", "3.6", cases=("aggregation", "window_aggregation")),
        Environment("3.5.9", "3.11", ("pandas==2.1.4", "pyarrow==14.0.2", "numpy==1.26.4", "setuptools<81")),
    )
}
NEWEST = "4.3.0"


def cache_folder() -> Path:
    """HDFSSTORE_CACHE, else ~/.cache/hdfsstore."""
    return Path(os.environ.get("HDFSSTORE_CACHE") or Path.home() / ".cache" / "hdfsstore")


def find_python(version: str) -> str:
    """A Python of that minor version: on PATH as pythonX.Y, or one of pyenv's."""
    for pyenv in sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python")):
        return str(pyenv)
    found = shutil.which(f"python{version}")
    if found:
        return found
    raise FileNotFoundError(f"Python {version} is needed: put python{version} on PATH or install it with pyenv")
