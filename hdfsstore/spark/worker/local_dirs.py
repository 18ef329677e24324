"""Choose the local folder for files of an application's queries: beside Spark's own local files on the host.

    who starts the executor   where its folders are named        who deletes them, however the executor ended
    YARN                      LOCAL_DIRS, comma                  the node manager, once the application has ended
    standalone's worker       SPARK_EXECUTOR_DIRS, path list     the worker, once the application has ended
    the driver, local mode    SparkFiles: <folder>/userFiles-*   the driver, when it ends; not when it is killed
    Kubernetes, others        SPARK_LOCAL_DIRS, comma            whoever deletes the pod's volumes
                              (a Python worker has the blockmgr-* folder in each of them)

This is the order in which Spark looks for them (Utils.getConfiguredLocalDirs). All executors of an application on a
host have one such folder.
"""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pyspark import SparkFiles

from hdfsstore.state.local.budget import is_in_memory


def local_dir(application_id: str) -> str | None:
    """The folder for images of an application; None where Spark's folders are not known. To be called in a task."""
    folders = _of_this_task()
    return str(Path(folders[0], f"hdfsstore-{os.geteuid()}-{application_id}")) if folders else None


def temporary_dir() -> str:
    """A folder for files without a name: any one of Spark's, if they are known. To be called in a task."""
    return random.choice(_of_this_task() or [tempfile.gettempdir()])


def _of_this_task() -> list[str]:
    """Spark's folders that are on a disk, or all where none is."""
    folders = spark_dirs(os.environ, SparkFiles.getRootDirectory())
    return [folder for folder in folders if not is_in_memory(folder)] or folders


def spark_dirs(environ: Mapping[str, str], files_root: str) -> list[str]:
    """Spark's folders on this host.

    Args:
        environ: of the Python worker, which has its executor's, but for SPARK_LOCAL_DIRS.
        files_root: SparkFiles.getRootDirectory(): absolute in local mode, and the working directory in executors.
    """
    if "CONTAINER_ID" in environ and environ.get("LOCAL_DIRS"):
        found = environ["LOCAL_DIRS"].split(",")
    elif environ.get("SPARK_EXECUTOR_DIRS"):
        found = environ["SPARK_EXECUTOR_DIRS"].split(os.pathsep)
    elif Path(files_root).is_absolute():
        found = [str(Path(files_root).parent)]
    else:
        found = [str(Path(blocks).parent) for blocks in environ.get("SPARK_LOCAL_DIRS", "").split(",") if blocks]
    return [folder for folder in found if folder and Path(folder).is_dir()]
