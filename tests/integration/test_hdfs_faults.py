"""HdfsFileManager while HDFS fails: success after retries, or a typed error in time, and no torn or lost file."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from hdfsstore.errors import FileSystemTimeoutError, StateStoreError
from hdfsstore.fs.hdfs.hdfs_files import HdfsFileManager
from hdfsstore.fs.hdfs.settings import ClientName
from tests.integration.giving_up import check_that_it_ends
from tests.integration.hdfs_managers import content, manager
from tests.services.hdfs import Hdfs

LARGE = 20 << 20
# A call may take this much longer than its deadline on a busy machine.
SLACK_S = 30


def times_out(work: Callable[[], object], timeout_s: float) -> FileSystemTimeoutError:
    began = time.monotonic()
    with pytest.raises(FileSystemTimeoutError) as raised:
        work()
    assert time.monotonic() - began < timeout_s + SLACK_S
    return raised.value


@contextmanager
def under_way(work: Callable[[], object]) -> Iterator[None]:
    """Runs the work while the block runs, and waits for it. It must succeed."""
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(work)
        yield
        running.result()


def test_a_frozen_name_node_is_a_timeout_and_no_hang(hdfs: Hdfs, client: ClientName) -> None:
    folder = f"/frozen-{client}"
    manager(hdfs, client=client).create(f"{folder}/file", [b"old"])  # a JVM takes its time to start
    files = manager(hdfs, client=client, timeout_s=2)
    hdfs.active.process.freeze()
    try:
        times_out(lambda: files.list_folder(folder), 2)
        times_out(lambda: files.replace(f"{folder}/file", [b"late"]), 2)
        times_out(lambda: files.open_file(f"{folder}/file"), 2)
        times_out(lambda: files.delete([f"{folder}/deleted"]), 2)
        assert times_out(lambda: files.delete([f"{folder}/deleted"]), 2).tries == 0
    finally:
        hdfs.active.process.thaw()
    assert content(manager(hdfs, client=client), f"{folder}/file") == b"old"
    manager(hdfs, client=client).replace(f"{folder}/file", [b"new"])
    assert content(files, f"{folder}/file") == b"new"


def test_a_process_that_has_given_up_on_a_frozen_name_node_ends(hdfs: Hdfs, client: ClientName) -> None:
    options = {**hdfs.client_conf, "client": client}
    check_that_it_ends(hdfs.active.process, hdfs.uri(f"given-up-on-{client}"), options)


def test_calls_go_on_when_the_name_node_starts_again(hdfs: Hdfs, client: ClientName) -> None:
    folder = f"/restart-{client}"
    files = manager(hdfs, client=client)
    files.create(f"{folder}/old", [b"old"])
    hdfs.active.stop()
    with (
        under_way(lambda: files.create(f"{folder}/new", [b"new"])),
        under_way(lambda: files.replace(f"{folder}/old", [b"newer"])),
        under_way(lambda: files.file_infos([f"{folder}/old"])),
    ):
        hdfs.start_namenode()
    assert [info.base_name for info in files.list_folder(folder)] == ["new", "old"]
    assert content(files, f"{folder}/old") == b"newer"
    assert files.requests.snapshot().retries > 0


def test_a_name_node_that_stays_away_is_a_timeout(hdfs: Hdfs) -> None:
    files = manager(hdfs, timeout_s=3)
    hdfs.active.stop()
    try:
        times_out(lambda: files.create("/away", [b""]), 3)
    finally:
        hdfs.start_namenode()


def test_safe_mode(hdfs: Hdfs, client: ClientName) -> None:
    folder = f"/safe-{client}"
    manager(hdfs, client=client).create(f"{folder}/old", [b"old"])
    files = manager(hdfs, client=client, timeout_s=3)
    hdfs.safe_mode(True)
    try:
        error = times_out(lambda: files.replace(f"{folder}/old", [b"new"]), 3)
        assert "safe mode" in str(error)
        assert content(files, f"{folder}/old") == b"old"
        with under_way(lambda: manager(hdfs, client=client).create(f"{folder}/new", [b"new"])):
            hdfs.safe_mode(False)
    finally:
        hdfs.safe_mode(False)
    assert content(files, f"{folder}/new") == b"new"


def create_three(files: HdfsFileManager, folder: str) -> None:
    for number in range(3):
        files.create(f"{folder}/{number}", [b"new"])


@pytest.mark.parametrize(("kind", "limit"), [("Quota", "3"), ("SpaceQuota", "1k")])
def test_a_quota_leaves_the_old_file(hdfs: Hdfs, client: ClientName, kind: str, limit: str) -> None:
    files = manager(hdfs, client=client)
    folder = f"/{kind}-{client}"
    files.create(f"{folder}/old", [b"old"])
    hdfs.active.run("dfsadmin", f"-set{kind}", limit, folder)
    try:
        with pytest.raises(StateStoreError, match="raise the quota"):
            create_three(files, folder)
        with pytest.raises(StateStoreError, match="QuotaExceededException"):
            files.replace(f"{folder}/old", [b"new"])
    finally:
        hdfs.active.run("dfsadmin", f"-clr{kind}", folder)
    assert content(files, f"{folder}/old") == b"old"
    assert all(len(content(files, info.path)) == 3 for info in files.list_folder(folder))
    files.replace(f"{folder}/old", [b"new"])


def test_a_data_node_is_lost(hdfs: Hdfs, client: ClientName) -> None:
    """Files are read from the other one and written to it, and the first gets its replicas when it comes back."""
    folder = f"/lost-{client}"
    files = manager(hdfs, client=client)
    large = b"large" * (LARGE // 5)
    files.create(f"{folder}/large", [large])
    file = files.open_file(f"{folder}/large")
    block = bytearray(LARGE)
    read = file.readinto(memoryview(block)[:100])
    hdfs.datanodes[0].stop()
    try:
        read += file.readinto(memoryview(block)[100:])
        assert (read, block) == (LARGE, large)
        files.create(f"{folder}/new", [b"new" * 100_000])
        assert content(files, f"{folder}/new") == b"new" * 100_000
    finally:
        hdfs.datanodes[0].start()
    assert hdfs.active.run("fs", "-stat", "%r", f"hdfs://{hdfs.authority}{folder}/new") == "2"


def test_all_data_nodes_are_lost_and_come_back(hdfs: Hdfs) -> None:
    files = manager(hdfs)
    large = b"large" * (LARGE // 5)
    files.create("/all-lost/large", [large])
    for node in hdfs.datanodes:
        node.stop()
    try:
        times_out(lambda: manager(hdfs, timeout_s=3).create("/all-lost/failed", [b"new"]), 3)
        times_out(lambda: content(manager(hdfs, timeout_s=3), "/all-lost/large"), 3)
    finally:
        with under_way(lambda: files.create("/all-lost/new", [b"new"])):
            for node in hdfs.datanodes:
                node.start()
    assert content(files, "/all-lost/large") == large
    assert content(files, "/all-lost/new") == b"new"
    assert not [info for info in files.list_folder("/all-lost") if info.base_name == "failed"]


def test_a_pair_fails_over_under_writers(hdfs_ha: Hdfs, client: ClientName) -> None:
    """What was reported as created is there, once, after two failovers; one of them from a frozen NameNode."""
    folder = f"/pair-{client}"
    files = manager(hdfs_ha, client=client)
    files.create(f"{folder}/first", [b"first"])
    created: list[str] = []
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set() or number < 20:
            files.create(f"{folder}/{number:05}", [b"%d" % number])
            created.append(f"{number:05}")
            number += 1

    with under_way(write):
        hdfs_ha.fail_over()
        hdfs_ha.active.process.freeze()
        hdfs_ha.fail_over()
        stop.set()
    listed = [info.base_name for info in files.list_folder(folder) if not info.base_name.startswith(".")]
    assert listed == [*created, "first"]
    assert content(files, f"{folder}/{created[-1]}") == b"%d" % (len(created) - 1)
