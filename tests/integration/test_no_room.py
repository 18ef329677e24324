"""Storages on which nothing can be written: full disks, and rights to read alone. No version is lost or half there."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import hdfsstore
from hdfsstore.errors import FileSystemTimeoutError, StateStoreError
from hdfsstore.state.protocols import StateStoreProvider
from tests.integration.hdfs_managers import manager as hdfs_manager
from tests.integration.s3_managers import manager as s3_manager
from tests.services.fixtures import running
from tests.services.hdfs import Hdfs
from tests.services.minio import Minio
from tests.services.places import BUCKET, Place, on_minio
from tests.support.partition import EMPTY, Ref, contents, write

TIMEOUT_S = 3.0


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


def test_the_disks_of_all_data_nodes_are_full(tmp_path: Path) -> None:
    with running(lambda: Hdfs(tmp_path / "hdfs", conf={"dfs.datanode.du.reserved": str(1 << 60)})) as hdfs:
        files = hdfs_manager(hdfs, timeout_s=TIMEOUT_S)
        with pytest.raises(FileSystemTimeoutError, match="could only be written to 0 of the 1"):
            files.create("/full/new", [b"new"])
        assert "new" not in [info.base_name for info in files.list_folder("/full")]


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
