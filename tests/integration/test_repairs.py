"""Repairs of checkpoints on HDFS and S3: one that is killed and begun anew, and those in place with their undo."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyarrow.fs import FileType

from hdfsstore import Checkpoint
from hdfsstore.errors import RepairError, RepairUnderWayError
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.repair.backup import FOLDER
from hdfsstore.repair.edit import Edit
from hdfsstore.repair.undo import undo
from hdfsstore.repair.verbs import edit, fork, repartition
from tests.services.hdfs import Hdfs
from tests.services.minio import Minio
from tests.services.places import Place, on_hdfs, on_minio
from tests.support.remote_path import RemotePath
from tests.support.rows import counted
from tests.support.truth import DATA
from tests.unit.checkpoint.build import copy_to


@pytest.fixture(params=["aggregation", "rocksdb_unique_ids"])
def case(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(params=["hdfs", "minio"])
def remote(request: pytest.FixtureRequest, case: str, hdfs: Hdfs, minio: Minio) -> Place:
    """A copy of the checkpoint of a case."""
    place = on_hdfs(hdfs) if request.param == "hdfs" else on_minio(minio)
    copy_to(DATA / "spark-4.3.0" / case / "checkpoint", RemotePath(place.files, f"{place.path}/old"))
    return place


def content(files: FileManager, folder: str) -> dict[str, bytes]:
    """The files of a checkpoint by their paths, without the backups."""
    return {path: RemotePath(files, path).read_bytes() for path in below(files, folder) if f"/{FOLDER}/" not in path}


def below(files: FileManager, folder: str) -> Iterator[str]:
    for info in files.list_folder(folder):
        path = f"{folder}/{info.base_name}"
        yield from below(files, path) if info.type == FileType.Directory else [path]


def test_a_new_checkpoint(remote: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = f"{remote.uri}/old", f"{remote.uri}/new"
    options: dict[str, Any] = {"storage_options": remote.storage_options, "to_storage_options": remote.storage_options}

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("hdfsstore.repair.new_checkpoint.with_unique_ids", killed)
        with pytest.raises(KeyboardInterrupt):
            fork(old, new, batch_id=1, **options)
    with pytest.raises(RepairUnderWayError, match="a new checkpoint is being written"):
        Checkpoint(new, storage_options=remote.storage_options).read_state()
    fork(old, new, **options)
    source, copied = (Checkpoint(each, storage_options=remote.storage_options) for each in (old, new))
    assert copied.latest_batch_id == source.latest_batch_id
    assert counted(copied.read_state()) == counted(source.read_state())
    with pytest.raises(RepairError, match="nothing is written over"):
        fork(old, new, **options)


def test_in_place(remote: Place) -> None:
    root, files, options = f"{remote.uri}/old", remote.files, {"storage_options": remote.storage_options}
    before = content(files, f"{remote.path}/old")
    rows = Checkpoint(root, **options).read_state(unique_names=True)
    edit(root, None, Edit(rows=rows.slice(0, 2)), **options)
    put = content(files, f"{remote.path}/old")
    assert before.items() < put.items(), "nothing that was there is written"
    repartition(root, None, 3, **options)
    after = Checkpoint(root, **options)
    assert after.operator().store().num_partitions == 3
    partition = ["partition_id"]
    assert counted(after.read_state().drop_columns(partition)) == counted(rows.drop_columns(partition))
    undo(root, **options)
    assert content(files, f"{remote.path}/old") == put
    undo(root, **options)
    assert content(files, f"{remote.path}/old") == before
