"""The two examples of SPARK-49374's appendix: with format 1 a row is lost, or one too many is left; with format 2 not.

Two providers stand for two executors, each with its own local folder and memory; the driver is played by the test.
"""

from __future__ import annotations

import pytest

from hdfsstore.state.protocols import StateStore
from tests.support.partition import EMPTY, Partition, Ref, contents, read, ref, write
from tests.unit.state.hdfs.conftest import MakePartition


def collect(store: StateStore, key: bytes, payload: bytes) -> Ref:
    """A batch of groupBy(random_key).agg(collect_list(payload)) with one input row."""
    before = store.get(key)
    store.put(key, payload if before is None else before + b"," + payload)
    return ref(store.commit())


def random_key_query(partition: Partition, chosen: int) -> tuple[list[Ref], Ref]:
    """Batch 1 runs twice; batch 2 runs on the second task's executor, from when its base is there.

    The first task is the slower one, and its executor makes a snapshot of its outcome.

    Returns:
        What both tasks of batch 1 reported, and what batch 2 did on top of the chosen one.
    """
    executors = [partition.open("one"), partition.open("two")]
    tasks = [executor.get_store(*EMPTY) for executor in executors]
    first = [EMPTY, collect(tasks[1], b"8", b"foo")]
    next_batch = executors[1].get_store(*first[1])
    first[0] = collect(tasks[0], b"6", b"foo")
    executors[0].do_maintenance()
    if chosen == 0:
        next_batch = executors[1].get_store(*first[0])
    return first, collect(next_batch, b"6", b"bar")


def test_random_key_with_format_1_loses_foo(make_partition: MakePartition) -> None:
    partition = make_partition(checkpoint_format_version=1, min_deltas_for_snapshot=0)
    first, second = random_key_query(partition, chosen=1)
    assert (partition.folder / "1.snapshot").exists()
    restarted = partition.open("three")
    assert read(restarted, first[1]) == {b"6": b"foo"}
    assert read(restarted, second) == {b"6": b"bar"}


@pytest.mark.parametrize(("chosen", "expected"), [(0, {b"6": b"foo,bar"}), (1, {b"8": b"foo", b"6": b"bar"})])
def test_random_key_with_format_2_keeps_foo(
    make_partition: MakePartition, chosen: int, expected: dict[bytes, bytes]
) -> None:
    partition = make_partition(checkpoint_format_version=2, min_deltas_for_snapshot=0)
    first, second = random_key_query(partition, chosen)
    for executor in (partition.open("one"), partition.open("two"), partition.open("three")):
        assert read(executor, second) == expected
        assert [read(executor, attempt) for attempt in first] == [{b"6": b"foo"}, {b"8": b"foo"}]


def sample(store: StateStore, element: bytes, dropped: bytes) -> Ref:
    """A batch of a function that keeps exactly three elements: one comes, and one that it picks goes."""
    assert len(contents(store)) == 3
    store.put(element, b"")
    store.remove(dropped)
    assert len(contents(store)) == 3
    return ref(store.commit())


def sampling_query(partition: Partition, chosen: int) -> tuple[list[Ref], Ref]:
    """Batch n runs twice: task 1 drops A, task 2 drops B, ends later, and its executor makes a snapshot.

    Batch n+1 runs on task 1's executor, from when its base is there. It drops B, or C where B is gone.
    """
    executors = [partition.open("one"), partition.open("two")]
    base = write(executors[0], EMPTY, {b"A": b"", b"B": b"", b"C": b""})
    tasks = [executor.get_store(*base) for executor in executors]
    attempts = [sample(tasks[0], b"D", dropped=b"A"), EMPTY]
    next_batch = executors[0].get_store(*attempts[0])
    attempts[1] = sample(tasks[1], b"D", dropped=b"B")
    executors[1].do_maintenance()
    if chosen == 1:
        next_batch = executors[0].get_store(*attempts[1])
    return attempts, sample(next_batch, b"E", dropped=b"B" if next_batch.get(b"B") is not None else b"C")


def test_sampling_with_format_1_leaves_4_elements(make_partition: MakePartition) -> None:
    partition = make_partition(checkpoint_format_version=1, min_deltas_for_snapshot=0)
    attempts, last = sampling_query(partition, chosen=0)
    assert (partition.folder / "2.snapshot").exists()
    restarted = partition.open("three")
    assert set(read(restarted, attempts[0])) == {b"A", b"C", b"D"}
    assert set(read(restarted, last)) == {b"A", b"C", b"D", b"E"}


@pytest.mark.parametrize(("chosen", "expected"), [(0, {b"C", b"D", b"E"}), (1, {b"A", b"D", b"E"})])
def test_sampling_with_format_2_leaves_3_elements(
    make_partition: MakePartition, chosen: int, expected: set[bytes]
) -> None:
    partition = make_partition(checkpoint_format_version=2, min_deltas_for_snapshot=0)
    attempts, last = sampling_query(partition, chosen)
    for executor in (partition.open("one"), partition.open("two"), partition.open("three")):
        assert set(read(executor, last)) == expected
        assert [set(read(executor, attempt)) for attempt in attempts] == [{b"B", b"C", b"D"}, {b"A", b"C", b"D"}]
