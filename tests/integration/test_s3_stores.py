"""Stores on S3: a file that is replaced while it is read, keys that end before a commit, the deadline that counts; a
server that ignores conditions is no place for the driver's log."""

from __future__ import annotations

import os
import threading
import time
import traceback
import uuid
from pathlib import Path

import pytest

import hdfsstore
from hdfsstore.errors import FileSystemTimeoutError, NotPromisedError, StateStoreError
from hdfsstore.fs import calls
from hdfsstore.fs.location import find_settings, renew, resolve
from hdfsstore.spark.querylog.fence import check_fence
from hdfsstore.state.protocols import StateStoreProvider
from tests.integration.s3_managers import allow_anybody, bare_client, policy, revoke_temporary_keys, temporary_keys
from tests.services.fault_proxy import Fault, FaultProxy
from tests.services.minio import Minio
from tests.services.places import BUCKET
from tests.support.partition import EMPTY, read, state_after, write_chain

# So many values of so many bytes are a delta that is read in several ranges, the first of 1 MiB.
VALUES, SIZE = 2500, 4096


@pytest.fixture
def uri() -> str:
    return f"s3a://{BUCKET}/{uuid.uuid4()}/state"


def provider(uri: str, options: dict[str, str], local_dir: Path, checkpoint_format: int = 2) -> StateStoreProvider:
    store_id = hdfsstore.StateStoreId(uri, 0, 0, storage_options={"timeout": "20", **options})
    conf = hdfsstore.StateStoreConf(
        local_dir=str(local_dir), maintenance_interval=0, checkpoint_format_version=checkpoint_format
    )
    return hdfsstore.open_provider(store_id, conf=conf)


def test_a_delta_that_is_replaced_between_two_of_its_ranges_is_read_anew(
    minio: Minio, proxy: FaultProxy, uri: str, tmp_path: Path
) -> None:
    states = [{b"%d" % key: os.urandom(SIZE) for key in range(VALUES)} for _ in range(2)]
    attempts = [provider(uri, minio.storage_options(), tmp_path / str(number), 1) for number in range(2)]
    stores = [attempt.get_store(0) for attempt in attempts]
    for store, state in zip(stores, states, strict=True):
        for key, value in state.items():
            store.put(key, value)
    stores[0].commit()
    replaced, changed = proxy.plan(
        Fault("delay", "GET", "/1.delta", before=lambda: None),
        Fault("delay", "GET", "/1.delta", before=stores[1].commit),
    )
    with provider(uri, minio.storage_options(proxy.port), tmp_path / "reader", 1) as reader:
        assert read(reader, (1, None)) == states[1]
    assert replaced.statuses == [206]
    assert changed.statuses == [412]
    for attempt in attempts:
        attempt.close()


@pytest.mark.parametrize("ended", ["revoked", "expired"])
def test_a_commit_with_keys_that_have_ended_is_a_typed_error_and_new_keys_go_on(
    minio: Minio, proxy: FaultProxy, uri: str, tmp_path: Path, ended: str
) -> None:
    general = {name: value for name, value in minio.storage_options(proxy.port).items() if not name.endswith(".key")}
    keys = temporary_keys(minio, policy("s3:*"))
    with provider(uri, general | keys, tmp_path) as opened:
        end = write_chain(opened, 2)[-1]
        if ended == "revoked":
            revoke_temporary_keys(minio)
        else:
            proxy.plan(Fault("answer", times=99, status=400, code="ExpiredToken"))
        began = time.monotonic()
        with pytest.raises(StateStoreError, match=r"Get new credentials|access key that this server knows") as caught:
            write_chain(opened, 1, end)
        assert time.monotonic() - began < 60
        assert not isinstance(caught.value, FileSystemTimeoutError)
        said = "".join(traceback.format_exception(caught.value))
        assert not [value for value in keys.values() if value in said]
        proxy.plan()
        # As a driver gives them to a query that runs.
        renew(find_settings(uri, {"timeout": "20", **general, **temporary_keys(minio, policy("s3:*"))}))
        end = write_chain(opened, 2, end)[-1]
    with provider(uri, minio.storage_options(), tmp_path / "elsewhere") as opened:
        assert read(opened, end) == state_after(4)
        assert read(opened, EMPTY) == {}


def test_a_server_that_ignores_conditions_is_found_out_and_nothing_is_left(minio: Minio, proxy: FaultProxy) -> None:
    """Without keys, because a signature covers the condition, too."""
    bucket = f"fence-{uuid.uuid4()}"
    minio.create_bucket(bucket)
    allow_anybody(minio, bucket)
    options = {name: value for name, value in minio.storage_options(proxy.port).items() if not name.endswith(".key")}
    anonymous = {"fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"}
    location = find_settings(f"s3a://{bucket}/query", options | anonymous)
    check_fence(location, single_driver=False)
    [ignored] = proxy.plan(Fault("unconditional", "PUT", times=99))
    with pytest.raises(NotPromisedError, match="has created a file that was there already"):
        check_fence(location, single_driver=False)
    assert ignored.statuses == [200, 200]
    assert bare_client(minio).list_objects_v2(Bucket=bucket)["KeyCount"] == 0


class _Clock(threading.local):
    """Goes on by what the thread sleeps: calls that earlier tests have left behind sleep, too."""

    def __init__(self) -> None:
        self.slept = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.slept

    def sleep(self, seconds: float) -> None:
        self.slept += seconds


def test_the_deadline_is_two_minutes_unless_another_one_is_set(
    minio: Minio, proxy: FaultProxy, uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = _Clock()
    monkeypatch.setattr(calls, "time", clock)
    proxy.plan(Fault("answer", times=999))
    files, path = resolve(uri, minio.storage_options(proxy.port))
    with pytest.raises(FileSystemTimeoutError, match=r"waits longer than 120 s$"):
        files.create(f"{path}/a", [b"content"])
    # No try begins that could end after the deadline: 40 seconds for one connection and its answer.
    assert 70 < clock.slept < 81
