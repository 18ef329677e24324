"""Snapshots and images that maintenance makes, through providers on local disk."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from hdfsstore.codecs.compression import CODECS, decompress
from hdfsstore.codecs.lineage import LineageItem
from hdfsstore.state.hdfs.provider import HdfsStateStoreProvider
from hdfsstore.state.maintenance.throttle import Stopped
from hdfsstore.state.versions.files import VersionId
from tests.support.maps import decoded
from tests.support.partition import EMPTY, Partition, read
from tests.unit.state.hdfs.executors import chain, commit, lineage_of, path_of, rows_at

LONG = 60.0


def snapshots(executors: Partition) -> list[int]:
    return [int(name.split(".")[0].split("_")[0]) for name in executors.names("[0-9]*.snapshot")]


def leftovers(executors: Partition) -> list[Path]:
    return list(executors.folder.glob(".*"))


def in_steps(provider: HdfsStateStoreProvider, step: Callable[[], None], now: float = 0.0) -> list[VersionId]:
    """A run whose chunks are known: `step` is called after each."""
    return provider._maintenance_run._snapshots.run(now, step)


def nothing() -> None:
    """A step."""


@pytest.mark.parametrize("codec", CODECS)
def test_a_snapshot_is_due_when_more_deltas_follow_the_last_one(any_executors: Partition, codec: str) -> None:
    provider = any_executors.open(min_deltas_for_snapshot=3, compression_codec=codec)
    version = EMPTY
    for number in range(1, 13):
        version = commit(provider, version)
        provider.do_maintenance()
        assert snapshots(any_executors) == [v for v in (4, 8, 12) if v <= number]
    assert read(provider, version) == rows_at(12)


@pytest.mark.parametrize("row_checksums", [False, True])
def test_a_snapshot_holds_what_its_version_holds(any_executors: Partition, row_checksums: bool) -> None:
    conf = {"min_deltas_for_snapshot": 2, "row_checksum_enabled": row_checksums}
    provider = any_executors.open(**conf)
    versions = chain(provider, 3)
    versions.append(commit(provider, versions[-1], {b"key 1": None, b"key 2": b"again", b"key 9": None}))
    provider.do_maintenance()
    for version_id in versions[1:]:
        path_of(any_executors, version_id).unlink()  # so that only the snapshot is left
    expected = {b"key 2": b"again", b"key 3": b"value 3"}
    assert read(any_executors.open("another host", **conf), versions[4]) == expected
    content = decompress("lz4", path_of(any_executors, versions[4], "snapshot").read_bytes())
    records = decoded(content, row_checksums=row_checksums)
    assert len(records) == len(dict(records)) == 2, "each key once, and no other"
    assert None not in dict(records).values()


def test_lineages_begin_at_the_snapshot_from_then_on(executors: Partition) -> None:
    provider = executors.open(min_deltas_for_snapshot=2)
    versions = chain(provider, 3)
    provider.do_maintenance()
    versions += chain(provider, 2, versions[-1])[1:]
    assert lineage_of(executors, versions[4]) == [LineageItem(*versions[3])]
    assert lineage_of(executors, versions[5]) == [LineageItem(*versions[3]), LineageItem(*versions[4])]


def test_a_version_that_was_loaded_gets_its_snapshot_too(any_executors: Partition) -> None:
    versions = chain(any_executors.open(), 5)
    provider = any_executors.open("another host", min_deltas_for_snapshot=3)
    provider.get_store(*versions[5]).abort()
    provider.do_maintenance()
    assert snapshots(any_executors) == [5]


def test_so_does_one_where_memory_retains_none(any_executors: Partition) -> None:
    provider = any_executors.open(
        min_deltas_for_snapshot=3, max_versions_to_retain_in_memory=0, min_versions_to_retain=2
    )
    version = EMPTY
    for _ in range(12):
        version = commit(provider, version)
        provider.do_maintenance()
    assert snapshots(any_executors) == [8]
    assert len(any_executors.names("*.delta")) == 5
    assert read(any_executors.open("elsewhere"), version) == rows_at(12)


def test_who_only_reads_writes_nothing(any_executors: Partition) -> None:
    versions = chain(any_executors.open(), 5)
    before = any_executors.names()
    provider = any_executors.open("another host", min_deltas_for_snapshot=0, min_versions_to_retain=1)
    provider.do_maintenance()
    read(provider, versions[5])
    provider.do_maintenance()
    assert any_executors.names() == before


def test_a_failed_upload_is_logged_and_counted_and_tried_again(
    any_executors: Partition, caplog: pytest.LogCaptureFixture
) -> None:
    """A folder of that name is in the way, which no rename replaces."""
    provider = any_executors.open(min_deltas_for_snapshot=3)
    versions = chain(provider, 4)
    obstacle = path_of(any_executors, versions[4], "snapshot") / "obstacle"
    obstacle.mkdir(parents=True)
    with caplog.at_level(logging.WARNING):
        provider.do_maintenance()
        provider.do_maintenance()
    assert f"no snapshot of version {versions[4][0]}" in caplog.text
    assert any(record.exc_info for record in caplog.records)
    assert provider.metrics["snapshotsFailed"] == 2
    assert provider.metrics["snapshotsUploaded"] == 0
    assert not leftovers(any_executors)
    versions.append(commit(provider, versions[4]))  # the store goes on with deltas
    if versions[5][1] is not None:
        assert executors_begin(any_executors, versions[5]) == 1, "no lineage begins at a snapshot that is not there"
    obstacle.rmdir()
    obstacle.parent.rmdir()
    provider.do_maintenance()
    assert snapshots(any_executors) == [5]
    assert provider.metrics["snapshotsUploaded"] == 1
    assert read(any_executors.open("another host"), versions[5]) == rows_at(5)


def executors_begin(executors: Partition, version_id: VersionId) -> int:
    return lineage_of(executors, version_id)[0].version


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_a_folder_that_may_not_be_written() -> None:
    """In a process that is nobody: the right to write is taken, and given back."""
    script = """
