"""Repairs of checkpoints on HDFS and S3: new ones, those in place with their undo, kills of both, and verify."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import count
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
from hdfsstore.repair.verify import verify
from tests.integration.killed_repair import KILLED, WHENS
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


# Each n-th call that writes is one at which a process is killed.
STEP = 9
SOME = pytest.mark.parametrize(
    ("remote", "case"), [("hdfs", "rocksdb_unique_ids"), ("minio", "aggregation")], indirect=True
)


def kills(remote: Place, partitions: int | None) -> Iterator[str]:
    """Kills a repartition in place, or an undo, at each STEP-th call that writes. It goes on from what the caller left.

    The last one is not killed.
    """
    for number, at in enumerate(count(1, STEP)):
        when = WHENS[number % len(WHENS)]
        job = {
            "uri": f"{remote.uri}/old",
            "storage_options": remote.storage_options,
            "partitions": partitions,
            "at": at,
            "when": when,
        }
        command = [sys.executable, "-m", "tests.integration.killed_repair"]
        ran = subprocess.run(command, input=json.dumps(job), capture_output=True, text=True, check=False)
        if ran.returncode == 0:
            return
        assert ran.returncode == KILLED, ran.stderr
        yield f"{when} call {at}"


@SOME
def test_a_repartition_in_place_is_killed(remote: Place) -> None:
    root, options = f"{remote.uri}/old", {"storage_options": remote.storage_options}
    old = content(remote.files, f"{remote.path}/old")
    partition = ["partition_id"]
    rows = counted(Checkpoint(root, **options).read_state().drop_columns(partition))
    seen: Counter[str] = Counter()
    for number, what in enumerate(kills(remote, 3)):
        there = Checkpoint(root, **options)
        kind = "guarded" if there.repair is not None else "new" if there.batches[-1].num_partitions == 3 else "old"
        seen[kind] += 1
        if kind == "old":
            assert content(remote.files, f"{remote.path}/old") == old, what
        if kind != "new" and (number % 2 or kind == "old"):
            repartition(root, None, 3, **options)
        if number % 2 or kind != "guarded":
            there = Checkpoint(root, **options)
            assert there.operator().store().num_partitions == 3, what
            assert counted(there.read_state().drop_columns(partition)) == rows, what
            assert verify(root, **options).sound, what
        undo(root, **options)
        assert content(remote.files, f"{remote.path}/old") == old, what
    assert seen["guarded"] > 1


@SOME
def test_an_undo_is_killed(remote: Place) -> None:
    root, options = f"{remote.uri}/old", {"storage_options": remote.storage_options}
    old = content(remote.files, f"{remote.path}/old")
    repartition(root, None, 3, **options)
    for what in kills(remote, None):
        if Checkpoint(root, **options).repair is not None or content(remote.files, f"{remote.path}/old") != old:
            undo(root, **options)
        assert content(remote.files, f"{remote.path}/old") == old, what
        repartition(root, None, 3, **options)
    assert content(remote.files, f"{remote.path}/old") == old


def test_verify_finds_damage(remote: Place) -> None:
    root, files, options = f"{remote.uri}/old", remote.files, {"storage_options": remote.storage_options}
    found = verify(root, **options)
    assert found.sound
    assert found.files
    newest = Checkpoint(root, **options).latest_batch_id + 1
    names = [info.base_name for info in files.list_folder(f"{remote.path}/old/state/0/0")]
    delta = next(name for name in names if name.startswith(str(newest)) and name.endswith(("delta", "changelog")))
    state = RemotePath(files, f"{remote.path}/old/state/0/0/{delta}")
    source, whole = RemotePath(files, f"{remote.path}/old/sources/0/1"), state.read_bytes()
    state.write_bytes(whole[: len(whole) // 2] + b"?" + whole[len(whole) // 2 + 1 :])
    files.delete([f"{remote.path}/old/sources/0/1"])
    findings = verify(root, **options).findings
    assert [(each.kind, each.batches) for each in findings] == [
        ("MissingFileError", ()),
        ("CorruptFileError", (newest - 1,)),
    ]
    assert (findings[0].path or "").endswith("old/sources/0/1")
    assert (findings[1].path or "").endswith(f"old/state/0/0/{delta}")
    assert source.name in str(findings[0])
