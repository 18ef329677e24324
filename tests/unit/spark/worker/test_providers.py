"""The cached providers of a worker, and their counters in each report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hdfsstore.spark.worker.providers import Providers
from tests.support.images import needs_smaps, resident
from tests.support.query_partition import QueryPartition, struct


def test_maintenance_between_two_tasks_is_in_the_second_report(tmp_path: Path) -> None:
    query = QueryPartition(tmp_path, struct(k="long"), struct(n="long")).query
    query = replace(query, store_conf=replace(query.store_conf, min_deltas_for_snapshot=0))
    providers = Providers()
    unique_id = None
    reports = []
    for version in range(3):
        provider = providers.get(query, 0, version)
        store = provider.get_store(version, unique_id)
        store.put(b"key%d" % version + b"\0" * 12, b"\0" * 16)
        unique_id = store.commit().checkpoint_unique_id
        reports.append(providers.unreported(query, 0, store.metrics))
        provider.do_maintenance()
    assert [report["numTotalStateRows"] for report in reports] == [1, 2, 3]
    assert [report["snapshotsUploaded"] for report in reports] == [0, 1, 1]
    assert providers.get(query, 0, 3) is provider
    assert providers.unreported(query, 1, {"snapshotsUploaded": 2}) == {"snapshotsUploaded": 2}


def two_workers(folder: Path, turns: list[list[int]]) -> list[dict[int, int]]:
    """Returns, for each batch, how many deltas a worker read to load the partitions that `turns` gives it.

    Another worker gets the rest of the six partitions.
    """
    query = QueryPartition(folder, struct(k="long"), struct(n="long")).query
    one, other = Providers(), Providers()
    ids: dict[int, str | None] = dict.fromkeys(range(6))
    read: list[dict[int, int]] = []
    for batch_id, given in enumerate(turns):
        read.append({})
        for partition_id in range(6):
            provider = (one if partition_id in given else other).get(query, partition_id, batch_id)
            before = provider.metrics["deltasLoaded"]
            store = provider.get_store(batch_id, ids[partition_id])
            assert (store.get(bytes(20)) or b"\xff")[0] == (batch_id - 1) % 256
            store.put(bytes(20), bytes([batch_id] * 16))
            ids[partition_id] = store.commit().checkpoint_unique_id
            if partition_id in given:
                read[-1][partition_id] = int(store.metrics["deltasLoaded"] - before)
    return read


def test_what_a_worker_is_given_again_it_has_in_memory(tmp_path: Path) -> None:
    assert two_workers(tmp_path, [list(range(6))] * 3)[1:] == [dict.fromkeys(range(6), 0)] * 2


def test_what_another_was_given_once_costs_one_delta(tmp_path: Path) -> None:
    assert two_workers(tmp_path, [[0, 1], [0], [0, 1]])[2] == {0: 0, 1: 1}


def test_a_partition_that_was_passed_over_is_released_where_many_are_cached(tmp_path: Path) -> None:
    read = two_workers(tmp_path, [[0, 1, 2, 3, 5], [3], [3, 5], [0]])
    assert read[2] == {3: 0, 5: 1}, "the worker could not tell that it would not be given 5 in batch 1"
    assert read[3] == {0: 3}


def test_a_partition_that_others_were_given_for_some_batches_is_released(tmp_path: Path) -> None:
    assert two_workers(tmp_path, [[0, 1], *[[0]] * 8, [0, 1]])[9] == {0: 0, 1: 9}


@needs_smaps
def test_only_the_partition_that_was_given_keeps_pages_of_its_image(tmp_path: Path) -> None:
    query = QueryPartition(tmp_path, struct(k="long"), struct(n="long")).query
    query = replace(query, store_conf=replace(query.store_conf, min_deltas_for_snapshot=0, maintenance_interval=0))
    providers = Providers()
    ids = []
    for partition_id in range(3):
        store = providers.get(query, partition_id, 0).get_store(0)
        store.put(bytes(16), bytes([partition_id] * 16))
        ids.append(store.commit().checkpoint_unique_id)
    for partition_id, unique_id in enumerate(ids):
        provider = providers.get(query, partition_id, 1)
        provider.get_store(1, unique_id).close()
        provider.do_maintenance()
    for partition_id, unique_id in [*enumerate(ids)] * 2:
        store = providers.get(query, partition_id, 2).get_store(1, unique_id)
        assert store.get(bytes(16)) == bytes([partition_id] * 16)
        assert sorted(bool(size) for size in resident(tmp_path).values()) == [False, False, True]
