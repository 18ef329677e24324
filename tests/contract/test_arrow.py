"""Many keys at once: byte arrays, and rows by the schemas."""

from __future__ import annotations

import dataclasses
import random

import pyarrow as pa
import pytest

from hdfsstore import SchemaMismatchError, StateStoreError, partition_ids
from hdfsstore.state.protocols import StateStore, StateStoreProvider
from tests.contract.rows import KEY, SCHEMAS, VALUE, keys, prefix, unsafe, values
from tests.support.partition import EMPTY, Partition, contents, read, ref, write

REFUSED = (ValueError, TypeError, StateStoreError)
BINARIES = (pa.binary(), pa.large_binary())


def rows_of(count: int, seed: int = 1) -> dict[bytes, bytes]:
    pick = random.Random(seed)
    return {b"key %d" % n + pick.randbytes(n % 40): pick.randbytes(pick.randrange(80)) for n in range(count)}


@pytest.mark.parametrize("binary", BINARIES, ids=str)
def test_many_keys_are_put_got_and_removed(
    provider: StateStoreProvider, partition: Partition, binary: pa.DataType
) -> None:
    rows = rows_of(5_000)
    store = provider.get_store(0)
    store.put_many(pa.array(rows, binary), pa.array(rows.values(), binary))
    asked = [*list(rows)[::-3], b"absent", b""]
    got = store.get_many(pa.array(asked, binary))
    assert got.to_pylist() == [rows.get(key) for key in asked]
    assert got.type in BINARIES
    got.validate(full=True)
    gone = [*list(rows)[::5], b"absent", *list(rows)[::5]]
    store.remove_many(pa.array(gone, binary))
    expected = {key: value for key, value in rows.items() if key not in set(gone)}
    assert contents(store) == expected
    one = ref(store.commit())
    assert read(provider, one) == read(partition.open("elsewhere"), one) == expected


def test_many_keys_on_top_of_an_older_version(provider: StateStoreProvider, partition: Partition) -> None:
    rows = rows_of(3_000)
    one = write(provider, EMPTY, rows)
    changed = dict.fromkeys(list(rows)[::4], b"changed")
    for executor in (provider, partition.open("elsewhere")):
        store = executor.get_store(*one)
        store.put_many(pa.array(changed, pa.binary()), pa.array(changed.values(), pa.binary()))
        store.remove_many(pa.array(list(rows)[1::4], pa.binary()))
        expected = {key: value for key, value in {**rows, **changed}.items() if key not in list(rows)[1::4]}
        assert store.get_many(pa.array(rows, pa.binary())).to_pylist() == [expected.get(key) for key in rows]
        assert contents(store) == expected
        store.abort()


@pytest.mark.parametrize("binary", BINARIES, ids=str)
def test_no_keys_at_all(provider: StateStoreProvider, binary: pa.DataType) -> None:
    store = provider.get_store(0)
    empty = pa.array([], binary)
    store.put_many(empty, empty)
    store.remove_many(empty)
    got = store.get_many(empty)
    assert (len(got), contents(store)) == (0, {})
    assert got.type in BINARIES


def test_empty_keys_and_values(provider: StateStoreProvider) -> None:
    store = provider.get_store(0)
    nothing = pa.array([b"", b""], pa.binary())
    store.put_many(nothing, nothing)
    assert contents(store) == {b"": b""}
    assert store.get_many(nothing).to_pylist() == [b"", b""]


@pytest.mark.parametrize("binary", BINARIES, ids=str)
def test_slices(provider: StateStoreProvider, binary: pa.DataType) -> None:
    rows = rows_of(100)
    some = dict(list(rows.items())[17:60])
    store = provider.get_store(0)
    store.put_many(pa.array(rows, binary)[17:60], pa.array([b"x", *rows.values()], binary)[18:61])
    assert contents(store) == some
    assert store.get_many(pa.array(rows, binary)[10:30]).to_pylist() == [some.get(key) for key in list(rows)[10:30]]
    store.remove_many(pa.array(rows, binary)[17:59])
    assert contents(store) == dict(list(some.items())[-1:])