import os, pathlib, tempfile
from tests.unit.state.hdfs.executors import Partition, chain
os.setuid(65534)
with tempfile.TemporaryDirectory() as root:
    executors = Partition(pathlib.Path(root), min_deltas_for_snapshot=3)
    provider = executors.open()
    chain(provider, 4)
    for mode in (0o555, 0o755):
        executors.folder.chmod(mode)
        provider.do_maintenance()
        left = list(executors.folder.glob(".*"))
        print(provider.metrics["snapshotsFailed"], len(executors.names("*.snapshot")), len(left))
    executors.close()
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=LONG, check=False)
    assert ran.stdout.split() == ["1", "0", "0", "1", "1", "0"], ran.stderr


class TestTwoAttempts:
    """One executor ran batch 3 twice, and both have committed version 4."""

    @pytest.fixture
    def provider(self, executors: Partition) -> HdfsStateStoreProvider:
        return executors.open(min_deltas_for_snapshot=3, maintenance_interval=0)

    @pytest.fixture
    def attempts(self, provider: HdfsStateStoreProvider) -> list[VersionId]:
        base = chain(provider, 3)[-1]
        return [commit(provider, base, {b"attempt": b"%d" % i}) for i in range(2)]

    def state(self, attempt: int) -> dict[bytes, bytes]:
        return {**rows_at(3), b"attempt": b"%d" % attempt}

    @pytest.mark.parametrize("chosen", [0, 1])
    def test_only_the_chosen_one_gets_a_snapshot(
        self, executors: Partition, provider: HdfsStateStoreProvider, attempts: list[VersionId], chosen: int
    ) -> None:
        assert in_steps(provider, nothing, now=0.0) == []
        assert in_steps(provider, nothing, now=59.0) == []
        store = provider.get_store(*attempts[chosen])
        assert in_steps(provider, nothing, now=59.5) == [attempts[chosen]]
        assert snapshots(executors) == [4]
        store.abort()
        path_of(executors, attempts[chosen]).unlink()
        assert read(executors.open("another host"), attempts[chosen]) == self.state(chosen)

    def test_both_do_where_no_batch_follows_in_time(
        self, executors: Partition, provider: HdfsStateStoreProvider, attempts: list[VersionId]
    ) -> None:
        assert in_steps(provider, nothing, now=100.0) == []
        assert in_steps(provider, nothing, now=160.0) == attempts
        for attempt, version_id in enumerate(attempts):
            path_of(executors, version_id).unlink()
            assert read(executors.open(f"host {attempt}"), version_id) == self.state(attempt)
        assert in_steps(provider, nothing, now=1000.0) == []

    def test_the_interval_of_maintenance_is_how_long_it_waits(self, executors: Partition) -> None:
        provider = executors.open(min_deltas_for_snapshot=3, maintenance_interval=1000.0)
        base = chain(provider, 3)[-1]
        attempts = [commit(provider, base) for _ in range(2)]
        assert in_steps(provider, nothing, now=0.0) == []
        assert in_steps(provider, nothing, now=999.0) == []
        assert in_steps(provider, nothing, now=1000.0) == attempts

    def test_the_next_version_is_clear_again(
        self, executors: Partition, provider: HdfsStateStoreProvider, attempts: list[VersionId]
    ) -> None:
        assert in_steps(provider, nothing) == []
        after = commit(provider, attempts[1])
        assert in_steps(provider, nothing) == [after]
        assert snapshots(executors) == [5]

    def test_a_version_on_a_base_that_lost_gets_none(
        self, provider: HdfsStateStoreProvider, attempts: list[VersionId]
    ) -> None:
        lost = commit(provider, attempts[0])
        right = commit(provider, attempts[1])
        assert in_steps(provider, nothing) == [right]
        assert in_steps(provider, nothing, now=1000.0) == []
        assert lost[0] == right[0]


