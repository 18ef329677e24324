"""Forks a process that has used libhdfs: `python -m ... <uri of a folder> <settings of Hadoop>`.

It leaves a client, a reader and a writer to be collected as garbage by its children. It prints how these have ended, 0
or -9 after a hang, and reads its file again.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import time
from collections.abc import Callable

import pytest
from fsspec.implementations.arrow import ArrowFSWrapper
from pyarrow.fs import FSSpecHandler, HadoopFileSystem, PyFileSystem, SubTreeFileSystem

from hdfsstore.errors import StateStoreError
from hdfsstore.fs.hdfs.libhdfs_client import LibhdfsClient
from hdfsstore.fs.hdfs.settings import HdfsSettings
from hdfsstore.fs.location import resolve
from hdfsstore.fs.reading import read_file
from tests.integration.hdfs_managers import check_is_refused

SOON_S = 30


def status_of(child: Callable[[], None]) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            child()
            os._exit(0)
        finally:
            os._exit(1)
    end = time.monotonic() + SOON_S
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.05)
    os.kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def leave_garbage(settings: HdfsSettings, path: str) -> None:
    client = LibhdfsClient(settings)
    writer = client.create(f"{path}.open", one_replica=False)
    writer.write(b"x")
    garbage: list[object] = [client, client.open(path), writer]
    garbage.append(garbage)


def main(uri: str, conf: dict[str, str]) -> None:
    files, folder = resolve(uri, {**conf, "client": "libhdfs"})
    path = f"{folder}/file"
    files.create(path, [b"of the parent"])
    gc.disable()
    leave_garbage(HdfsSettings.of(uri.split("/")[2], conf), path)

    def collects() -> None:
        assert gc.collect() > 0

    def same_client() -> None:
        with pytest.raises(StateStoreError, match="forked from one that has used libhdfs"):
            read_file(files, path)

    def new_client() -> None:
        anew, _ = resolve(uri, {**conf, "client": "libhdfs", "timeout": "30"})
        with pytest.raises(StateStoreError, match="Use hdfs-native"):
            anew.file_infos([path])

    def other_client() -> None:
        assert read_file(resolve(uri, {**conf, "client": "hdfs-native"})[0], path) == b"of the parent"

    host, port = uri.split("/")[2].split(":")
    hadoop = HadoopFileSystem(host, int(port), extra_conf=conf)
    of_fsspec = PyFileSystem(FSSpecHandler(ArrowFSWrapper(hadoop)))
    pairs = [(fs, folder) for fs in (hadoop, of_fsspec, SubTreeFileSystem("/", hadoop))]
    in_parent = [resolve(pair)[0] for pair in pairs]
    assert [read_file(each, path) for each in in_parent] == [b"of the parent"] * 3

    def pair() -> None:
        for each in (*in_parent, *(resolve(pair)[0] for pair in pairs)):
            check_is_refused(each, folder)

    def new_filesystem() -> None:
        with pytest.raises(StateStoreError, match="forked from one that has used Hadoop's own client"):
            resolve(uri.replace("hdfs", "viewfs", 1))

    children = (collects, same_client, new_client, other_client, pair, new_filesystem)
    print([status_of(child) for child in children])
    assert read_file(files, path) == b"of the parent"


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
