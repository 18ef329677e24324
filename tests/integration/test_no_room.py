"""Storages on which nothing can be written: full disks, and rights to read alone. No version is lost or half there."""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

import hdfsstore
from hdfsstore.errors import StateStoreError
from hdfsstore.state.protocols import StateStoreProvider
from tests.integration.s3_managers import manager as s3_manager
from tests.services.fixtures import running
from tests.services.hdfs import Hdfs
from tests.services.minio import Minio
from tests.services.places import BUCKET, Place, on_hdfs, on_minio
from tests.support.partition import EMPTY, Ref, contents, write

TIMEOUT_S = 3.0
# A commit may take this much longer than the deadline of its calls on a busy machine.
SLACK_S = 30


@contextmanager
def full_disk(minio: Minio) -> Iterator[None]:
    """While no file of the server can grow."""
    soft, hard = resource.prlimit(minio.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(minio.process.pid, resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.prlimit(minio.process.pid, resource.RLIMIT_FSIZE, (soft, hard))


def open_store(place: Place, local_dir: Path) -> StateStoreProvider:
    conf = hdfsstore.StateStoreConf(local_dir=str(local_dir), maintenance_interval=0)
    store_id = hdfsstore.StateStoreId(f"{place.uri}/state", 0, 0, storage_options=place.storage_options)
    return hdfsstore.open_provider(store_id, conf=conf)


def read_anew(place: Place, version: Ref, local_dir: Path) -> dict[bytes, bytes]:
    with open_store(place, local_dir) as reader, reader.get_read_store(*version) as store:
        return contents(store)


@pytest.mark.parametrize("size", [1000, 12 << 20])
def test_the_disk_of_minio_is_full(tmp_path: Path, size: int) -> None:
    with running(lambda: Minio(tmp_path / "minio")) as minio:
        minio.create_bucket(BUCKET)
        place = on_minio(minio, timeout_s=TIMEOUT_S)
        with open_store(place, tmp_path / "writer") as writer:
            first = write(writer, EMPTY, {b"key": b"old"})
            with full_disk(minio):
                with pytest.raises(StateStoreError):
                    write(writer, first, {b"key": bytes(size)})
                assert read_anew(place, first, tmp_path / "reader while") == {b"key": b"old"}
            second = write(writer, first, {b"key": b"new"})
        assert read_anew(place, second, tmp_path / "reader") == {b"key": b"new"}
        assert read_anew(place, first, tmp_path / "reader of the first") == {b"key": b"old"}


@contextmanager
def safe_mode(hdfs: Hdfs, _: str) -> Iterator[None]:
    hdfs.safe_mode(True)
    try:
        yield
    finally:
        hdfs.safe_mode(False)


@contextmanager
def _set(hdfs: Hdfs, path: str, before: list[str], after: list[str]) -> Iterator[None]:
    hdfs.active.run(*before, path)
    try:
        yield
    finally:
        hdfs.active.run(*after, path)


def quota_of_names(hdfs: Hdfs, path: str) -> AbstractContextManager[None]:
    return _set(hdfs, path, ["dfsadmin", "-setQuota", "1"], ["dfsadmin", "-clrQuota"])


def quota_of_space(hdfs: Hdfs, path: str) -> AbstractContextManager[None]:
    return _set(hdfs, path, ["dfsadmin", "-setSpaceQuota", "1k"], ["dfsadmin", "-clrSpaceQuota"])


def rights_to_read(hdfs: Hdfs, path: str) -> AbstractContextManager[None]:
    return _set(hdfs, path, ["fs", "-chmod", "-R", "555"], ["fs", "-chmod", "-R", "777"])


@contextmanager
def full_disks(hdfs: Hdfs, _: str) -> Iterator[None]:
    """While all of the disks of the DataNodes is kept for others."""
    reserved = "dfs.datanode.du.reserved"
    for node in hdfs.datanodes:
        node.start_anew({reserved: str(1 << 60)})
    hdfs.wait_until_writable()
    try:
        yield
    finally:
        for node in hdfs.datanodes:
            node.start_anew({reserved: "0"})
        hdfs.wait_until_writable()


CAUSES = {
    safe_mode: "safe mode",
    quota_of_names: "raise the quota of names",
    quota_of_space: "raise the quota of space",
    rights_to_read: "Grant the user of this process the rights",
    full_disks: "could only be written to 0 of the 1",
}


@pytest.mark.usefixtures("libhdfs")
@pytest.mark.parametrize("cause", CAUSES)
def test_a_commit_on_hdfs_goes_on_when_the_cause_is_gone(
    hdfs: Hdfs, tmp_path: Path, cause: Callable[[Hdfs, str], AbstractContextManager[None]]
) -> None:
    place = on_hdfs(hdfs)
    hdfs.active.run("fs", "-mkdir", "-p", place.uri)
    hdfs.active.run("fs", "-chmod", "777", place.uri)
    # libhdfs takes any user, and hdfs-native one in a process.
    of_user = {"client": "libhdfs", "user": "ann"} if cause is rights_to_read else {}
    place = replace(place, storage_options={**place.storage_options, **of_user})
    hasty = replace(place, storage_options={**place.storage_options, "timeout": str(TIMEOUT_S)})
    with open_store(place, tmp_path / "first") as writer:  # may start a JVM
        first = write(writer, EMPTY, {b"key": b"old"})
    with open_store(hasty, tmp_path / "writer") as writer:
        with cause(hdfs, place.path):
            began = time.monotonic()
            with pytest.raises(StateStoreError, match=CAUSES[cause]):
                write(writer, first, {b"key": b"lost"})
            assert time.monotonic() - began < TIMEOUT_S + SLACK_S
            assert read_anew(place, first, tmp_path / "reader while") == {b"key": b"old"}
        second = write(writer, first, {b"key": b"new"})
    assert read_anew(place, second, tmp_path / "reader") == {b"key": b"new"}
    assert read_anew(place, first, tmp_path / "reader of the first") == {b"key": b"old"}
    listed = place.files.list_folder(f"{place.path}/state/0/0")
    assert len([info for info in listed if info.base_name.endswith(".delta")]) == 2


def test_a_bucket_that_may_only_be_read(tmp_path: Path) -> None:
    with running(lambda: Minio(tmp_path / "minio")) as minio:
        minio.create_bucket(BUCKET)
        owner = s3_manager(minio.port)
        owner.create(f"{BUCKET}/file", [b"old"])
        resources = [f"arn:aws:s3:::{BUCKET}", f"arn:aws:s3:::{BUCKET}/*"]
        allowed = {
            "Effect": "Allow",
            "Principal": "*",
            "Action": ["s3:GetObject", "s3:ListBucket"],
            "Resource": resources,
        }
        owner._bucket.client().put_bucket_policy(
            Bucket=BUCKET, Policy=json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
        )
        anyone = s3_manager(minio.port, access_key=None, secret_key=None, anonymous=True)
        with pytest.raises(StateStoreError, match="AccessDenied"):
            anyone.create(f"{BUCKET}/new", [b"new"])
        with pytest.raises(StateStoreError, match="AccessDenied"):
            anyone.replace(f"{BUCKET}/file", [b"new"])
        with pytest.raises(StateStoreError, match="AccessDenied"):
            anyone.delete([f"{BUCKET}/file"])
        assert [info.base_name for info in anyone.list_folder(BUCKET)] == ["file"]
        buffer = bytearray(10)
        assert bytes(buffer[: anyone.open_file(f"{BUCKET}/file").readinto(buffer)]) == b"old"
