"""Which version a store is on, what is cached, and what is read where it is not."""

from __future__ import annotations

import logging
import os
import threading
import uuid
import weakref
from typing import Any

import pyarrow as pa
import pytest

from hdfsstore.errors import (
    BatchNotAvailableError,
    CheckpointIdMismatchError,
    CorruptFileError,
    MissingFileError,
    SchemaMismatchError,
    StateStoreClosedError,
    StateStoreError,
)
from hdfsstore.fs.publish import publish
from hdfsstore.state.versions.files import VersionId
from tests.support.partition import EMPTY, Partition, contents, read, ref
from tests.unit.state.hdfs.executors import chain, commit, lineage_of, path_of, rows_at, spoil


def test_version_0_is_empty_and_reads_no_file(any_executors: Partition) -> None:
    provider = any_executors.open()
    assert read(provider, EMPTY) == {}
    assert not any_executors.folder.exists()


def test_a_commit_writes_one_delta(any_executors: Partition) -> None:
    provider = any_executors.open()
    versions = chain(provider, 3)
    assert any_executors.names() == [path_of(any_executors, version).name for version in versions[1:]]


def test_what_a_task_reports(executors: Partition) -> None:
    provider = executors.open()
    first = provider.get_store(0).commit()
    second = provider.get_store(1, first.checkpoint_unique_id).commit()
    assert (first.partition_id, first.version, first.base_checkpoint_unique_id) == (3, 1, None)
    assert (second.version, second.base_checkpoint_unique_id) == (2, first.checkpoint_unique_id)
    assert uuid.UUID(second.checkpoint_unique_id).version == 4


def test_what_is_committed_after_the_providers_end_is_written_and_not_cached(any_executors: Partition) -> None:
    provider = any_executors.open()
    store = provider.get_store(0)
    store.put(b"a", b"1")
    provider.close()
    last = ref(store.commit())
    assert provider.versions.cached() == []
    assert read(any_executors.open(), last) == {b"a": b"1"}


@pytest.mark.parametrize("cached", [1, 2, 3])
def test_so_many_version_numbers_are_cached(any_executors: Partition, cached: int) -> None:
    provider = any_executors.open(max_versions_to_retain_in_memory=cached)
    versions = chain(provider, 6)
    assert [version.id for version in provider.versions.cached()] == versions[-cached:]


def test_cached_versions_are_read_without_a_file(executors: Partition) -> None:
    provider = executors.open()
    versions = chain(provider, 6)
    for path in executors.folder.iterdir():
        path.unlink()
    assert read(provider, versions[6]) == rows_at(6)
    assert read(provider, versions[5]) == rows_at(5)
    with pytest.raises(BatchNotAvailableError):
        provider.get_store(*versions[4])


def test_a_version_that_is_read_does_not_push_out_the_last_one(any_executors: Partition) -> None:
    provider = any_executors.open()
    versions = chain(provider, 6)
    assert read(provider, versions[2]) == rows_at(2)
    assert versions[6] in [version.id for version in provider.versions.cached()]


def test_going_back_goes_on_from_there(any_executors: Partition) -> None:
    provider = any_executors.open()
    versions = chain(provider, 6)
    again = [commit(provider, versions[3], {b"again": b"4"})]
    for _ in range(3):
        again.append(commit(provider, again[-1], {b"again": b"%d" % (again[-1][0] + 1)}))
    misses = provider.metrics["loadedMapCacheMissCount"]
    assert read(provider, again[-1]) == {**rows_at(3), b"again": b"7"}
    assert provider.metrics["loadedMapCacheMissCount"] == misses
    assert read(any_executors.open("elsewhere"), again[-1]) == {**rows_at(3), b"again": b"7"}


def test_attempts_of_one_version_lie_side_by_side(executors: Partition) -> None:
    provider = executors.open()
    base = chain(provider, 2)[-1]
    stores = [provider.get_store(*base) for _ in range(3)]
    for number, store in enumerate(stores):
        store.put(b"attempt", b"%d" % number)
    attempts = [ref(store.commit()) for store in stores]
    hits = provider.metrics["loadedMapCacheHitCount"]
    assert [read(provider, attempt)[b"attempt"] for attempt in attempts] == [b"0", b"1", b"2"]
    assert provider.metrics["loadedMapCacheHitCount"] == hits + 3


