"""Deltas on the local disk, where the checkpoint is on another filesystem than the local disk."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from hdfsstore import StateStoreId
from hdfsstore.state.hdfs.provider import HdfsStateStoreProvider
from hdfsstore.state.store_schema import StoreSchema
from tests.support.fsspec_folder import Folder
from tests.support.partition import BY_HAND, EMPTY, Partition, read
from tests.unit.state.hdfs.executors import chain, commit, path_of, rows_at


class Executors(Partition):
    """Workers of a stateful query, to whom the checkpoint is not on the local disk."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        files = Folder(root)
        self.store_id = StateStoreId((files.filesystem, "state"), operator_id=0, partition_id=3)

    def worker(self, host: str = "host") -> HdfsStateStoreProvider:
        conf = dataclasses.replace(BY_HAND, local_dir=str(self.root / host))
        provider = HdfsStateStoreProvider(self.store_id, conf, StoreSchema(), shared_across_workers=True)
        self._opened.append(provider)
        return provider

    def deltas(self, host: str = "host") -> list[Path]:
        return sorted((self.root / host).glob("*/*.delta"))


@pytest.fixture
def executors(tmp_path: Path) -> Iterator[Executors]:
    partition = Executors(tmp_path)
    yield partition
    partition.close()


def test_a_worker_reads_what_others_of_its_host_have_committed(executors: Executors) -> None:
    one, other = executors.worker(), executors.worker()
    last = chain(one, 2)[-1]
    assert read(other, last) == rows_at(2)
    for number in range(2, 8):  # in turns
        path_of(executors, last).rename(path_of(executors, last).with_suffix(".aside"))  # the checkpoint's is not read
        last = commit(other if number % 2 == 0 else one, last)
    assert read(one, last) == rows_at(8)


def test_a_lineage_is_read_from_the_local_delta(executors: Executors) -> None:
    """Retention asks for lineages of versions that others have committed."""
    one, other = executors.worker(), executors.worker()
    versions = chain(one, 3)
    path_of(executors, versions[3]).unlink()
    assert list(other._loader._reader.lineage(versions[3])) == versions[1:3]


def test_a_worker_of_another_host_reads_the_checkpoint(executors: Executors) -> None:
    versions = chain(executors.worker(), 3)
    assert read(executors.worker("elsewhere"), versions[3]) == rows_at(3)
    assert executors.deltas("elsewhere") == []


def test_without_its_local_delta_a_version_is_read_from_the_checkpoint(executors: Executors) -> None:
    one, other = executors.worker(), executors.worker()
    base = chain(one, 2)
    assert read(other, base[2]) == rows_at(2)
    last = chain(one, 3, base[2])[-1]
    gone, damaged, killed = executors.deltas()[-3:]
    gone.unlink()
    content = damaged.read_bytes()
    damaged.unlink()
    damaged.write_bytes(content[:-7])
    damaged.chmod(0o400)
    killed.chmod(0o600)
    assert read(other, last) == rows_at(5)


def test_a_commit_that_fails_leaves_no_local_delta(executors: Executors) -> None:
    worker = executors.worker()
    last = chain(worker, 1)[-1]
    kept = executors.deltas()
    folder = executors.folder
    folder.rename(folder.with_name("aside"))
    folder.write_text("in the way")
    with pytest.raises(Exception, match="3"):
        commit(worker, last)
    assert executors.deltas() == kept


def test_on_the_local_disk_there_are_none(tmp_path: Path) -> None:
    partition = Partition(tmp_path)
    chain(partition.open(shared_across_workers=True), 3, EMPTY)
    partition.close()
    assert list((tmp_path / "host").glob("*/*.delta")) == []
