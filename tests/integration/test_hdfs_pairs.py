"""HDFS through a pair (pyarrow FileSystem, path): one of many racers for a name wins, or nobody promises that. Files
appear whole, and are deleted."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fsspec.implementations.arrow import ArrowFSWrapper
from hdfs_native.fsspec import HdfsFileSystem
from pyarrow.fs import FSSpecHandler, HadoopFileSystem, PyFileSystem, SubTreeFileSystem

from hdfsstore.errors import NotPromisedError, StateStoreError
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.hdfs.libhdfs_library import prepare_environment
from hdfsstore.fs.location import resolve
from hdfsstore.fs.reading import read_file
from hdfsstore.spark.querylog.fence import check_fence
from tests.integration.hdfs_managers import check_is_refused
from tests.services.hdfs import Hdfs

ROUNDS, RACERS = 200, 8


def test_one_of_many_racers_creates_a_file(hdfs: Hdfs) -> None:
    handed: Any = HdfsFileSystem("127.0.0.1", hdfs.rpc_ports[0])
    folder = "/pairs"
    files: FileManager = resolve((PyFileSystem(FSSpecHandler(handed)), folder))[0]
    assert files.promises.create_if_absent
    together = threading.Barrier(RACERS)
    won: list[list[int]] = [[] for _ in range(ROUNDS)]

    def race(racer: int) -> None:
        for number, winners in enumerate(won):
            together.wait(60)
            try:
                files.create(f"{folder}/{number}", [b"%d" % racer])
            except FileExistsError:
                continue
            winners.append(racer)

    with ThreadPoolExecutor(RACERS) as pool:
        list(pool.map(race, range(RACERS)))
    assert [len(winners) for winners in won] == [1] * ROUNDS
    assert [read_file(files, f"{folder}/{number}") for number in range(ROUNDS)] == [b"%d" % one for [one] in won]
    assert len(files.list_folder(folder)) == ROUNDS  # the others have deleted what they wrote
    check_whole(files, folder)


@pytest.mark.parametrize("of_folder", [False, True])
def test_a_forked_child_gets_an_error(hdfs: Hdfs, of_folder: bool) -> None:
    """That of pyarrow's HadoopFileSystem is in libhdfs_forks.py."""
    whole = PyFileSystem(FSSpecHandler(HdfsFileSystem("127.0.0.1", hdfs.rpc_ports[0])))
    pair = SubTreeFileSystem("/", whole) if of_folder else whole, "/forked-pairs"
    files = resolve(pair)[0]
    files.replace(f"{pair[1]}/file", [b"of the parent"])
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # ends it if it hangs
        status = 1
        try:
            for each in (files, resolve(pair)[0]):
                check_is_refused(each, pair[1])
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert read_file(files, f"{pair[1]}/file") == b"of the parent"


@pytest.mark.usefixtures("libhdfs")
def test_a_pair_of_hadoop_promises_no_race(hdfs: Hdfs) -> None:
    """pyarrow's move deletes the file of a racer who was quicker, so a driver's log is refused."""
    prepare_environment()
    fs = HadoopFileSystem("127.0.0.1", hdfs.rpc_ports[0], extra_conf=hdfs.client_conf)
    fs.create_dir("/of-hadoop")
    for name in ("mine", "theirs"):
        with fs.open_output_stream(f"/of-hadoop/{name}") as file:
            file.write(name.encode())
    fs.move("/of-hadoop/mine", "/of-hadoop/theirs")
    with fs.open_input_file("/of-hadoop/theirs") as file:
        assert file.read() == b"mine"
    for pair in ((fs, "/of-hadoop"), (PyFileSystem(FSSpecHandler(ArrowFSWrapper(fs))), "/of-hadoop")):
        assert not resolve(pair)[0].promises.create_if_absent
        with pytest.raises(NotPromisedError, match="two drivers"):
            check_fence(pair, single_driver=False)
        check_whole(*resolve(pair))


def check_whole(files: FileManager, folder: str) -> None:
    def half() -> Iterator[bytes]:
        yield bytes(5 << 20)
        raise KeyError("the content")

    with pytest.raises(KeyError):
        files.create(f"{folder}/whole/file", half())
    assert files.list_folder(f"{folder}/whole") == []
    files.create(f"{folder}/whole/file", [b"whole"])
    assert read_file(files, f"{folder}/whole/file") == b"whole"
    with pytest.raises(StateStoreError, match=f"{folder}/whole: it could not be deleted"):
        files.delete([f"{folder}/whole"])
    files.delete([f"{folder}/whole/{name}" for name in ("file", "missing")])
    assert files.list_folder(f"{folder}/whole") == []