def test_few_of_many_attempts_are_cached(executors: Partition) -> None:
    provider = executors.open()
    base = chain(provider, 2)[-1]
    attempts = [commit(provider, base, {b"attempt": b"%d" % number}) for number in range(20)]
    assert len(provider.versions.cached()) == 9
    assert [read(provider, attempt)[b"attempt"] for attempt in attempts] == [b"%d" % number for number in range(20)]


def test_a_process_that_is_behind_applies_just_the_deltas(any_executors: Partition) -> None:
    behind, ahead = any_executors.open("one"), any_executors.open("two")
    versions = chain(behind, 3)
    versions += chain(ahead, 3, versions[3])[1:]
    spoil(path_of(any_executors, versions[1]))
    spoil(path_of(any_executors, versions[2]))
    assert read(behind, versions[6]) == rows_at(6)
    with pytest.raises(CorruptFileError):
        any_executors.open("three").get_store(*versions[6])


def test_with_ids_that_goes_on_past_a_snapshot(executors: Partition) -> None:
    behind, ahead = executors.open("one"), executors.open("two", min_deltas_for_snapshot=2)
    versions = chain(behind, 3)
    for _ in range(4):
        versions.append(commit(ahead, versions[-1]))
        ahead.do_maintenance()
    assert [item.version for item in lineage_of(executors, versions[7])] == [4, 5, 6]
    for path in executors.folder.glob("*.snapshot"):
        path.unlink()
    spoil(path_of(executors, versions[1]))
    assert read(behind, versions[7]) == rows_at(7)


def test_what_is_far_behind_is_of_no_use(executors: Partition) -> None:
    behind, ahead = executors.open("one"), executors.open("two", min_deltas_for_snapshot=20)
    versions = chain(behind, 3)
    for _ in range(80):
        versions.append(commit(ahead, versions[-1]))
        ahead.do_maintenance()
    spoil(path_of(executors, versions[10]))
    assert read(behind, versions[83]) == rows_at(83)


def test_a_store_that_has_ended_holds_no_memory(any_executors: Partition) -> None:
    provider = any_executors.open(max_versions_to_retain_in_memory=1)
    versions = chain(provider, 2)
    store = provider.get_store(*versions[2])
    tree = weakref.ref(store._base.tree)
    store.commit()
    provider.versions.clear()
    assert tree() is None
    assert store.version == 2


def test_without_ids_nothing_is_built_past_a_snapshot(executors_v1: Partition) -> None:
    behind, ahead = executors_v1.open("one"), executors_v1.open("two", min_deltas_for_snapshot=0)
    versions = chain(behind, 3)
    versions += chain(ahead, 1, versions[3])[1:]
    ahead.do_maintenance()
    path_of(executors_v1, versions[4]).write_bytes(b"left by another run")
    assert executors_v1.names("*.snapshot") == ["4.snapshot"]
    assert read(behind, versions[4]) == rows_at(4)


def test_a_version_without_id_that_was_written_anew_is_loaded_anew(
    executors_v1: Partition, caplog: pytest.LogCaptureFixture
) -> None:
    one, two = executors_v1.open("one"), executors_v1.open("two")
    versions = chain(one, 3)
    commit(two, versions[2], {b"of": b"two"})
    assert read(one, versions[3]) == {**rows_at(2), b"of": b"two"}
    assert "another attempt has written" in caplog.text


def test_so_is_one_whose_file_has_the_same_bytes(executors_v1: Partition) -> None:
    """An empty delta, on top of another state."""
    one, two = executors_v1.open("one"), executors_v1.open("two")
    versions = chain(one, 2)
    versions.append(commit(one, versions[2], {}))
    other = commit(two, versions[1], {b"of": b"two"})
    before = path_of(executors_v1, versions[3]).read_bytes()
    assert commit(two, other, {}) == versions[3]
    assert path_of(executors_v1, versions[3]).read_bytes() == before
    assert read(one, versions[3]) == {**rows_at(1), b"of": b"two"}


def test_a_run_from_an_earlier_version_drops_the_later_ones(executors_v1: Partition) -> None:
    provider = executors_v1.open(max_versions_to_retain_in_memory=9)
    versions = chain(provider, 6)
    commit(provider, versions[2], {b"again": b"3"})
    assert [version.id[0] for version in provider.versions.cached()] == [0, 1, 2, 3]


def test_a_snapshot_of_the_run_before_is_not_left_beside_a_delta(executors_v1: Partition) -> None:
    provider = executors_v1.open(min_deltas_for_snapshot=0)
    versions = chain(provider, 3)
    provider.do_maintenance()
    assert executors_v1.names("*.snapshot") == ["3.snapshot"]
    commit(provider, versions[2], {b"again": b"3"})
    assert executors_v1.names("*.snapshot") == []
    assert read(executors_v1.open("elsewhere"), versions[3]) == {**rows_at(2), b"again": b"3"}


