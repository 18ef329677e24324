"""What a store and a provider tell of themselves, by Spark's names."""

from __future__ import annotations

from hdfsstore.state.protocols import StateStoreProvider
from tests.support.partition import EMPTY, Partition, write, write_chain


def test_a_stores_metrics(provider: StateStoreProvider) -> None:
    one = write(provider, EMPTY, {b"a": b"1", b"b": b"1", b"c": b"1"})
    store = provider.get_store(*one)
    assert rows(store.metrics) == (3, 0, 0)
    store.put(b"a", b"2")
    store.put(b"d", b"2")
    store.remove(b"b")
    store.remove(b"absent")
    assert rows(store.metrics) == (3, 2, 1)
    assert store.metrics["memoryUsedBytes"] > 0
    store.commit()
    assert rows(store.metrics) == (3, 2, 1)  # Spark asks after the commit


def rows(metrics: object) -> tuple[int, ...]:
    names = ("numTotalStateRows", "numUpdatedStateRows", "numRemovedStateRows")
    return tuple(metrics[name] for name in names)  # type: ignore[index]


def test_a_read_stores_metrics(provider: StateStoreProvider, partition: Partition) -> None:
    chain = write_chain(provider, 3)
    for executor in (provider, partition.open("elsewhere")):
        with executor.get_read_store(*chain[2]) as store:
            assert rows(store.metrics) == (3, 0, 0)


def test_a_providers_metrics_are_numbers_that_only_grow(partition: Partition) -> None:
    provider = partition.open(min_deltas_for_snapshot=0)
    before = dict(provider.metrics)
    assert before
    base = EMPTY
    for _ in range(4):
        base = write_chain(provider, 1, base)[-1]
        provider.do_maintenance()
    after = dict(provider.metrics)
    assert after.keys() >= before.keys()
    assert all(isinstance(value, int | float) for value in after.values())
    assert after != before


def test_hits_and_misses_of_the_memory_are_counted(provider: StateStoreProvider, partition: Partition) -> None:
    one = write(provider, EMPTY, {b"k": b"1"})
    cold = partition.open("elsewhere")
    cold.get_read_store(*one).close()
    assert (cold.metrics["loadedMapCacheHitCount"], cold.metrics["loadedMapCacheMissCount"]) == (0, 1)
    cold.get_read_store(*one).close()
    assert (cold.metrics["loadedMapCacheHitCount"], cold.metrics["loadedMapCacheMissCount"]) == (1, 1)
