"""Several providers on one folder, several threads, and forked children."""

from __future__ import annotations

import multiprocessing
import threading
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection

import pytest

from hdfsstore import StateStoreError
from hdfsstore.state.protocols import StateStoreProvider
from tests.contract.backends import WITH_IDS
from tests.support.partition import EMPTY, Partition, Ref, State, contents, read, ref, state_after, write, write_chain
from tests.support.threads import at_once


@pytest.mark.parametrize("hosts", [("one", "one"), ("one", "two")], ids=["one host", "two hosts"])
def test_two_providers_take_turns(partition: Partition, hosts: tuple[str, str]) -> None:
    executors = [partition.open(host, min_deltas_for_snapshot=1) for host in hosts]
    chain = [EMPTY]
    for version in range(1, 13):
        executor = executors[version // 2 % 2]
        chain += write_chain(executor, 1, chain[-1])[1:]
        executors[version % 2].do_maintenance()
        assert [read(executor, chain[-1]) for executor in executors] == [state_after(version)] * 2
    assert [read(partition.open("three"), version) for version in chain] == [state_after(v) for v in range(13)]


def test_two_attempts_of_one_version(partition: Partition) -> None:
    one, two = partition.open("one"), partition.open("two")
    base = write_chain(one, 3)[-1]
    attempts = [executor.get_store(*base) for executor in (one, two)]
    states = []
    for number, store in enumerate(attempts):
        store.put(b"attempt", b"%d" % number)
        store.put(b"of %d" % number, b"1")
        states.append(contents(store))
    refs = [ref(store.commit()) for store in attempts]
    cold = partition.open("three")
    if partition.conf.checkpoint_format_version == 1:
        assert read(cold, refs[0]) == states[1]  # the last one wins, whole
    else:
        assert [read(cold, attempt) for attempt in refs] == states
        assert [read(one, attempt) for attempt in refs] == [read(two, attempt) for attempt in refs] == states


def test_threads_with_a_store_each_read(provider: StateStoreProvider) -> None:
    chain = write_chain(provider, 8)
    seen = at_once(lambda number: [read(provider, chain[1 + number]) for _ in range(30)], 8)
    assert seen == [[state_after(version)] * 30 for version in range(1, 9)]


def test_threads_with_a_store_each_write(provider: StateStoreProvider, partition: Partition) -> None:
    base = write_chain(provider, 3)[-1]
    start = threading.Barrier(7)

    def attempt(number: int) -> Ref:
        store = provider.get_store(*base)
        start.wait()
        for step in range(300):
            store.put(b"%d of %d" % (step, number), b"%d" % number)
            assert store.get(b"last") == b"3"
        return ref(store.commit())

    def maintain() -> None:
        start.wait()
        for _ in range(20):
            provider.do_maintenance()

    with ThreadPoolExecutor(7) as pool:
        running = [pool.submit(attempt, number) for number in range(6)]
        pool.submit(maintain).result()
        refs = [each.result() for each in running]
    states = [{**state_after(3), **{b"%d of %d" % (s, n): b"%d" % n for s in range(300)}} for n in range(6)]
    cold = partition.open("elsewhere")
    if partition.conf.checkpoint_format_version == 1:
        assert read(cold, refs[0]) in states
    else:
        assert [read(provider, each) for each in refs] == [read(cold, each) for each in refs] == states


@pytest.mark.parametrize("variant", WITH_IDS, ids=str)
def test_each_thread_goes_its_own_way(partition: Partition) -> None:
    """Lineages that share a base, grown at once, through one provider."""
    provider = partition.open(min_deltas_for_snapshot=2)
    base = write_chain(provider, 3)[-1]

    def grow(number: int) -> tuple[list[Ref], list[State]]:
        at, refs, states = base, [], []
        rows = state_after(3)
        for step in range(15):
            at = write(provider, at, {b"step": b"%d" % step, b"of %d" % number: b"%d" % step, b"key 1": None})
            rows = {**rows, b"step": b"%d" % step, b"of %d" % number: b"%d" % step}
            rows.pop(b"key 1", None)
            refs.append(at)
            states.append(rows)
            provider.do_maintenance()
        return refs, states

    with ThreadPoolExecutor(4) as pool:
        grown = list(pool.map(grow, range(4)))
    cold = partition.open("elsewhere")
    for refs, states in grown:
        assert [read(cold, each) for each in refs] == states


def test_a_forked_child_reads_and_writes(provider: StateStoreProvider, partition: Partition) -> None:
    chain = write_chain(provider, 4)
    writer = provider.get_store(*chain[-1])
    writer.put(b"parent", b"1")
    fork = multiprocessing.get_context("fork")
    ours, theirs = fork.Pipe()
    child = fork.Process(target=_child, args=(provider, partition, chain, theirs))
    child.start()
    theirs.close()
    seen, of_child = ours.recv() if ours.poll(60) else ("the child hangs", EMPTY)
    child.join(60)
    expected = [state_after(version) if partition.backend.forks else "refused" for version in range(5)]
    assert (seen, child.exitcode) == (expected, 0)
    of_parent = ref(writer.commit())
    provider.do_maintenance()
    parents, childs = {**state_after(4), b"parent": b"1"}, {**state_after(4), b"child": b"1"}
    cold = partition.open("elsewhere")
    assert read(provider, of_parent) == read(cold, of_parent) == parents
    if partition.conf.checkpoint_format_version == 2 and partition.backend.forks:
        assert read(provider, of_child) == read(cold, of_child) == childs


def _child(provider: StateStoreProvider, partition: Partition, chain: list[Ref], pipe: Connection) -> None:
    if not partition.backend.forks:
        for executor in (provider, partition.open()):
            for version in chain:
                with pytest.raises(StateStoreError):
                    executor.get_read_store(*version)
        provider.close()
        pipe.send((["refused"] * len(chain), EMPTY))
        return
    warm = [read(provider, version) for version in chain]
    cold = partition.open()
    assert [read(cold, version) for version in chain] == warm
    written = write(provider, chain[-1], {b"child": b"1"})
    provider.do_maintenance()
    assert read(provider, written) == {**warm[-1], b"child": b"1"}
    provider.close()
    pipe.send((warm, written))