@pytest.mark.parametrize("first", ["snapshots", "commit"])
@pytest.mark.parametrize("host", ["host", "elsewhere"])
def test_nor_is_one_that_was_on_its_way(
    executors_v1: Partition, monkeypatch: pytest.MonkeyPatch, first: str, host: str
) -> None:
    """While one file is about to be published, the other one is."""
    one = executors_v1.open(min_deltas_for_snapshot=0)
    versions = chain(one, 3)
    two = one if host == "host" else executors_v1.open(host)
    store = two.get_store(*versions[2])
    store.put(b"again", b"3")
    write = {"snapshots": one.do_maintenance, "commit": store.commit}
    second = write.pop("commit" if first == "snapshots" else "snapshots")

    def publish_second_before(*args: Any, **options: Any) -> None:
        monkeypatch.undo()
        second()
        publish(*args, **options)

    module = {"snapshots": "maintenance.uploads", "commit": "base.committer"}[first]
    monkeypatch.setattr(f"hdfsstore.state.{module}.publish", publish_second_before)
    write[first]()
    assert executors_v1.names("*.snapshot") == []
    assert read(executors_v1.open("third"), versions[3]) == {**rows_at(2), b"again": b"3"}


def test_a_checkpoint_that_was_made_anew_is_not_taken_for_the_one_before(any_executors: Partition) -> None:
    provider = any_executors.open(max_versions_to_retain_in_memory=9)
    versions = chain(provider, 3)
    for path in any_executors.folder.iterdir():
        path.unlink()
    others = [EMPTY]
    for _ in range(3):
        others.append(commit(any_executors.open("elsewhere"), others[-1], {b"other": b"%d" % others[-1][0]}))
    assert read(provider, others[3]) == {b"other": b"2"}
    assert (versions[3] == others[3]) == (others[3][1] is None)


@pytest.mark.parametrize("version", [3, 5])
def test_a_missing_delta_is_an_error(any_executors: Partition, version: int) -> None:
    versions = chain(any_executors.open(), 5)
    path_of(any_executors, versions[version]).unlink()
    with pytest.raises((MissingFileError, BatchNotAvailableError)):
        any_executors.open("elsewhere").get_store(*versions[5])


def test_a_folder_without_files_is_no_version(any_executors: Partition) -> None:
    provider = any_executors.open()
    unique_id = None if provider.conf.checkpoint_format_version == 1 else str(uuid.uuid4())
    with pytest.raises(BatchNotAvailableError):
        provider.get_store(4, unique_id)


def test_what_is_no_version_is_refused(executors: Partition) -> None:
    provider = executors.open()
    with pytest.raises(ValueError, match="-1"):
        provider.get_store(-1)
    with pytest.raises(CheckpointIdMismatchError):
        provider.get_store(0, str(uuid.uuid4()))
    with pytest.raises(ValueError, match="not a unique id"):
        provider.get_store(1, "../1")


def test_a_commit_that_fails_leaves_the_provider_usable(any_executors: Partition) -> None:
    provider = any_executors.open()
    versions = chain(provider, 2)
    store = provider.get_store(*versions[2])
    store.put(b"k", b"v")
    away = any_executors.folder.with_name("away")
    any_executors.folder.rename(away)
    any_executors.folder.write_bytes(b"in the way")
    with pytest.raises(StateStoreError, match=str(any_executors.folder)):
        store.commit()
    with pytest.raises(StateStoreClosedError):
        store.get(b"k")
    any_executors.folder.unlink()
    away.rename(any_executors.folder)
    assert read(provider, versions[2]) == rows_at(2)
    assert read(provider, commit(provider, versions[2])) == rows_at(3)


def test_metrics_by_sparks_names(any_executors: Partition) -> None:
    provider = any_executors.open()
    versions = chain(provider, 2)
    store = provider.get_store(*versions[2])
    store.put(b"a", b"1")
    store.put(b"key 1", b"1")
    store.remove(b"key 2")
    store.remove(b"absent")
    store.commit()
    metrics = store.metrics
    assert (metrics["numTotalStateRows"], metrics["numUpdatedStateRows"], metrics["numRemovedStateRows"]) == (2, 2, 1)
    assert metrics["commitTimeMs"] > 0
    assert metrics["memoryUsedBytes"] > 0
    assert metrics["stateOnCurrentVersionSizeBytes"] > 0
    assert metrics["loadedMapCacheHitCount"] == 2
    assert metrics["SnapshotLastUploaded.partition_3_default"] == -1