class TestImages:
    """No snapshot is due, but more was committed than the image may have on top of it."""

    CONF: ClassVar[dict[str, Any]] = {
        "min_deltas_for_snapshot": 1000,
        "image_overlay_share": 0.25,
        "local_dir_max_bytes": 1 << 30,
    }

    def updates(self, version: int) -> dict[bytes, bytes]:
        return {b"%d of %d" % (i, version): bytes(1000) for i in range(500)}

    def test_it_is_built_when_the_overlay_has_outgrown_it(self, any_executors: Partition) -> None:
        provider = any_executors.open(**self.CONF)
        version = commit(provider, EMPTY)
        provider.get_store(*version).abort()
        provider.do_maintenance()
        assert any_executors.images() == [], "small stores are not worth it"
        version = commit(provider, version, self.updates(2))
        provider.get_store(*version).abort()
        provider.do_maintenance()
        assert [path.name for path in any_executors.images()] == [f"2_{version[1]}.image" if version[1] else "2.image"]
        assert snapshots(any_executors) == []
        assert provider.metrics["imagesBuilt"] == 1
        cached = provider.versions.find(version)
        assert cached is not None
        assert cached.deltas() == [], "the image is in use"
        assert read(provider, version) == {**rows_at(1), **self.updates(2)}

    def test_versions_after_it_move_along(self, any_executors: Partition) -> None:
        provider = any_executors.open(**self.CONF)
        first = commit(provider, EMPTY, self.updates(1))
        store = provider.get_store(*first)
        store.put(b"in flight", b"1")
        second = commit(provider, first, {b"second": b"2"})
        in_steps(provider, nothing)
        assert len(any_executors.images()) == 1
        cached = provider.versions.find(second)
        assert cached is not None
        assert cached.tree.image_id == first
        store.put(b"in flight too", b"1")
        assert read(provider, second) == {**self.updates(1), b"second": b"2"}
        info = store.commit()
        assert read(provider, (2, info.checkpoint_unique_id)) == {
            **self.updates(1),
            b"in flight": b"1",
            b"in flight too": b"1",
        }

    def test_without_a_disk_it_is_kept_in_memory(self, any_executors: Partition, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"")
        provider = any_executors.open(**{**self.CONF, "local_dir": str(tmp_path / "file")})
        version = commit(provider, EMPTY, self.updates(1))
        provider.get_store(*version).abort()
        provider.do_maintenance()
        cached = provider.versions.find(version)
        assert cached is not None
        assert cached.tree.image_id == version
        assert read(provider, version) == self.updates(1)


def test_attempts_that_are_cached_no_more_leave_memory(any_executors: Partition) -> None:
    provider = any_executors.open(image_overlay_share=0)
    base = chain(provider, 1)[-1]
    provider.get_store(*base).abort()
    provider.do_maintenance()
    sizes = []
    for _ in range(4):
        for _ in range(100):
            attempt = commit(provider, base, {b"of an attempt": b"x" * 10_000})
        provider.do_maintenance()
        sizes.append(provider.metrics["memoryUsedBytes"])
        assert read(provider, attempt) == {**rows_at(1), b"of an attempt": b"x" * 10_000}
    assert max(sizes) < 20 * 10_000


