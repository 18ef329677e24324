"""Finds libhdfs, the JVM that it needs, and the classes of Hadoop. Asks libhdfs for what pyarrow does not."""

from __future__ import annotations

import ctypes
import functools
import logging
import os
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

from hdfsstore.fs.hdfs.java_files import is_ready

log = logging.getLogger("hdfsstore.fs.hdfs")

_SECONDS = 60


def find_libhdfs() -> Path | None:
    """libhdfs.so, if it can be loaded. This starts no JVM.

    It is in ARROW_LIBHDFS_DIR or below HADOOP_HOME, as for pyarrow. It also needs a JVM and Hadoop's classes.
    """
    for folder in (os.environ.get("ARROW_LIBHDFS_DIR"), _below("HADOOP_HOME", "lib/native")):
        library = Path(folder) / "libhdfs.so" if folder else None
        if library is not None and library.is_file():
            return library if _loads(library) and classes() else None
    return None


def prepare_environment() -> None:
    """Sets CLASSPATH and JAVA_HOME of the process if they are not set: libhdfs takes them from there."""
    home, path = _java_home(), classes()
    if home is not None:
        os.environ["JAVA_HOME"] = str(home)
    if path is not None:
        os.environ["CLASSPATH"] = path


def last_exception() -> str | None:
    """What Java said when a call of libhdfs last failed in this thread; None: nothing, or libhdfs is older than 3.0."""
    library = find_libhdfs()
    # In other threads libhdfs would read memory that it has given back, or never had.
    if library is None or not is_ready():
        return None
    function = getattr(ctypes.CDLL(str(library)), "hdfsGetLastExceptionStackTrace", None)
    if function is None:
        return None
    function.restype = ctypes.c_char_p
    trace: bytes | None = function()
    return trace.decode(errors="replace") if trace else None


def _loads(library: Path) -> bool:
    home = _java_home()
    machines = () if home is None else (home / "lib/server", *home.glob("jre/lib/*/server"), *home.glob("lib/*/server"))
    for folder in machines:
        if (folder / "libjvm.so").is_file():
            try:
                ctypes.CDLL(str(folder / "libjvm.so"))
                ctypes.CDLL(str(library))
            except OSError as error:
                log.debug("libhdfs is not used: %s", error)
                return False
            return True
    return False


@functools.cache
def classes() -> str | None:
    """The class path with Hadoop's client: the user's, else Hadoop's own, else that of Spark."""
    return os.environ.get("CLASSPATH") or _hadoopclasses() or _classes_of_spark()


def _hadoopclasses() -> str | None:
    """What `hadoop classpath --glob` says."""
    command = _below("HADOOP_HOME", "bin/hadoop") or shutil.which("hadoop")
    if command is None or not Path(command).is_file():
        return None
    call = [str(command), "classpath", "--glob"]
    try:
        done = subprocess.run(call, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        log.warning(f"{command} does not say where Hadoop's classes are: {error}")
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _classes_of_spark() -> str | None:
    spec = find_spec("pyspark")
    # A worker of Spark imports PySpark from a zip file, which has no jars beside it.
    homes = [os.environ.get("SPARK_HOME"), Path(spec.origin).parent if spec is not None and spec.origin else None]
    for home in homes:
        jars = sorted(map(str, Path(home, "jars").glob("*.jar"))) if home else []
        if jars:
            conf = os.environ.get("HADOOP_CONF_DIR")
            return os.pathsep.join([conf, *jars] if conf else jars)
    return None


def _java_home() -> Path | None:
    home = os.environ.get("JAVA_HOME")
    if home:
        return Path(home)
    java = shutil.which("java")
    return None if java is None else Path(java).resolve().parents[1]


def _below(variable: str, path: str) -> str | None:
    folder = os.environ.get(variable)
    return f"{folder}/{path}" if folder else None
