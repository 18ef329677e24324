"""Maintenance where several processes of a host take turns with a store, as Spark's Python workers do."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from hdfsstore.state.hdfs.provider import HdfsStateStoreProvider
from hdfsstore.state.maintenance.scheduler import maintenance
from tests.support.partition import EMPTY, Partition, read
from tests.unit.state.hdfs.executors import chain, commit, rows_at


def wait_for(condition: Callable[[], bool], seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


def snapshots(executors: Partition) -> list[str]:
    return executors.names("[0-9]*.snapshot")


def turns(providers: list[HdfsStateStoreProvider], number: int) -> list[tuple[int, str | None]]:
    """Versions that the providers write in turn."""
    versions = [EMPTY]
    for i in range(number):
        versions.append(commit(providers[i % len(providers)], versions[-1]))
    return versions


def test_what_is_due_does_not_wait_for_the_interval(any_executors: Partition) -> None:
    provider = any_executors.open(min_deltas_for_snapshot=3, maintenance_interval=3600.0)
    versions = chain(provider, 5)
    assert wait_for(lambda: len(snapshots(any_executors)) == 1)
    assert read(provider, versions[-1]) == rows_at(5)


def test_a_snapshot_of_another_process_is_not_made_again(executors: Partition) -> None:
    one, other = (executors.open(min_deltas_for_snapshot=3) for _ in range(2))
    versions = turns([one, other], 6)
    one.do_maintenance()  # the last version that it was asked for
    made = snapshots(executors)
    assert len(made) == 1
    other.do_maintenance()
    assert snapshots(executors) == made
    assert read(other, versions[-1]) == rows_at(6)


def test_an_image_of_another_process_is_taken_over(any_executors: Partition) -> None:
    large = {b"large": bytes(1 << 20)}
    one, other = (any_executors.open(min_deltas_for_snapshot=100) for _ in range(2))
    version = EMPTY
    for provider in (one, other, one, other, one):
        version = commit(provider, version, large)
    other.get_store(*version).abort()
    one.get_store(*version).abort()
    one.do_maintenance()
    assert one.metrics["imagesBuilt"] == 1
    other.do_maintenance()
    assert other.metrics["imagesBuilt"] == 0
    cached = other.versions.find(version)
    assert cached is not None
    assert cached.tree.image_id == version, "it stands on the image that the other one made"
    assert read(other, version) == large


def test_processes_that_end_before_their_background_work_leave_a_snapshot(
    executors: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "ensure", lambda *_, **__: None)
    version = EMPTY
    for _ in range(25):
        provider = executors.open(min_deltas_for_snapshot=4, maintenance_interval=3600.0)
        version = commit(provider, version)
        provider.close()
    assert len(snapshots(executors)) == 1
    assert read(executors.open(), version) == rows_at(25)


def test_a_snapshot_is_loaded_once_a_host(any_executors: Partition) -> None:
    writer = any_executors.open(min_deltas_for_snapshot=2)
    versions = chain(writer, 4)
    writer.do_maintenance()
    versions.append(commit(writer, versions[-1]))
    one, other = (any_executors.open("elsewhere", shared_across_workers=True) for _ in range(2))
    assert [read(provider, versions[-1]) for provider in (one, other)] == [rows_at(5)] * 2
    names = "snapshotsLoaded", "localImageHitCount", "deltasLoaded"
    assert [one.metrics[name] for name in names] == [1, 0, 1]
    assert [other.metrics[name] for name in names] == [0, 1, 1]
    for provider in (one, other):
        cached = provider.versions.find(versions[-1])
        assert cached is not None
        assert cached.tree.image_id == versions[-2]
        assert cached.tree.image.metadata, "it is mapped from the file"


def test_a_released_provider_goes_on(any_executors: Partition) -> None:
    provider = any_executors.open()
    versions = chain(provider, 3)
    store = provider.get_store(*versions[3])
    provider.release()
    assert provider.metrics["memoryUsedBytes"] == 0
    provider.do_maintenance()
    store.put(b"key 4", b"value 4")
    info = store.commit()
    assert read(provider, (info.version, info.checkpoint_unique_id)) == rows_at(4)


def test_a_batch_makes_an_image_that_the_background_does_not_come_to(
    any_executors: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "ensure", lambda *_, **__: None)
    provider = any_executors.open(min_deltas_for_snapshot=100, maintenance_interval=3600.0)
    version = EMPTY
    for i in range(20):
        version = commit(provider, version, {b"key %d" % i: bytes(100_000)})
    built = provider.metrics["imagesBuilt"]
    assert 2 <= built <= 5, "an image grows by three eighths of a MiB, or of itself, until it is made anew"
    assert len(read(provider, version)) == 20