def test_of_a_key_that_is_there_twice_the_last_holds(provider: StateStoreProvider, partition: Partition) -> None:
    store = provider.get_store(0)
    twice = [b"k", b"l", b"k"]
    store.put_many(pa.array(twice, pa.binary()), pa.array([b"1", b"2", b"3"], pa.binary()))
    assert store.get_many(pa.array(twice, pa.binary())).to_pylist() == [b"3", b"2", b"3"]
    one = ref(store.commit())
    assert read(partition.open("elsewhere"), one) == {b"k": b"3", b"l": b"2"}


@pytest.mark.parametrize("binary", BINARIES, ids=str)
def test_nulls_and_unequal_lengths_are_refused(provider: StateStoreProvider, binary: pa.DataType) -> None:
    store = provider.get_store(*write(provider, EMPTY, {b"k": b"1"}))
    whole, holed = pa.array([b"k", b"l"], binary), pa.array([b"k", None], binary)
    with pytest.raises(REFUSED):
        store.put_many(holed, whole)
    with pytest.raises(REFUSED):
        store.put_many(whole, holed)
    with pytest.raises(REFUSED):
        store.put_many(whole, whole[:1])
    with pytest.raises(REFUSED):
        store.get_many(holed)
    with pytest.raises(REFUSED):
        store.remove_many(holed)
    assert contents(store) == {b"k": b"1"}
    assert read(provider, ref(store.commit())) == {b"k": b"1"}


def test_a_null_outside_the_slice_is_none(provider: StateStoreProvider) -> None:
    store = provider.get_store(0)
    holed = pa.array([None, b"k", b"l"], pa.binary())
    store.put_many(holed[1:], holed[1:])
    assert store.get_many(holed[1:2]).to_pylist() == [b"k"]


@pytest.mark.parametrize("other", [pa.array(["k"]), pa.array([1]), [b"k"], pa.chunked_array([[b"k"]]), None])
def test_only_binary_arrays_are_taken(provider: StateStoreProvider, other: object) -> None:
    store = provider.get_store(0)
    for call in (store.get_many, store.remove_many):
        with pytest.raises(REFUSED):
            call(other)  # type: ignore[arg-type, operator]


def test_the_array_may_go_once_it_was_put(provider: StateStoreProvider) -> None:
    store = provider.get_store(0)
    buffer = bytearray(b"keykeyvalval")
    offsets = pa.py_buffer(b"".join(n.to_bytes(4, "little") for n in (0, 6)))
    key = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, pa.py_buffer(buffer)])
    store.put_many(key, key)
    del key
    buffer[:] = bytes(len(buffer))
    assert contents(store) == {b"keykey": b"keykey"}


@pytest.fixture
def typed(partition: Partition) -> StateStoreProvider:
    return partition.open(**SCHEMAS)


WORDS: list[tuple[str | None, int | None]] = [("a", 1), ("b", 2), ("a", 2), (None, 1), ("ä" * 40, None)]
NOTES: list[tuple[int | None, str | None]] = [(1, "x"), (2, None), (None, ""), (4, "long " * 20), (5, "e")]


def filled(store: StateStore) -> StateStore:
    store.put_batch(keys(WORDS), values(NOTES))
    return store


def test_rows_are_put_got_and_removed(typed: StateStoreProvider, partition: Partition) -> None:
    one = ref(filled(typed.get_store(0)).commit())
    store = partition.open("elsewhere", **SCHEMAS).get_store(*one)
    asked = [*WORDS[::-1], ("absent", 1)]
    got = store.get_batch(keys(asked))
    assert got.schema.names == ["count", "note"]
    notes = [*NOTES[::-1], (None, None)]
    assert list(zip(got["count"].to_pylist(), got["note"].to_pylist(), strict=True)) == notes
    store.remove_batch(keys(WORDS[:2]))
    store.put_batch(keys(WORDS[2:3]), values([(9, "nine")]))
    two = ref(store.commit())
    expected = dict(zip(WORDS[2:], [(9, "nine"), *NOTES[3:]], strict=True))
    assert scanned(typed.get_store(*two)) == expected


