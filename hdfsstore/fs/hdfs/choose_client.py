"""Chooses the client of HDFS."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hdfsstore.fs.file_manager import Promises
from hdfsstore.fs.hdfs.client import HdfsClient
from hdfsstore.fs.hdfs.settings import HdfsSettings


@dataclass(frozen=True, slots=True)
class Chosen:
    """A client of HDFS.

    Attributes:
        name: with its release, for people.
        promises: what HdfsFileManager keeps with it.
        make: makes one, for one process.
    """

    name: str
    promises: Promises
    make: Callable[[], HdfsClient]


def choose(settings: HdfsSettings) -> Chosen:
    from hdfsstore.fs.hdfs.native_client import NativeClient, native_name

    promises = Promises(create_if_absent=True, atomic_replace=True, versioned_reads=True, tested=True)
    return Chosen(native_name(), promises, lambda: NativeClient(settings))