def test_a_snapshot_that_was_passed_over_is_counted(any_executors: Partition) -> None:
    provider = any_executors.open(min_deltas_for_snapshot=0)
    versions = chain(provider, 2)
    provider.do_maintenance()
    spoil(path_of(any_executors, versions[2], "snapshot"))
    elsewhere = any_executors.open("elsewhere")
    assert read(elsewhere, versions[2]) == rows_at(2)
    assert (provider.metrics["numSnapshotsAutoRepaired"], elsewhere.metrics["numSnapshotsAutoRepaired"]) == (0, 1)


def test_rows_need_a_schema_and_a_prefix_the_keys(executors: Partition) -> None:
    keys = pa.RecordBatch.from_pydict({"a": [1]})
    store = executors.open().get_store(0)
    for call in (store.get_batch, store.remove_batch, lambda batch: store.put_batch(batch, batch)):
        with pytest.raises(SchemaMismatchError, match="key_schema"):
            call(keys)
    with pytest.raises(SchemaMismatchError, match="key_schema"):
        store.scan()
    with pytest.raises(SchemaMismatchError, match="key_schema"):
        executors.open(num_cols_prefix_key=1)
    with pytest.raises(ValueError, match="num_cols_prefix_key"):
        executors.open(key_schema=keys.schema, value_schema=keys.schema, num_cols_prefix_key=1)


def test_rows_of_another_schema_are_told(executors: Partition) -> None:
    schema = pa.schema([("a", pa.int64())])
    store = executors.open(key_schema=schema, value_schema=schema).get_store(0)
    with pytest.raises(SchemaMismatchError, match="the key schema does not fit"):
        store.get_batch(pa.RecordBatch.from_pydict({"a": ["text"]}))
    store.put(b"no row", b"no row")
    with pytest.raises(SchemaMismatchError, match="the key schema does not fit"):
        list(store.scan())


def test_an_iterator_shows_what_was_there_when_it_was_made(any_executors: Partition) -> None:
    provider = any_executors.open()
    store = provider.get_store(*chain(provider, 2)[-1])
    rows = store.iterator()
    store.put(b"later", b"1")
    store.remove(b"key 1")
    assert dict(rows) == rows_at(2)
    assert contents(store) == {b"key 2": b"value 2", b"later": b"1"}


def test_a_forked_child_goes_on_though_the_locks_were_held(any_executors: Partition) -> None:
    provider = any_executors.open()
    versions = chain(provider, 2)
    held = threading.Event()
    done = threading.Event()

    def hold() -> None:
        cached = provider.versions
        with cached._lock, cached.lineages._noting, provider._loader._loading, provider._committer._one_file:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        try:
            fine = read(provider, commit(provider, versions[2])) == rows_at(3) and read(
                provider, versions[1]
            ) == rows_at(1)
            os._exit(0 if fine else 1)
        finally:
            os._exit(2)
    done.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0


def test_the_querys_id_may_be_absent_and_is_read_once(
    executors_v1: Partition, caplog: pytest.LogCaptureFixture
) -> None:
    metadata = executors_v1.root / "metadata"
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            provider = executors_v1.open(min_deltas_for_snapshot=0)
            for version in chain(provider, 3)[1:]:
                provider.get_store(*version)
                provider.do_maintenance()
            assert caplog.text.count(str(metadata)) == metadata.exists()
            metadata.write_text("no JSON")


def test_a_record_that_could_not_be_read_again_is_refused(any_executors: Partition) -> None:
    provider = any_executors.open(max_record_bytes=100, row_checksum_enabled=True)
    version: VersionId = commit(provider, EMPTY, {bytes(100): bytes(100)})
    store = provider.get_store(*version)
    for key, value in ((b"k", bytes(101)), (bytes(101), b"v")):
        with pytest.raises(StateStoreError, match="max_record_bytes"):
            store.put(key, value)
        with pytest.raises(StateStoreError, match="max_record_bytes"):
            store.put_many(pa.array([b"", key], pa.binary()), pa.array([b"", value], pa.binary()))
    elsewhere = any_executors.open("elsewhere", max_record_bytes=100, row_checksum_enabled=True)
    assert read(elsewhere, ref(store.commit())) == {bytes(100): bytes(100)}