def scanned(store: StateStore) -> dict[tuple[object, ...], tuple[object, ...]]:
    rows = {}
    for batch in store.scan():
        assert batch.schema.names == ["key", "value"]
        for row in batch.to_pylist():
            rows[tuple(row["key"].values())] = tuple(row["value"].values())
    return rows


def test_rows_are_unsafe_rows_underneath(typed: StateStoreProvider) -> None:
    store = filled(typed.get_store(0))
    raw = dict(zip(unsafe(KEY, keys(WORDS)), unsafe(VALUE, values(NOTES)), strict=True))
    assert contents(store) == raw
    assert store.get_many(pa.array(raw, pa.binary())).to_pylist() == list(raw.values())
    assert scanned(store) == dict(zip(WORDS, NOTES, strict=True))


def test_scan_gives_what_was_there_at_the_call(typed: StateStoreProvider) -> None:
    store = filled(typed.get_store(0))
    batches = store.scan()
    store.remove_batch(keys(WORDS))
    assert sum(batch.num_rows for batch in batches) == len(WORDS)
    assert list(store.scan()) == [] or not scanned(store)


def test_no_rows_at_all(typed: StateStoreProvider) -> None:
    store = typed.get_store(0)
    store.put_batch(keys([]), values([]))
    store.remove_batch(keys([]))
    assert store.get_batch(keys([])).num_rows == 0
    assert scanned(store) == {}


def test_rows_that_do_not_fit_are_refused(typed: StateStoreProvider) -> None:
    store = filled(typed.get_store(0))
    with pytest.raises(REFUSED):
        store.put_batch(keys(WORDS), values(NOTES[:2]))
    with pytest.raises(SchemaMismatchError):
        store.put_batch(pa.record_batch({"word": pa.array(["a"])}), values(NOTES[:1]))
    with pytest.raises(SchemaMismatchError):
        store.get_batch(pa.record_batch({"word": pa.array([1]), "number": pa.array(["a"])}))
    assert scanned(store) == dict(zip(WORDS, NOTES, strict=True))


def test_without_schemas_there_are_no_rows(provider: StateStoreProvider) -> None:
    store = provider.get_store(*write(provider, EMPTY, {b"k": b"1"}))
    with pytest.raises(SchemaMismatchError):
        store.get_batch(keys(WORDS))
    with pytest.raises(SchemaMismatchError):
        store.put_batch(keys(WORDS), values(NOTES))
    with pytest.raises(SchemaMismatchError):
        store.remove_batch(keys(WORDS))
    with pytest.raises(SchemaMismatchError):
        list(store.scan())


def test_prefix_scan_gives_every_key_that_starts_with_the_columns(
    typed: StateStoreProvider, partition: Partition
) -> None:
    base = ref(filled(typed.get_store(0)).commit())
    for executor in (typed, partition.open("elsewhere", **SCHEMAS)):
        store = executor.get_store(*base)
        assert prefixed(store, "a") == {("a", 1): (1, "x"), ("a", 2): (None, "")}
        assert prefixed(store, None) == {(None, 1): (4, "long " * 20)}
        assert prefixed(store, "ä" * 40) == {("ä" * 40, None): (5, "e")}
        assert prefixed(store, "absent") == prefixed(store, "") == {}
        store.remove_batch(keys([("a", 1)]))
        store.put_batch(keys([("a", 7), ("a", 2), ("c", 1)]), values([(7, None), (2, "two"), (1, "c")]))
        assert prefixed(store, "a") == {("a", 7): (7, None), ("a", 2): (2, "two")}
        store.remove_batch(keys([("c", 1)]))
        assert prefixed(store, "c") == {}
        store.abort()


