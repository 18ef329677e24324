"""A store is used once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pyarrow as pa
import pytest

from hdfsstore import StateStoreClosedError, StateStoreError
from hdfsstore.state.protocols import ReadStateStore, StateStore, StateStoreProvider
from tests.contract.rows import KEY, SCHEMAS, VALUE, keys, prefix, unsafe, values
from tests.support.partition import EMPTY, Partition, read, ref, state_after, write, write_chain

KEYS, VALUES = keys([("a", 1)]), values([(1, "x")])
K, V = unsafe(KEY, KEYS)[0], unsafe(VALUE, VALUES)[0]
MANY = pa.array([K], pa.binary())
READS: dict[str, Callable[[ReadStateStore], object]] = {
    "get": lambda store: store.get(K),
    "get_many": lambda store: store.get_many(MANY),
    "get_batch": lambda store: store.get_batch(KEYS),
    "iterator": lambda store: list(store.iterator()),
    "scan": lambda store: list(store.scan()),
    "prefix_scan": lambda store: list(store.prefix_scan(prefix("a"))),
}
# Not every backend has these.
EXPIRED: dict[str, Callable[[ReadStateStore], object]] = {
    "expired": lambda store: store.expired(1),
    "next_expiry": lambda store: store.next_expiry(),
}
WRITES: dict[str, Callable[[StateStore], object]] = {
    "put": lambda store: store.put(K, V),
    "put_many": lambda store: store.put_many(MANY, pa.array([V], pa.binary())),
    "put_batch": lambda store: store.put_batch(KEYS, VALUES),
    "remove": lambda store: store.remove(K),
    "remove_many": lambda store: store.remove_many(MANY),
    "remove_batch": lambda store: store.remove_batch(KEYS),
    "commit": lambda store: store.commit(),
    "abort": lambda store: store.abort(),
}
ENDS = ("commit", "abort", "close")


@pytest.fixture
def provider(partition: Partition) -> StateStoreProvider:
    return partition.open(**SCHEMAS)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("call", [*READS, *WRITES, *EXPIRED])
def test_a_store_that_has_ended_raises(provider: StateStoreProvider, partition: Partition, end: str, call: str) -> None:
    one = write(provider, EMPTY, {})
    store = provider.get_store(*one)
    getattr(store, end)()
    files = partition.backend.files(partition.folder)
    with pytest.raises(StateStoreClosedError):
        {**READS, **WRITES, **EXPIRED}[call](store)
    assert partition.backend.files(partition.folder) == files


@pytest.mark.parametrize("call", READS)
def test_a_read_store_that_was_closed_raises(provider: StateStoreProvider, call: str) -> None:
    store = provider.get_read_store(0)
    READS[call](store)
    store.close()
    with pytest.raises(StateStoreClosedError):
        READS[call](store)


@pytest.mark.parametrize("end", ENDS)
def test_close_after_the_end_is_harmless(provider: StateStoreProvider, end: str) -> None:
    with provider.get_store(0) as store:
        getattr(store, end)()
    store.close()


def test_leaving_the_block_without_a_commit_aborts(provider: StateStoreProvider, partition: Partition) -> None:
    one = write(provider, EMPTY, {K: b"1"})
    files = partition.backend.files(partition.folder)
    with provider.get_store(*one) as store:
        store.put(K, b"2")
    with contextlib.suppress(KeyError), provider.get_store(*one) as store:
        store.put(K, b"3")
        raise KeyError
    assert partition.backend.files(partition.folder) == files
    assert read(provider, one) == {K: b"1"}


def test_a_provider_that_was_closed_opens_nothing(provider: StateStoreProvider) -> None:
    one = write(provider, EMPTY, {K: b"1"})
    with provider:
        pass
    provider.close()
    for version in (EMPTY, one):
        with pytest.raises(StateStoreError):
            provider.get_store(*version)


def test_a_store_that_is_open_when_its_provider_is_closed_reads_on(provider: StateStoreProvider) -> None:
    one = write(provider, EMPTY, {K: b"1"})
    reader = provider.get_read_store(*one)
    writer = provider.get_store(*one)
    writer.put(K, b"2")
    provider.close()
    assert dict(reader.iterator()) == {K: b"1"}
    assert (writer.get(K), reader.get(K)) == (b"2", b"1")
    reader.close()


@pytest.mark.local_disk
@pytest.mark.parametrize("trouble", ["no_folder", "full_disk"])
def test_a_commit_that_fails_ends_nothing_but_itself(
    provider: StateStoreProvider, partition: Partition, trouble: str
) -> None:
    one = write(provider, EMPTY, {K: b"1"})
    before = sorted(path.name for path in partition.folder.iterdir())
    store = provider.get_store(*one)
    store.put(K, b"2")
    with getattr(partition, trouble)(), pytest.raises(StateStoreError):
        store.commit()
    assert sorted(path.name for path in partition.folder.iterdir()) == before
    with pytest.raises(StateStoreClosedError):
        store.commit()
    assert read(provider, one) == read(partition.open("elsewhere", **SCHEMAS), one) == {K: b"1"}
    again = provider.get_store(*one)
    again.put(K, b"3")
    two = ref(again.commit())
    assert read(provider, two) == read(partition.open("elsewhere", **SCHEMAS), two) == {K: b"3"}


@pytest.mark.thorough
@pytest.mark.local_disk
@pytest.mark.parametrize("trouble", ["no_folder", "full_disk"])
def test_maintenance_that_fails_is_made_up_for_later(partition: Partition, trouble: str) -> None:
    provider = partition.open(min_deltas_for_snapshot=1)
    chain = write_chain(provider, 4)
    with getattr(partition, trouble)(), contextlib.suppress(StateStoreError):
        provider.do_maintenance()
    chain += write_chain(provider, 4, chain[-1])[1:]
    provider.do_maintenance()
    chain += write_chain(provider, 1, chain[-1])[1:]
    provider.do_maintenance()
    assert list(partition.folder.glob(f"*.{partition.backend.whole}"))
    assert [read(partition.open("elsewhere"), version) for version in chain] == [state_after(v) for v in range(10)]
