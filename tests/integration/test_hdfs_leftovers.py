"""What a killed writer has left on HDFS, also while it is under construction: known by its name, deleted after a grace
period by the clock of HDFS."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import hdfs_native
import pytest

import hdfsstore
from hdfsstore.fs.hdfs.hdfs_files import HdfsFileManager
from hdfsstore.fs.publish import remove_leftovers
from hdfsstore.fs.temporary_names import TEMPORARY_NAME
from tests.integration.hdfs_managers import content, manager
from tests.services.hdfs import Hdfs
from tests.support.partition import read, state_after, write_chain

DAY_S = 24 * 3600
_WRITER = """
import os, signal, sys
from hdfsstore.fs.hdfs.hdfs_files import HdfsFileManager
from hdfsstore.fs.hdfs.settings import HdfsSettings

authority, path = sys.argv[1:]
def half():
    yield bytes(20 << 20)
    os.kill(os.getpid(), signal.SIGKILL)
HdfsFileManager(HdfsSettings.of(authority, {}, client="hdfs-native")).create(path, half())
"""


@pytest.fixture
def files(hdfs: Hdfs) -> HdfsFileManager:
    return manager(hdfs)


@pytest.fixture
def killed_writer(hdfs: Hdfs, files: HdfsFileManager) -> Callable[[str], str]:
    """Leaves half a file, and returns its path."""

    def kill(path: str) -> str:
        folder, _, name = path.rpartition("/")
        subprocess.run([sys.executable, "-c", _WRITER, hdfs.authority, path], capture_output=True, timeout=120)
        matches = (TEMPORARY_NAME.fullmatch(info.base_name) for info in files.list_folder(folder))
        (left,) = [match[0] for match in matches if match and match["name"] == name]
        assert f"{folder}/{left}" in hdfs.active.run("dfsadmin", "-listOpenFiles", "-path", folder)
        return f"{folder}/{left}"

    return kill


def names(files: HdfsFileManager, folder: str) -> list[str]:
    return [info.base_name for info in files.list_folder(folder)]


def test_half_a_file_is_in_nobodys_way_and_deleted_after_a_day_by_the_clock_of_hdfs(
    hdfs: Hdfs,
    files: HdfsFileManager,
    killed_writer: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = "/left/hdfsstore/offsets"
    left = killed_writer(f"{folder}/7")
    files.create(f"{folder}/7", [b"whole"])

    def clean_up() -> list[str]:
        remove_leftovers(files, folder, files.list_folder(folder))
        return names(files, folder)

    both = [left.rpartition("/")[2], "7"]
    now = time.time() + 2 * DAY_S
    with monkeypatch.context() as clock:
        clock.setattr(time, "time", lambda: now)
        clock.setattr(time, "time_ns", lambda: int(now * 1e9))
        assert clean_up() == both
    client = hdfs_native.Client(f"hdfs://{hdfs.authority}")
    yesterday = files.now_ns(folder) // 1_000_000 - DAY_S * 1000
    client.set_times(left, yesterday + 60_000, yesterday)
    assert clean_up() == both
    client.set_times(left, yesterday - 1000, yesterday)
    assert clean_up() == ["7"]
    assert content(files, f"{folder}/7") == b"whole"


def test_maintenance_deletes_half_a_file_with_its_version(
    files: HdfsFileManager, killed_writer: Callable[[str], str], tmp_path: Path
) -> None:
    root = "/left/state"
    conf = hdfsstore.StateStoreConf(
        local_dir=str(tmp_path),
        maintenance_interval=0,
        min_deltas_for_snapshot=2,
        min_versions_to_retain=2,
    )
    with hdfsstore.open_provider(hdfsstore.StateStoreId((files, root), 0, 0), conf=conf) as provider:
        first = write_chain(provider, 2)[-1]
        folder = f"{root}/0/0"
        (old,) = [name for name in names(files, folder) if name.startswith("2_")]
        left = killed_writer(f"{folder}/{old}")
        last = write_chain(provider, 2, first)[-1]
        provider.do_maintenance()
        assert left in [info.path for info in files.list_folder(folder)]  # version 2 may still be read
        last = write_chain(provider, 4, last)[-1]
        for _ in range(3):
            provider.do_maintenance()
        assert not [name for name in names(files, folder) if name.startswith((".2_", "2_"))]
        assert read(provider, last) == state_after(8)
    assert not any(map(TEMPORARY_NAME.fullmatch, names(files, folder)))
