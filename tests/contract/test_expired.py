"""Finds expired keys by the longs at an offset in the values."""

from __future__ import annotations

import struct
from collections.abc import Mapping

import pyarrow as pa
import pytest

from hdfsstore import SchemaMismatchError, UnsupportedProviderError
from hdfsstore.state.protocols import ReadStateStore, StateStoreProvider
from tests.contract.backends import INDEXED, VARIANTS
from tests.support.partition import EMPTY, Partition, Ref, ref, update, write

OFFSET = {"timeout_offset": 16}
WITH_INDEX = pytest.mark.parametrize("variant", INDEXED, ids=str)


def row(timeout: int | None) -> bytes:
    return struct.pack("<qqq", 0 if timeout is not None else 2, 0, timeout or 0)


def expired(store: ReadStateStore, end: int, max_rows: int = 2) -> dict[bytes, bytes]:
    found: list[tuple[bytes, bytes]] = []
    for keys, values in store.expired(end, max_rows):
        assert 0 < len(keys) <= max_rows
        found += zip(keys.to_pylist(), values.to_pylist(), strict=True)
    assert len(dict(found)) == len(found), "a key came twice"
    return dict(found)


@pytest.fixture
def indexed(partition: Partition) -> StateStoreProvider:
    return partition.open(**OFFSET)


@pytest.mark.parametrize("variant", [variant for variant in VARIANTS if variant not in INDEXED], ids=str)
def test_a_backend_without_the_index_refuses_it_by_name(partition: Partition) -> None:
    with pytest.raises(UnsupportedProviderError, match="timeout_offset"):
        partition.open(**OFFSET)
    with partition.open().get_store(0) as store:
        for ask in (lambda: store.expired(1, 1), store.next_expiry):
            with pytest.raises(UnsupportedProviderError, match="index"):
                ask()


@WITH_INDEX
def test_keys_expire_from_batch_to_batch(indexed: StateStoreProvider, partition: Partition) -> None:
    longs: dict[bytes, int | None] = {b"%d" % i: i for i in range(-5, 30)} | {b"null": None}
    base = write(indexed, EMPTY, {key: row(long) for key, long in longs.items()} | {b"short": b"15 bytes of this"})
    for number in range(4):
        store = indexed.get_store(*base)
        changes: Mapping[bytes, int | None] = {b"%d" % number: 1000 + number, b"new %d" % number: number, b"7": -1}
        update(store, {key: row(long) for key, long in changes.items()})
        longs |= changes
        check(store, longs, end=3 * number)
        for key in expired(store, 3 * number):
            store.remove(key)
            del longs[key]
        check(store, longs, end=3 * number + 2)
        base = ref(store.commit())
        indexed.do_maintenance()
        for provider in (indexed, partition.open("elsewhere", **OFFSET)):
            with provider.get_read_store(*base) as reader:
                check(reader, longs, end=3 * number + 2)


def check(store: ReadStateStore, longs: Mapping[bytes, int | None], end: int) -> None:
    indexed = {key: long for key, long in longs.items() if long is not None and long != -1}
    assert expired(store, end) == {key: row(long) for key, long in indexed.items() if long < end}
    assert store.next_expiry() == min(indexed.values())


@WITH_INDEX
def test_it_gives_what_was_there_at_the_call(indexed: StateStoreProvider) -> None:
    rows = {b"%d" % i: row(i) for i in range(500)}
    store = indexed.get_store(*write(indexed, EMPTY, rows))
    store.put(b"own", row(3))
    batches = store.expired(400, 30)
    found = dict(zip(*(array.to_pylist() for array in next(batches)), strict=True))
    for i in range(500):
        store.remove(b"%d" % i)
        store.put(b"later %d" % i, row(i))
    store.put(b"own", row(4))
    for keys, values in batches:
        found |= dict(zip(keys.to_pylist(), values.to_pylist(), strict=True))
    assert found == {key: value for key, value in rows.items() if int(key) < 400} | {b"own": row(3)}


@WITH_INDEX
def test_an_attempt_does_not_see_what_another_has_done(indexed: StateStoreProvider) -> None:
    base = write(indexed, EMPTY, {b"%d" % i: row(i) for i in range(10)})
    refs: list[Ref] = []
    for tag in (b"a", b"b"):
        with indexed.get_store(*base) as store:
            assert expired(store, 5) == {b"%d" % i: row(i) for i in range(5)}
            store.remove_many(pa.array(list(expired(store, 5)), pa.binary()))
            store.put(tag, row(7))
            assert store.next_expiry() == 5
            if tag == b"b":
                refs.append(ref(store.commit()))
    with indexed.get_read_store(*refs[0]) as reader:
        assert set(expired(reader, 8)) == {b"5", b"6", b"7", b"b"}


@WITH_INDEX
def test_arguments_that_make_no_sense(partition: Partition) -> None:
    for offset in (0, 7, 12, -8, 520):
        with pytest.raises(ValueError, match="timeout_offset"):
            partition.open(timeout_offset=offset)
    values = pa.schema([("text", pa.string()), ("timeout", pa.int64())])
    partition.open(value_schema=values, timeout_offset=16)
    with pytest.raises(SchemaMismatchError, match="'text'"):
        partition.open(value_schema=values, timeout_offset=8)
    with pytest.raises(ValueError, match="timeout_offset"):
        partition.open(value_schema=values, timeout_offset=24)
    with partition.open(**OFFSET).get_store(0) as store, pytest.raises(ValueError, match="max_rows"):
        store.expired(1, 0)
    with partition.open().get_store(0) as store:
        for ask in (lambda: store.expired(1, 1), store.next_expiry):
            with pytest.raises(ValueError, match="timeout offset"):
                ask()
