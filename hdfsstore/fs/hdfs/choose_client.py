"""Chooses the client of HDFS: the one that is asked for, else libhdfs where it can be loaded, else hdfs-native."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from hdfsstore.errors import StateStoreError
from hdfsstore.fs.hdfs.client import HdfsClient
from hdfsstore.fs.hdfs.libhdfs_library import find_libhdfs, prepare_environment
from hdfsstore.fs.hdfs.settings import HdfsSettings


@dataclass(frozen=True, slots=True)
class Chosen:
    """A client of HDFS.

    Attributes:
        name: with its release, for people.
        make: makes one, for one process.
    """

    name: str
    make: Callable[[], HdfsClient]


def choose(settings: HdfsSettings) -> Chosen:
    """The client for these settings.

    Raises:
        StateStoreError: it is not installed.
    """
    if settings.client == "hdfs-native":
        return _hdfs_native(settings)
    library = find_libhdfs()
    if library is not None:
        return _libhdfs(settings)
    if settings.client is None:
        return _hdfs_native(settings)
    raise StateStoreError(
        "libhdfs cannot be loaded",
        settings.url,
        remedy="Set HADOOP_HOME or ARROW_LIBHDFS_DIR, JAVA_HOME and CLASSPATH, or use hdfs-native (docs/hdfs.md)",
    )


def _hdfs_native(settings: HdfsSettings) -> Chosen:
    from hdfsstore.fs.hdfs.native_client import NativeClient, native_name

    return Chosen(native_name(), lambda: NativeClient(settings))


def _libhdfs(settings: HdfsSettings) -> Chosen:
    from hdfsstore.fs.hdfs.libhdfs_client import LibhdfsClient

    def make() -> HdfsClient:
        prepare_environment()
        return LibhdfsClient(settings)

    return Chosen(f"libhdfs (pyarrow {pa.__version__})", make)
