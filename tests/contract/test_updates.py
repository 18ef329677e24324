"""Single keys: get, put, remove, iterator."""

from __future__ import annotations

import os

import pytest

from hdfsstore import StateStoreClosedError
from hdfsstore.state.protocols import StateStoreProvider
from tests.support.partition import EMPTY, Partition, contents, read, ref, write


def test_put_is_read_back_before_and_after_the_commit(provider: StateStoreProvider, partition: Partition) -> None:
    store = provider.get_store(0)
    store.put(b"k", b"1")
    assert store.get(b"k") == b"1"
    one = ref(store.commit())
    for executor in (provider, partition.open("elsewhere")):
        with executor.get_read_store(*one) as reader:
            assert (reader.get(b"k"), reader.get(b"l")) == (b"1", None)


def test_of_two_puts_the_last_holds(provider: StateStoreProvider, partition: Partition) -> None:
    store = provider.get_store(0)
    for value in (b"first", b"second, and longer", b"3"):
        store.put(b"k", value)
        assert store.get(b"k") == value
    one = ref(store.commit())
    assert read(provider, one) == read(partition.open("elsewhere"), one) == {b"k": b"3"}


def test_a_key_comes_and_goes(provider: StateStoreProvider, partition: Partition) -> None:
    one = write(provider, EMPTY, {b"k": b"1", b"l": b"1"})
    store = provider.get_store(*one)
    store.remove(b"k")
    assert store.get(b"k") is None
    assert contents(store) == {b"l": b"1"}
    store.put(b"k", b"2")
    assert store.get(b"k") == b"2"
    store.remove(b"k")
    store.put(b"k", b"3")
    store.remove(b"l")
    two = ref(store.commit())
    assert read(provider, two) == read(partition.open("elsewhere"), two) == {b"k": b"3"}
    three = write(provider, two, {b"k": None})
    assert read(provider, three) == read(partition.open("elsewhere"), three) == {}
    four = write(provider, three, {b"k": b"4"})
    assert read(provider, four) == read(partition.open("elsewhere"), four) == {b"k": b"4"}


def test_a_key_that_came_in_this_batch_is_removed_again(provider: StateStoreProvider, partition: Partition) -> None:
    store = provider.get_store(0)
    store.put(b"k", b"1")
    store.remove(b"k")
    assert (store.get(b"k"), contents(store)) == (None, {})
    one = ref(store.commit())
    assert read(provider, one) == read(partition.open("elsewhere"), one) == {}


def test_remove_of_an_absent_key_writes_nothing(provider: StateStoreProvider, partition: Partition) -> None:
    one = write(provider, EMPTY, {b"k": b"1"})
    nothing = write(provider, one, {})
    size = partition.backend.changes_of(partition.folder, *nothing).stat().st_size
    store = provider.get_store(*nothing)
    store.remove(b"absent")
    store.remove(os.urandom(1_000))  # would show in the size, whatever the codec
    assert store.metrics["numRemovedStateRows"] == 0
    removed = ref(store.commit())
    lineage_grows = 200  # by one entry, in format 2
    assert partition.backend.changes_of(partition.folder, *removed).stat().st_size <= size + lineage_grows
    assert read(provider, removed) == {b"k": b"1"}
    store = provider.get_store(*removed)
    store.remove(b"k")
    store.remove(b"k")
    assert store.metrics["numRemovedStateRows"] == 1


def test_iterator_gives_what_was_there_at_the_call(provider: StateStoreProvider) -> None:
    rows = {b"%d" % number: b"old" for number in range(3_000)}
    one = write(provider, EMPTY, rows)
    store = provider.get_store(*one)
    store.put(b"0", b"new")
    store.remove(b"1")
    expected = {key: value for key, value in {**rows, b"0": b"new"}.items() if key != b"1"}
    iterator = store.iterator()
    seen = [next(iterator)]
    for number in range(2, 3_000):
        store.put(b"%d" % number, b"later")
    store.put(b"later", b"later")
    store.remove(b"0")
    seen += iterator
    assert dict(seen) == expected
    assert len(seen) == len(expected)
    assert store.get(b"2") == b"later"


def test_two_iterators_and_updates_between_them(provider: StateStoreProvider) -> None:
    store = provider.get_store(*write(provider, EMPTY, {b"a": b"1", b"b": b"1"}))
    before = store.iterator()
    store.remove(b"a")
    between = store.iterator()
    store.put(b"a", b"3")
    store.put(b"c", b"3")
    assert dict(between) == {b"b": b"1"}
    assert dict(before) == {b"a": b"1", b"b": b"1"}
    assert contents(store) == {b"a": b"3", b"b": b"1", b"c": b"3"}


@pytest.mark.parametrize("end", ["commit", "abort", "close"])
def test_an_iterator_whose_store_has_ended_tells_the_truth_or_nothing(provider: StateStoreProvider, end: str) -> None:
    rows = {b"%d" % number: b"%d" % number for number in range(500)}
    store = provider.get_store(*write(provider, EMPTY, rows))
    store.put(b"more", b"1")
    iterator = store.iterator()
    seen = dict([next(iterator)])
    getattr(store, end)()
    try:
        seen |= iterator
    except StateStoreClosedError:
        assert seen.items() <= {**rows, b"more": b"1"}.items()
    else:
        assert seen == {**rows, b"more": b"1"}


def test_many_updates_in_one_batch(provider: StateStoreProvider, partition: Partition) -> None:
    store = provider.get_store(0)
    for number in range(20_000):
        store.put(b"%d" % (number % 7_000), b"%d" % number)
    for number in range(0, 7_000, 3):
        store.remove(b"%d" % number)
    expected = {b"%d" % (n % 7_000): b"%d" % n for n in range(20_000) if n % 7_000 % 3}
    assert contents(store) == expected
    one = ref(store.commit())
    assert read(provider, one) == read(partition.open("elsewhere"), one) == expected


@pytest.mark.parametrize("arguments", [("k", b"v"), (b"k", "v"), (b"k", None), (None, b"v")])
def test_keys_and_values_are_bytes(provider: StateStoreProvider, arguments: tuple[object, object]) -> None:
    store = provider.get_store(0)
    with pytest.raises(TypeError):
        store.put(*arguments)  # type: ignore[arg-type]
    assert contents(store) == {}
