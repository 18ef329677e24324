"""Many stores of a process on one client, on real servers: loads side by side, metrics, a fork after use."""

from __future__ import annotations

import os
import signal
import threading
import uuid
from dataclasses import replace
from pathlib import Path

import pytest
from pyarrow.fs import FileSystem

import hdfsstore
from hdfsstore import StateStoreId
from hdfsstore.state.protocols import StateStoreProvider
from tests.integration import s3_managers
from tests.services.hdfs import Hdfs
from tests.services.minio import Minio
from tests.support.partition import EMPTY, Ref, read, state_after, write_chain

PARTITIONS = 50


@pytest.fixture(params=["hdfs", "s3"])
def root(request: pytest.FixtureRequest) -> StateStoreId:
    """Partition 0 of an operator on a server, by its URI."""
    folder = f"{uuid.uuid4()}/state"
    if request.param == "hdfs":
        hdfs: Hdfs = request.getfixturevalue("hdfs")
        options = {**hdfs.client_conf, "client": "hdfs-native"}
        return StateStoreId(hdfs.uri(folder), 0, 0, storage_options=options)
    minio: Minio = request.getfixturevalue("minio")
    uri = f"s3a://{s3_managers.BUCKET}/{folder}"
    return StateStoreId(uri, 0, 0, storage_options=minio.storage_options())


def provider(store_id: StateStoreId, local: Path, partition_id: int = 0) -> StateStoreProvider:
    conf = hdfsstore.StateStoreConf(local_dir=str(local), maintenance_interval=0, min_deltas_for_snapshot=3)
    return hdfsstore.open_provider(replace(store_id, partition_id=partition_id), conf=conf)


def test_many_partitions_share_a_client(root: StateStoreId, tmp_path: Path) -> None:
    ends: dict[int, Ref] = {}
    threads_before = threading.active_count()

    def write(partition_id: int) -> None:
        with provider(root, tmp_path / "one", partition_id) as opened:
            ends[partition_id] = write_chain(opened, 3)[-1]
            opened.do_maintenance()
            ends[partition_id] = write_chain(opened, 2, ends[partition_id])[-1]

    def check(partition_id: int) -> None:
        with provider(root, tmp_path / "two", partition_id) as opened:
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
    first, *others = (replace(root, partition_id=partition_id).open()[0] for partition_id in range(PARTITIONS))
    assert all(files is first for files in others)
    # Those that wait for the next call (hdfsstore/fs/threads.py), and what the clients keep.
    assert threading.active_count() <= threads_before + 40


def test_a_forked_child_goes_on_with_a_client_of_its_own(root: StateStoreId, tmp_path: Path) -> None:
    with provider(root, tmp_path / "parent") as opened:
        chain = write_chain(opened, 4)
    of_parent, _ = root.open()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            assert root.open()[0] is not of_parent
            with provider(root, tmp_path / "child") as opened:
                assert read(opened, chain[-1]) == state_after(4)
                write_chain(opened, 1, chain[-1])
            status = 0
        finally:
            os._exit(status)
    with provider(root, tmp_path / "again") as opened:  # while the child is at work
        assert read(opened, chain[-1]) == state_after(4)
        assert read(opened, EMPTY) == {}
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_forked_child_goes_on_with_a_pair(minio: Minio, tmp_path: Path) -> None:
    files, path = FileSystem.from_uri(minio.uri(f"{s3_managers.BUCKET}/{uuid.uuid4()}/state"))
    with provider(StateStoreId((files, path), 0, 0), tmp_path / "parent") as opened:
        chain = write_chain(opened, 4)
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # ends it if it hangs
        status = 1
        try:
            again, _ = FileSystem.from_uri(minio.uri(s3_managers.BUCKET))
            for number, each in enumerate((files, again)):
                with provider(StateStoreId((each, path), 0, 0), tmp_path / f"child-{number}") as opened:
                    assert read(opened, chain[-1]) == state_after(4)
                    write_chain(opened, 1, chain[-1])
            status = 0
        finally:
            os._exit(status)
    for number in range(3):  # while the child is at work
        with provider(StateStoreId((files, path), 0, 0), tmp_path / f"again-{number}") as opened:
            assert read(opened, chain[-1]) == state_after(4)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
