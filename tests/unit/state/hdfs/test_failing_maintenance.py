"""Batches go on where what is done behind them fails, and do not try it each time."""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import time
from collections.abc import Iterator

import pytest

from hdfsstore.state.hdfs.provider import HdfsStateStoreProvider
from hdfsstore.state.maintenance.scheduler import maintenance
from hdfsstore.state.versions.files import VersionId
from tests.support.partition import EMPTY, Partition, read
from tests.unit.state.hdfs.executors import commit

INTERVAL = 3600.0
MANY = 40
# Deltas have hundreds of bytes, the first one and snapshots more than this: their keys are random.
FITS = 16_000


@pytest.fixture(autouse=True)
def no_background(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where workers end before it comes to anything: batches have to do it."""
    monkeypatch.setattr(maintenance, "ensure", lambda *_, **__: None)


@contextlib.contextmanager
def no_room() -> Iterator[None]:
    """While no file of this process grows larger than FITS."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (FITS, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def large(provider: HdfsStateStoreProvider) -> tuple[VersionId, dict[bytes, bytes]]:
    rows = {os.urandom(16): b"" for _ in range(FITS // 8)}
    return commit(provider, EMPTY, rows), rows


def batches(provider: HdfsStateStoreProvider, version: VersionId, rows: dict[bytes, bytes]) -> VersionId:
    for _ in range(MANY):
        key = b"%d" % version[0]
        rows[key] = b"value"
        version = commit(provider, version, {key: b"value"})
    return version


def test_a_snapshot_that_does_not_fit(any_executors: Partition, caplog: pytest.LogCaptureFixture) -> None:
    provider = any_executors.open(min_deltas_for_snapshot=2, maintenance_interval=INTERVAL)
    version, rows = large(provider)
    with no_room(), caplog.at_level(logging.WARNING, "hdfsstore.state.uploads"):
        version = batches(provider, version, rows)
    assert provider.metrics["snapshotsFailed"] == provider.metrics["maintenanceRunsFailed"] == 1
    assert [record.name for record in caplog.records if "no snapshot" in record.message] == ["hdfsstore.state.uploads"]
    assert provider.metrics["snapshotsUploaded"] == 0
    assert read(provider, version) == rows


def test_it_is_tried_again_once_the_wait_is_over(any_executors: Partition, monkeypatch: pytest.MonkeyPatch) -> None:
    late = [0.0]
    monotonic = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: monotonic() + late[0])
    provider = any_executors.open(min_deltas_for_snapshot=2, maintenance_interval=INTERVAL)
    version, rows = large(provider)
    with no_room():
        version = batches(provider, version, rows)
        late[0] += INTERVAL
        version = batches(provider, version, rows)
    assert provider.metrics["snapshotsFailed"] == 2, "and now twice the wait"
    late[0] += INTERVAL
    version = batches(provider, version, rows)
    assert provider.metrics["snapshotsUploaded"] == 0
    late[0] += INTERVAL
    version = batches(provider, version, rows)
    assert provider.metrics["snapshotsUploaded"] > 0
    assert provider.metrics["snapshotsFailed"] == 2
    assert read(any_executors.open("elsewhere"), version) == rows


def test_processes_that_know_nothing_of_each_other_do_not_all_try(any_executors: Partition) -> None:
    version, _ = large(any_executors.open())
    failed = 0
    with no_room():
        for number in range(MANY):
            with any_executors.open(min_deltas_for_snapshot=2, maintenance_interval=INTERVAL) as provider:
                version = commit(provider, version, {b"%d" % number: b"value"})
                failed += int(provider.metrics["snapshotsFailed"])
    assert MANY // 6 <= failed <= MANY // 3, "some do, once each time that a snapshot would be due"


def test_whatever_else_goes_wrong(any_executors: Partition, monkeypatch: pytest.MonkeyPatch) -> None:
    """A defect of maintenance is no reason to lose a batch."""
    provider = any_executors.open(min_deltas_for_snapshot=2, maintenance_interval=INTERVAL)

    def fail(*_: object) -> None:
        raise MemoryError

    for part, name in ((provider._maintenance_run._snapshots, "run"), (provider._maintenance_run._retention, "run")):
        monkeypatch.setattr(part, name, fail)
    monkeypatch.setattr(provider._maintenance_run, "_clean", fail)
    rows: dict[bytes, bytes] = {}
    version = batches(provider, EMPTY, rows)
    assert read(provider, version) == rows
    metrics = provider.metrics
    assert [metrics[name] for name in ("snapshotsFailed", "cleanupsFailed", "maintenanceRunsFailed")] == [1, 2, 1]
