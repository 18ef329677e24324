"""What an object store is asked: one PUT a commit, no LIST or HEAD where a version is named, and few round trips of a
read."""

from __future__ import annotations

import os
import uuid
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

import hdfsstore
from hdfsstore import StateStoreId
from hdfsstore.state.protocols import StateStoreProvider
from tests.services.fault_proxy import FaultProxy
from tests.services.minio import Minio
from tests.services.places import on_minio
from tests.services.rounds import Rounds
from tests.support.rows import counted

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture
def root(minio: Minio, proxy: FaultProxy) -> StateStoreId:
    return store_id(minio, proxy.port)


def store_id(minio: Minio, port: int | None = None) -> StateStoreId:
    root = f"s3://checkpoints/{uuid.uuid4()}/state"
    return StateStoreId(root, 0, 3, storage_options=minio.storage_options(port))


def provider(root: StateStoreId, tmp_path: object, **conf: object) -> StateStoreProvider:
    settings = {"local_dir": str(tmp_path), "maintenance_interval": 0, **conf}
    return hdfsstore.open_provider(
        root,
        conf=hdfsstore.StateStoreConf(**settings),  # type: ignore[arg-type]
    )


def commit(opened: StateStoreProvider, version: int, unique_id: str | None) -> str | None:
    store = opened.get_store(version, unique_id)
    for number in range(100):
        store.put(f"key {version} {number}".encode(), b"value" * 10)
    return store.commit().checkpoint_unique_id


def lists(requests: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [r for r in requests if r[0] == "GET" and ("list-type" in r[1] or "prefix=" in r[1])]


def test_a_commit_is_one_put(root: StateStoreId, proxy: FaultProxy, tmp_path: object) -> None:
    with provider(root, tmp_path) as opened:
        unique_id = commit(opened, 0, None)
        for version in range(1, 4):
            proxy.take()
            unique_id = commit(opened, version, unique_id)
            requests = proxy.take()
            assert [method for method, _ in requests] == ["PUT"], requests
            assert f"{version + 1}_{unique_id}.delta" in requests[0][1]


def test_a_named_version_is_loaded_by_get_alone(root: StateStoreId, proxy: FaultProxy, tmp_path: object) -> None:
    unique_id = None
    with provider(root, tmp_path, min_deltas_for_snapshot=2) as opened:
        for version in range(5):
            unique_id = commit(opened, version, unique_id)
            if version == 3:
                opened.get_read_store(4, unique_id).close()  # the driver has chosen: maintenance need not wait
                opened.do_maintenance()
    proxy.take()
    with provider(root, f"{tmp_path}/other") as fresh:
        read = fresh.get_read_store(5, unique_id)
        requests = proxy.take()
        assert sum(1 for _ in read.iterator()) == 500
        assert {method for method, _ in requests} == {"GET"}, requests
        assert not lists(requests), requests
        assert any(".snapshot" in target for _, target in requests), requests


def test_clean_up_lists_now_and_then_only(root: StateStoreId, proxy: FaultProxy, tmp_path: object) -> None:
    """Retention of a store with many versions lists its folder now and then, not at every run."""
    unique_id = None
    listed = 0
    with provider(root, tmp_path, min_deltas_for_snapshot=2, min_versions_to_retain=20) as opened:
        for version in range(40):
            unique_id = commit(opened, version, unique_id)
            opened.get_read_store(version + 1, unique_id).close()
            proxy.take()
            opened.do_maintenance()
            listed += bool(lists(proxy.take()))
        assert opened.metrics["filesDeleted"] > 0
    assert 1 <= listed <= 20


def test_a_server_that_is_gone_is_a_typed_error_and_the_store_goes_on_once_it_is_back(
    minio: Minio, tmp_path: object
) -> None:
    quick = replace(store_id(minio), storage_options={**minio.storage_options(), "timeout": 5})
    with provider(quick, tmp_path) as opened:
        unique_id = commit(opened, 0, None)
        store = opened.get_store(1, unique_id)
        store.put(b"lost", b"with the server")
        minio.stop()
        try:
            with pytest.raises(hdfsstore.StateStoreError):
                store.commit()
        finally:
            minio.start()
        unique_id = commit(opened, 1, unique_id)
        read = opened.get_read_store(2, unique_id)
        assert read.get(b"lost") is None
        assert read.get(b"key 1 7") == b"value" * 10


def copied(checkpoint: Path, minio: Minio) -> str:
    """The URI of a copy of a checkpoint of Spark, without the checksum files of its local disk."""
    place = on_minio(minio)
    for file in sorted(checkpoint.rglob("*")):
        if file.is_file() and file.suffix != ".crc":
            place.files.write_unique(f"{place.path}/{file.relative_to(checkpoint)}", [file.read_bytes()])
    return place.uri


@pytest.mark.parametrize("how", ["read_state", "open_state"])
@pytest.mark.parametrize(("case", "most_rounds"), [("aggregation", 6), ("rocksdb_range_deletions", 7)])
def test_a_checkpoint_is_read_in_few_round_trips(
    minio: Minio, proxy: FaultProxy, how: str, case: str, most_rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One for each of: the checkpoint; its logs and the operator's folders; their entries; the schema; the partitions'
    folders; their files. Partitions do not wait for each other, however few processors there are. A zip names SST
    files, here 5 in each partition, all of which take one more."""
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    local = DATA / f"spark-4.3.0/{case}/checkpoint"
    uri = copied(local, minio)
    rounds = Rounds(proxy)
    checkpoint = hdfsstore.Checkpoint(uri, storage_options=minio.storage_options(proxy.port))
    opened = getattr(checkpoint, how)()
    table = opened if how == "read_state" else opened.read_all()
    requests = proxy.take()
    assert counted(table) == counted(hdfsstore.Checkpoint(local).read_state())
    assert rounds.count <= most_rounds, requests
    twice = {target: times for (_, target), times in Counter(requests).items() if times > 1}
    assert not twice, twice
    files = sum(target.partition("?")[0].endswith((".delta", ".snapshot", ".zip", ".sst")) for _, target in requests)
    assert len(requests) - files <= 16, "\n".join(map(str, requests))
