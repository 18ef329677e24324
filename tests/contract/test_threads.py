"""All calls of one provider, by threads at once: what each sees is what a dict of its own says."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator

import pytest

from hdfsstore import StateStoreClosedError
from hdfsstore.state.protocols import ReadStateStore, StateStore, StateStoreProvider
from tests.contract.rows import KEY, SCHEMAS, VALUE, keys, prefix, unsafe, values
from tests.support.partition import EMPTY, Partition, Ref, ref
from tests.support.threads import at_once

Rows = dict[tuple[str, int], tuple[int, str]]
WORDS = ("one", "two", "three")
ROUNDS = 5
NUMBER_OF_THREADS = pytest.mark.parametrize("threads", [2, pytest.param(8, marks=pytest.mark.thorough)])


def rows_of(numbers: range, note: str) -> Rows:
    return {(WORDS[i % 3], i): (i, note) for i in numbers}


def put(store: StateStore, rows: Rows) -> None:
    store.put_batch(keys(list(rows)), values(list(rows.values())))


def unsafe_rows(rows: Rows) -> dict[bytes, bytes]:
    return dict(zip(unsafe(KEY, keys(list(rows))), unsafe(VALUE, values(list(rows.values()))), strict=True))


def check(store: ReadStateStore, rows: Rows, indexed: bool) -> None:
    """Looks at a store by every call that reads."""
    for word in WORDS:
        expected = unsafe_rows({key: value for key, value in rows.items() if key[0] == word})
        assert dict(store.prefix_scan(prefix(word))) == expected
    assert {
        tuple(row["key"].values()): tuple(row["value"].values()) for b in store.scan() for row in b.to_pylist()
    } == rows
    assert dict(store.iterator()) == unsafe_rows(rows)
    asked = [*rows, ("none", 0)]
    found = store.get_batch(keys(asked)).to_pylist()
    assert [tuple(row.values()) for row in found] == [*rows.values(), (None, None)]
    first = next(iter(unsafe_rows(rows)))
    assert store.get(first) == unsafe_rows(rows)[first]
    if indexed:
        batches = [zip(*(a.to_pylist() for a in b), strict=True) for b in store.expired(50, 7)]
        expired = {key: value for pairs in batches for key, value in pairs}
        assert expired == unsafe_rows({key: value for key, value in rows.items() if value[0] < 50})
        assert store.next_expiry() == min(value[0] for value in rows.values())
    assert store.metrics["numTotalStateRows"] == len(rows)


def change(store: StateStore, rows: Rows, number: int, step: int) -> Rows:
    """Updates that are a thread's own, by every call that writes."""
    note = f"{number} at {step}"
    changed = rows_of(range(number, 300, 7), note)
    put(store, changed)
    removed = sorted(rows)[step :: number + 10]
    store.remove_batch(keys(removed))
    rows = {key: value for key, value in {**rows, **changed}.items() if key not in removed}
    for key, value in unsafe_rows(added := {("one", 1000 + number): (40 + step, note)}).items():
        store.put(key, value)
    store.remove(unsafe(KEY, keys([("two", 5)]))[0])
    rows.pop(("two", 5), None)
    return {**rows, **added}


@pytest.fixture
def indexed(partition: Partition) -> bool:
    return partition.backend.indexes


@pytest.fixture
def open_one(partition: Partition, indexed: bool) -> Callable[[str], StateStoreProvider]:
    """Opens providers that find rows by a prefix and, where the backend does, by the first column of the value."""
    schemas = {**SCHEMAS, "timeout_offset": 8} if indexed else SCHEMAS
    return lambda host: partition.open(host, **schemas, min_deltas_for_snapshot=1)


@NUMBER_OF_THREADS
def test_each_thread_sees_its_own(
    partition: Partition, open_one: Callable[[str], StateStoreProvider], indexed: bool, threads: int
) -> None:
    writer = open_one("host")
    chain: list[tuple[Ref, Rows]] = [(EMPTY, {})]
    for step in range(3):
        store = writer.get_store(*chain[-1][0])
        put(store, more := rows_of(range(100 * step, 100 * step + 150), f"base {step}"))
        chain.append((ref(store.commit()), {**chain[-1][1], **more}))
    writer.do_maintenance()
    provider = open_one("host")  # it begins with the image of another one, if the backend has them

    def work(number: int) -> tuple[Ref, Rows]:
        base, rows = chain[-1]
        made = base, rows
        for step in range(ROUNDS):
            store = provider.get_store(*base)
            made_rows = change(store, rows, number, step)
            check(store, made_rows, indexed)
            made = ref(store.commit()), made_rows
            if partition.conf.checkpoint_format_version == 2:
                base, rows = made
            read, expected = chain[1 + (number + step) % 3]
            with provider.get_read_store(*read) as reader:
                check(reader, expected, indexed)
                if number % 3 == 0:
                    provider.do_maintenance()
                elif number % 3 == 1:
                    provider.release()
                assert provider.metrics["memoryUsedBytes"] >= 0
                check(reader, expected, indexed)
        return made

    made = at_once(work, threads)
    if partition.conf.checkpoint_format_version == 2:
        for executor in (provider, open_one("elsewhere")):
            for version, rows in made:
                with executor.get_read_store(*version) as reader:
                    check(reader, rows, indexed)
    else:  # of attempts without ids the last one holds, whole
        version = made[0][0]
        with open_one("elsewhere").get_read_store(*version) as reader:
            assert dict(reader.iterator()) in [unsafe_rows(rows) for _, rows in made]


@NUMBER_OF_THREADS
def test_a_provider_that_is_closed_under_its_threads(
    open_one: Callable[[str], StateStoreProvider], indexed: bool, threads: int
) -> None:
    """Who has a store goes on reading; who asks for one is told."""
    provider = open_one("host")
    store = provider.get_store(*EMPTY)
    put(store, rows := rows_of(range(100), "base"))
    base = ref(store.commit())
    begun = threading.Semaphore(0)

    def reads() -> Iterator[None]:
        while True:
            with provider.get_read_store(*base) as reader, provider.get_store(*base) as writer:
                changed = change(writer, rows, 1, 1)
                begun.release()
                yield
                check(reader, rows, indexed)
                check(writer, changed, indexed)

    def work(number: int) -> None:
        if number == 0:
            for _ in range(threads):
                assert begun.acquire(timeout=600)
            provider.close()
            return
        rounds = reads()
        with pytest.raises(StateStoreClosedError, match="was closed"):
            deque(rounds if number > 1 else (provider.do_maintenance() for _ in rounds), maxlen=0)

    at_once(work, threads)