def prefixed(store: StateStore, word: str | None) -> dict[tuple[object, ...], tuple[object, ...]]:
    every = dict(zip(unsafe(KEY, keys(POSSIBLE)), POSSIBLE, strict=True))
    notes = dict(zip(unsafe(VALUE, values(MADE)), MADE, strict=True))
    found = list(store.prefix_scan(prefix(word)))
    assert len(dict(found)) == len(found)
    return {every[key]: notes[value] for key, value in found}


POSSIBLE = [*WORDS, ("a", 7), ("c", 1)]
MADE = [*NOTES, (7, None), (2, "two"), (1, "c")]


def test_prefix_scan_gives_what_was_there_at_the_call(typed: StateStoreProvider) -> None:
    store = typed.get_store(0)
    many: list[tuple[str | None, int | None]] = [("a", number) for number in range(2_000)]
    store.put_batch(keys(many), values([(number, None) for number in range(2_000)]))
    found = store.prefix_scan(prefix("a"))
    store.remove_batch(keys(many))
    assert len(dict(found)) == 2_000
    assert list(store.prefix_scan(prefix("a"))) == []


@pytest.mark.parametrize("columns", [0, 2])
def test_prefix_scan_needs_columns_to_scan_by(partition: Partition, columns: int) -> None:
    schemas = {**SCHEMAS, "num_cols_prefix_key": columns}
    if columns:
        with pytest.raises(REFUSED):  # as many as the key has: there is nothing left to scan
            partition.open(**schemas)
    else:
        with pytest.raises(REFUSED):
            list(filled(partition.open(**schemas).get_store(0)).prefix_scan(prefix("a")))


def test_a_record_that_is_too_large_is_refused(partition: Partition) -> None:
    conf = dataclasses.replace(partition.conf, max_record_bytes=1_000)
    provider = partition.open(max_record_bytes=conf.max_record_bytes)
    one = write(provider, EMPTY, {b"k": bytes(1_000)})
    store = provider.get_store(*one)
    for key, value in ((b"k", bytes(1_001)), (bytes(1_001), b"v")):
        with pytest.raises(REFUSED):
            store.put(key, value)
        with pytest.raises(REFUSED):
            store.put_many(pa.array([key], pa.binary()), pa.array([value], pa.binary()))
    assert contents(store) == {b"k": bytes(1_000)}


def test_keys_of_other_partitions_are_refused_where_the_number_of_partitions_is_known(partition: Partition) -> None:
    rows = keys([(word, number) for word in "abc" for number in range(20)])
    places = partition_ids(rows, 4).to_pylist()
    mine, foreign = (rows.filter(pa.array([(place == 3) is own for place in places])) for own in (True, False))
    assert mine.num_rows
    assert foreign.num_rows
    provider = partition.open(**SCHEMAS, num_partitions=4)  # the store is partition 3
    store = provider.get_store(0)
    store.put_batch(mine, values([(1, None)] * mine.num_rows))
    for refused in (
        lambda batch: store.put_batch(batch, values([(1, None)] * batch.num_rows)),
        store.remove_batch,
    ):
        with pytest.raises(StateStoreError, match=r"of 4 by Spark's hash, and this store is partition 3"):
            refused(foreign)
    assert len(contents(store)) == mine.num_rows
    store.abort()


def test_a_switch_to_the_other_format_is_said(partition: Partition, caplog: pytest.LogCaptureFixture) -> None:
    mine = partition.conf.checkpoint_format_version
    with partition.open(checkpoint_format_version=3 - mine) as before:
        first = write(before, EMPTY, {b"a": b"1"})
    assert "has gone over" not in caplog.text
    with partition.open("elsewhere") as provider:
        second = write(provider, first, {b"b": b"2"})
        write(provider, second, {b"c": b"3"})
    said = [record.getMessage() for record in caplog.records if "has gone over" in record.getMessage()]
    assert len(said) == 1
    assert f"from checkpoint format {3 - mine} to {mine}" in said[0]
