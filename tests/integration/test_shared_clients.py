"""Many stores of a process on one client, on real servers: loads side by side, metrics, a fork after use."""

from __future__ import annotations

import os
import signal
import threading
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from pyarrow.fs import FileSystem

import hdfsstore
from hdfsstore.fs.clients import shared
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.state.protocols import StateStoreProvider
from tests.integration import hdfs_managers, s3_managers
from tests.services.hdfs import Hdfs
from tests.services.minio import Minio
from tests.support.partition import EMPTY, Ref, read, state_after, write_chain

PARTITIONS = 50


@pytest.fixture(params=["hdfs", "s3"])
def files(request: pytest.FixtureRequest) -> Callable[[], FileManager]:
    """The FileManager of this process for a server."""
    if request.param == "hdfs":
        hdfs: Hdfs = request.getfixturevalue("hdfs")
        return partial(shared, ("hdfs", hdfs.authority), partial(hdfs_managers.manager, hdfs))
    minio: Minio = request.getfixturevalue("minio")
    return partial(shared, s3_managers.settings(minio.port), partial(s3_managers.manager, minio.port))


@pytest.fixture
def root(files: Callable[[], FileManager]) -> str:
    folder = f"{uuid.uuid4()}/state"
    return f"/{folder}" if files().identity.startswith("hdfs:") else f"{s3_managers.BUCKET}/{folder}"


def provider(files: FileManager | FileSystem, root: str, local: Path, partition_id: int = 0) -> StateStoreProvider:
    conf = hdfsstore.StateStoreConf(local_dir=str(local), maintenance_interval=0, min_deltas_for_snapshot=3)
    return hdfsstore.open_provider(hdfsstore.StateStoreId((files, root), 0, partition_id), conf=conf)


def test_many_partitions_share_a_client(files: Callable[[], FileManager], root: str, tmp_path: Path) -> None:
    ends: dict[int, Ref] = {}
    threads_before = threading.active_count()

    def write(partition_id: int) -> None:
        with provider(files(), root, tmp_path / "one", partition_id) as opened:
            ends[partition_id] = write_chain(opened, 3)[-1]
            opened.do_maintenance()
            ends[partition_id] = write_chain(opened, 2, ends[partition_id])[-1]

    def check(partition_id: int) -> None:
        with provider(files(), root, tmp_path / "two", partition_id) as opened:
            assert read(opened, ends[partition_id]) == state_after(5)
            counted[partition_id] = opened.metrics["fsRequests"]

    counted: dict[int, int | float] = {}
    for work in (write, check):
        threads = [threading.Thread(target=work, args=[partition_id]) for partition_id in range(PARTITIONS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(counted) == PARTITIONS
    assert min(counted.values()) >= 3  # a snapshot and two deltas
    assert len({id(files()) for _ in range(10)}) == 1
    # Those that wait for the next call (hdfsstore/fs/threads.py), and what the clients keep.
    assert threading.active_count() <= threads_before + 40


def test_a_forked_child_goes_on_with_a_client_of_its_own(
    files: Callable[[], FileManager], root: str, tmp_path: Path
) -> None:
    with provider(files(), root, tmp_path / "parent") as opened:
        chain = write_chain(opened, 4)
    of_parent = id(files())
    child = os.fork()
    if child == 0:
        status = 1
        try:
            assert id(files()) != of_parent
            with provider(files(), root, tmp_path / "child") as opened:
                assert read(opened, chain[-1]) == state_after(4)
                write_chain(opened, 1, chain[-1])
            status = 0
        finally:
            os._exit(status)
    with provider(files(), root, tmp_path / "again") as opened:  # while the child is at work
        assert read(opened, chain[-1]) == state_after(4)
        assert read(opened, EMPTY) == {}
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_forked_child_goes_on_with_a_pair(minio: Minio, tmp_path: Path) -> None:
    files, root = FileSystem.from_uri(minio.uri(f"{s3_managers.BUCKET}/{uuid.uuid4()}/state"))
    with provider(files, root, tmp_path / "parent") as opened:
        chain = write_chain(opened, 4)
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # ends it if it hangs
        status = 1
        try:
            again, _ = FileSystem.from_uri(minio.uri(s3_managers.BUCKET))
            for number, each in enumerate((files, again)):
                with provider(each, root, tmp_path / f"child-{number}") as opened:
                    assert read(opened, chain[-1]) == state_after(4)
                    write_chain(opened, 1, chain[-1])
            status = 0
        finally:
            os._exit(status)
    for number in range(3):  # while the child is at work
        with provider(files, root, tmp_path / f"again-{number}") as opened:
            assert read(opened, chain[-1]) == state_after(4)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
