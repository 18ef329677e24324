"""Maintenance where several processes of a host take turns with a store, as Spark's Python workers do."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from hdfsstore.state.hdfs.provider import HdfsStateStoreProvider
from hdfsstore.state.maintenance import maintenance
from tests.unit.state.hdfs.executors import EMPTY, Executors, chain, commit, read, rows_at


def wait_for(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    return condition()


def snapshots(executors: Executors) -> list[str]:
    return executors.names("[0-9]*.snapshot")


def turns(providers: list[HdfsStateStoreProvider], number: int) -> list[tuple[int, str | None]]:
    """Versions that the providers write in turn."""
    versions = [EMPTY]
    for i in range(number):
        versions.append(commit(providers[i % len(providers)], versions[-1]))
    return versions


def test_what_is_due_does_not_wait_for_the_interval(any_executors: Executors) -> None:
    provider = any_executors.open(min_deltas_for_snapshot=3, maintenance_interval=3600.0)
    versions = chain(provider, 5)
    assert wait_for(lambda: len(snapshots(any_executors)) == 1)
    assert read(provider, versions[-1]) == rows_at(5)


def test_a_snapshot_of_another_process_is_not_made_again(executors: Executors) -> None:
    one, other = (executors.open(min_deltas_for_snapshot=3) for _ in range(2))
    versions = turns([one, other], 6)
    one.do_maintenance()  # the last version that it was asked for
    made = snapshots(executors)
    assert len(made) == 1
    other.do_maintenance()
    assert snapshots(executors) == made
    assert read(other, versions[-1]) == rows_at(6)


def test_an_image_of_another_process_is_taken_over(any_executors: Executors) -> None:
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
    held = other.versions.find(version)
    assert held is not None
    assert held.tree.image_id == version, "it stands on the image that the other one made"
    assert read(other, version) == large


def test_processes_that_end_before_their_background_work_leave_a_snapshot(
    executors: Executors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "ensure", lambda *_, **__: None)
    version = EMPTY
    for _ in range(25):
        provider = executors.open(min_deltas_for_snapshot=4, maintenance_interval=3600.0)
        version = commit(provider, version)
        provider.close()
    assert len(snapshots(executors)) == 1
    assert read(executors.open(), version) == rows_at(25)