class TestMeanwhile:
    """What happens between two chunks of a run."""

    def test_commits_go_on(self, any_executors: Partition) -> None:
        provider = any_executors.open(min_deltas_for_snapshot=3)
        versions = chain(provider, 4)

        def step() -> None:
            versions.append(commit(provider, versions[-1]))

        assert in_steps(provider, step) == [versions[4]]
        assert len(versions) >= 6
        for number, version_id in enumerate(versions[-2:], len(versions) - 2):
            assert read(provider, version_id) == rows_at(number)
        executors = any_executors
        assert read(executors.open("another host"), versions[-1]) == rows_at(len(versions) - 1)
        for version_id in versions[1:4]:
            path_of(executors, version_id).unlink()
        assert read(executors.open("a third host"), versions[4]) == rows_at(4)

    def test_commits_without_a_pause(self, any_executors: Partition) -> None:
        """From another thread; the runs end, and nothing is lost."""
        provider = any_executors.open(min_deltas_for_snapshot=3)
        versions = chain(provider, 1)
        stop = threading.Event()

        def write() -> None:
            while not stop.is_set():
                versions.append(commit(provider, versions[-1]))

        writer = threading.Thread(target=write)
        writer.start()
        try:
            until = time.monotonic() + LONG
            while provider.metrics["snapshotsUploaded"] < 8:
                provider.do_maintenance()
                assert time.monotonic() < until
        finally:
            stop.set()
            writer.join()
        expected = rows_at(len(versions) - 1)
        assert read(provider, versions[-1]) == expected
        assert read(any_executors.open("another host"), versions[-1]) == expected

    def test_a_run_that_is_told_to_end_leaves_nothing(self, any_executors: Partition) -> None:
        provider = any_executors.open(min_deltas_for_snapshot=3)
        versions = chain(provider, 4)

        def step() -> None:
            if leftovers(any_executors):
                raise Stopped

        with pytest.raises(Stopped):
            in_steps(provider, step)
        assert any_executors.names() == [path_of(any_executors, version_id).name for version_id in versions[1:]]
        provider.do_maintenance()
        assert snapshots(any_executors) == [4]

    def test_after_close_nothing_is_done(self, any_executors: Partition) -> None:
        provider = any_executors.open(min_deltas_for_snapshot=3)
        chain(provider, 4)
        provider.close()
        provider.do_maintenance()
        assert snapshots(any_executors) == []

    def test_a_version_without_an_id_is_written_anew(self, executors_v1: Partition) -> None:
        """Its snapshot would be that of the earlier run, beside the delta of the later one."""
        provider = executors_v1.open(min_deltas_for_snapshot=3)
        versions = chain(provider, 4)
        again: list[VersionId] = []

        def step() -> None:
            if not again:
                again.append(commit(provider, versions[3], {b"run": b"second"}))

        assert in_steps(provider, step) == []
        assert snapshots(executors_v1) == []
        assert provider.metrics["snapshotsFailed"] == 1
        expected = {**rows_at(3), b"run": b"second"}
        assert read(executors_v1.open("another host"), versions[4]) == expected
        provider.do_maintenance()
        assert snapshots(executors_v1) == [4]
        path_of(executors_v1, versions[4]).unlink()
        assert read(executors_v1.open("a third host"), versions[4]) == expected


def test_many_chunks(any_executors: Partition) -> None:
    """Each commit changes half of what is there; the state takes several chunks."""
    provider = any_executors.open(min_deltas_for_snapshot=2)
    keys = [b"key %06d" % i for i in range(40_000)]
    expected: dict[bytes, bytes] = {}
    version = EMPTY
    for number in range(6):
        store = provider.get_store(*version)
        changed = keys[number % 2 :: 2] if number else keys
        store.put_many(pa.array(changed, pa.binary()), pa.array([b"%060d" % number] * len(changed), pa.binary()))
        removed = keys[number::7]
        store.remove_many(pa.array(removed, pa.binary()))
        expected |= dict.fromkeys(changed, b"%060d" % number)
        for key in removed:
            expected.pop(key, None)
        info = store.commit()
        version = info.version, info.checkpoint_unique_id
        provider.do_maintenance()
        assert read(provider, version) == expected
    assert snapshots(any_executors) == [3, 6]
    assert read(any_executors.open("another host"), version) == expected


def test_the_background_thread_does_it(any_executors: Partition) -> None:
    provider = any_executors.open(min_deltas_for_snapshot=3, maintenance_interval=0.01)
    versions = chain(provider, 4)
    until = time.monotonic() + LONG
    while provider.metrics["snapshotsUploaded"] == 0:
        assert time.monotonic() < until
        time.sleep(0.01)
    provider.close()
    assert snapshots(any_executors)[-1] == 4
    assert read(any_executors.open("another host"), versions[4]) == rows_at(4)


def test_the_metrics_have_names(any_executors: Partition) -> None:
    provider = any_executors.open(min_deltas_for_snapshot=3, min_versions_to_retain=2)
    name = "SnapshotLastUploaded.partition_3_default"  # Spark's
    assert provider.metrics[name] == -1
    versions = chain(provider, 8)
    provider.do_maintenance()
    versions += chain(provider, 4, versions[-1])[1:]
    provider.do_maintenance()
    metrics = provider.metrics
    assert metrics[name] == 12
    assert metrics["snapshotsUploaded"] == 2
    sizes = [path_of(any_executors, versions[v], "snapshot").stat().st_size for v in (8, 12)]
    assert metrics["snapshotBytes"] == sum(sizes)
    assert metrics["imagesBuilt"] == 2
    assert metrics["filesDeleted"] == 7, "the deltas before snapshot 8, as version 9 is the oldest that is retained"
    assert metrics["maintenanceRunsFailed"] == 0
