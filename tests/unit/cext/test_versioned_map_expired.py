"""The index of the timeout in the values, against a dict: which keys have expired, and when the next one does."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterable, Mapping
from functools import partial

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdfsstore._cext.versioned_map import Image, Layer, LayerBuilder, Merger, Transaction, VersionedMap
from hdfsstore.errors import ImageDamagedError, StateStoreError
from tests.support.maps import (
    BLOCK,
    as_dict,
    binary,
    image_of,
    indexed_long,
    records_of,
    reopened,
    with_right_checksums,
)

AT = 16
LONGS = st.integers(-3, 12) | st.sampled_from([-(1 << 63), (1 << 63) - 1, 1 << 40, -(1 << 40), (1 << 40) + 1])
KEYS = st.integers(0, 30).map(lambda number: b"key %d" % number)


def row(value: int | None, size: int = 24) -> bytes:
    """A value of two columns, the second of which is the long, cut or filled to a size."""
    null = 2 if value is None else 0
    return (struct.pack("<qqq", null, 7, value or 0) + bytes(max(0, size - 24)))[:size]


VALUES = st.builds(row, LONGS | st.none(), st.sampled_from([24, 24, 24, 23, 16, 0, 40, 300]))
STATES = st.dictionaries(KEYS, VALUES)
UPDATES = st.lists(st.tuples(KEYS, st.none() | VALUES), max_size=15)


def due_of(state: Mapping[bytes, bytes], end: int) -> dict[bytes, bytes]:
    longs = {key: indexed_long(value) for key, value in state.items()}
    return {key: state[key] for key, number in longs.items() if number is not None and number < end}


def found(transaction: Transaction, end: int, max_rows: int = 7) -> dict[bytes, bytes]:
    """The expired keys, each once, in batches of max_rows."""
    content: dict[bytes, bytes] = {}
    sizes = []
    for keys, values in transaction.expired(end, max_rows):
        sizes.append(len(keys))
        batch = as_dict(keys, values)
        assert not batch.keys() & content.keys()
        content |= batch
    assert all(size == max_rows for size in sizes[:-1])
    assert all(0 < size <= max_rows for size in sizes[-1:])
    return content


def check(transaction: Transaction, state: Mapping[bytes, bytes], ends: Iterable[int]) -> None:
    for end in ends:
        assert found(transaction, end) == due_of(state, end)
        longs = [number for number in map(indexed_long, state.values()) if number is not None]
        assert transaction.next_expiry() == min(longs, default=None)


def answer_or_error(ask: Callable[[], object]) -> object:
    try:
        return ask()
    except StateStoreError as error:
        return error


def layer_of(updates: Iterable[tuple[bytes, bytes | None]], row_checksums: bool = False) -> Layer:
    """A key may come twice in it, as in Spark's deltas."""
    updates = list(updates)
    builder = LayerBuilder(row_checksums=row_checksums)
    if updates:
        builder.append(*records_of(updates, row_checksums=row_checksums))
    return builder.finish()


def merged(base: Image, layers: list[Layer], timeout_offset: int | None = AT) -> Image:
    merger = Merger(base, layers, timeout_offset=timeout_offset)
    while merger.build():
        pass
    return merger.finish()


ENDS = st.lists(LONGS, min_size=1, max_size=3)


@given(
    STATES,
    st.lists(st.tuples(UPDATES, UPDATES, ENDS, ENDS, st.sampled_from(["", "", "abort", "merge", "build", "file"]))),
    st.booleans(),
)
def test_batches_one_after_the_other(
    state: dict[bytes, bytes],
    batches: list[
        tuple[
            list[tuple[bytes, bytes | None]],
            list[tuple[bytes, bytes | None]],
            list[int],
            list[int],
            str,
        ]
    ],
    row_checksums: bool,
) -> None:
    """As a query has it: each transaction goes on from where the one before it has gone through the indexes."""
    map_, layer = VersionedMap(image_of(state, row_checksums=row_checksums, timeout_offset=AT)), 0
    for first, second, before, after, step in batches:
        transaction, rows = map_.transaction(layer), dict(state)
        for updates, ends in ((first, before), (second, after)):
            for key, value in updates:
                if value is None:
                    transaction.remove(key)
                    rows.pop(key, None)
                else:
                    transaction.put(key, value)
                    rows[key] = value
            check(transaction, rows, ends)
        check(map_.transaction(layer), state, before)
        if step == "abort":
            continue
        layer, state = map_.add(layer, transaction.seal()), rows
        check(transaction, rows, after)
        image = None
        if step == "merge":
            image = merged(map_.image, map_.path(layer))
        elif step == "build":
            image = image_of(state, row_checksums=row_checksums, timeout_offset=AT)
        elif step == "file":
            image = reopened(merged(map_.image, map_.path(layer)))
        if image is not None:
            assert image.timeout_offset == AT
            map_, layer = VersionedMap(image), 0
    check(map_.transaction(layer), state, [1 << 62, 5])


@given(STATES, st.lists(UPDATES, max_size=4), ENDS, st.booleans())
def test_layers_from_files_and_branches(
    state: dict[bytes, bytes],
    deltas: list[list[tuple[bytes, bytes | None]]],
    ends: list[int],
    row_checksums: bool,
) -> None:
    image = image_of(state, row_checksums=row_checksums, timeout_offset=AT)
    map_ = VersionedMap(reopened(image))
    states = [state]
    for number, updates in enumerate(deltas):
        parent = max(0, number - 1)  # each second one is a branch
        rows = states[parent] | dict(updates)
        map_.add(parent, layer_of(updates, row_checksums))
        states.append({key: value for key, value in rows.items() if value is not None})
    for layer, rows in enumerate(states):
        check(map_.transaction(layer), rows, ends)
        check(VersionedMap(merged(image, map_.path(layer))).transaction(0), rows, ends)


def many(count: int, seed: int = 1) -> dict[bytes, bytes]:
    chance = random.Random(seed)
    return {
        b"key %d" % i: row(chance.choice([chance.randrange(1 << 44), 5, -1]), 24 + 8 * (i % 3)) for i in range(count)
    }


def test_many_keys_in_all_places() -> None:
    state = many(20_000)
    image = reopened(image_of(state, timeout_offset=AT))
    assert image.nbytes - reopened(image_of(state)).nbytes <= 6 * 20_000 + BLOCK
    changed = many(5_000, seed=2)
    map_ = VersionedMap(image)
    transaction = map_.transaction(0)
    transaction.put_many(binary(changed), binary(changed.values()))
    transaction.remove_many(binary(list(state)[6_000:9_000]))
    state = {key: value for i, (key, value) in enumerate((state | changed).items()) if not 6_000 <= i < 9_000}
    ends = [5, 6, 1 << 40, 1 << 43, 1 << 42, 1 << 45]
    check(transaction, state, ends)
    layer = map_.add(0, transaction.seal())
    check(map_.transaction(layer), state, ends)
    check(map_.transaction(layer), state, reversed(ends))
    check(VersionedMap(merged(image, map_.path(layer))).transaction(0), state, ends)
    check(VersionedMap(image_of(state, timeout_offset=AT)).transaction(0), state, ends)


def test_later_updates_do_not_show() -> None:
    state = many(300)
    map_ = VersionedMap(image_of(state, timeout_offset=AT))
    transaction = map_.transaction(0)
    transaction.put(b"own", row(3))
    expected = due_of(state, 1 << 50) | {b"own": row(3)}
    batches = transaction.expired(1 << 50, 100)
    content = as_dict(*next(batches))
    for i in range(2_000):
        transaction.put(b"more %d" % i, row(1))
    transaction.remove_many(binary(state))
    transaction.put(b"own", row(4))
    map_.add(0, transaction.seal())
    for batch in batches:
        content |= as_dict(*batch)
    assert content == expected
    assert found(transaction, 1 << 50) == {b"own": row(4)} | {b"more %d" % i: row(1) for i in range(2_000)}


def test_expired_keys_that_stay_are_expired_again() -> None:
    state = {b"%d" % i: row(i) for i in range(500)}
    map_, layer = VersionedMap(image_of(state, timeout_offset=AT)), 0
    for batch in range(1, 10):
        transaction = map_.transaction(layer)
        assert found(transaction, 50 * batch) == due_of(state, 50 * batch)
        for key in list(due_of(state, 50 * batch))[::2]:
            transaction.remove(key)
            del state[key]
        transaction.put(b"%d" % batch, row(1000 + batch))
        state[b"%d" % batch] = row(1000 + batch)
        layer = map_.add(layer, transaction.seal())


def test_only_what_is_touched_is_verified_and_damage_is_found() -> None:
    state = {b"key %d" % i: row(i << 20) for i in range(30_000)}
    file = bytearray(b"".join(image_of(state, timeout_offset=AT).parts(b"")))
    slots = struct.unpack_from("<Q", file, 32)[0]
    index_at = BLOCK
    due_at = index_at + -(-8 * slots // BLOCK) * BLOCK
    records_at = len(file) - struct.unpack_from("<Q", file, 48)[0]
    assert records_at - due_at >= 10 * BLOCK
    found_out = 0
    for at in [*range(due_at, records_at, 1000), *range(records_at, len(file), len(file) // 20)]:
        file[at] ^= 1
        transaction = VersionedMap(Image.open(pa.py_buffer(bytes(file)), "the-image")).transaction(0)
        some = due_of(state, 100 << 20)
        answer = answer_or_error(partial(found, transaction, 100 << 20))
        if isinstance(answer, ImageDamagedError):
            assert answer.path == "the-image"
            assert answer.offset == at // BLOCK * BLOCK
            found_out += 1
        else:
            assert answer == some
        if at < records_at:
            with pytest.raises(ImageDamagedError):
                found(transaction, 1 << 62)
        file[at] ^= 1
    assert found_out >= 3


@pytest.mark.parametrize("row_checksums", [False, True])
def test_a_file_that_means_harm_does_none(row_checksums: bool) -> None:
    state = many(300)
    whole = b"".join(image_of(state, row_checksums=row_checksums, timeout_offset=AT).parts(b"metadata"))
    chance = random.Random(row_checksums)
    for _ in range(1000):
        file = bytearray(whole)
        for _ in range(chance.choice([1, 2, 30])):
            at = chance.randrange(BLOCK, len(file) - 8)
            struct.pack_into(
                chance.choice("<>") + "I", file, at, chance.choice([0, 1, 0x7FFFFFFF, 0xFFFFFFFC, 1 << 20])
            )
        transaction = VersionedMap(Image.open(pa.py_buffer(with_right_checksums(file)), "the-image")).transaction(0)
        for ask in (partial(everything_due, transaction), transaction.next_expiry):
            error = answer_or_error(ask)
            if isinstance(error, StateStoreError):
                assert "names no record" in error.message


def everything_due(transaction: Transaction) -> None:
    for batch in transaction.expired(1 << 62, 50):
        for array in batch:
            array.validate(full=True)


def test_an_index_at_another_place() -> None:
    state = {b"%d" % i: struct.pack("<5q", 0, 1, 2, 3, i) for i in range(100)}
    for at, count in ((8, 100), (16, 100), (24, 0), (32, 3)):
        image = reopened(image_of(state, timeout_offset=at))
        assert image.timeout_offset == at
        end = 3
        assert len(found(VersionedMap(image).transaction(0), end)) == count
        # A new image may be indexed otherwise than the one before, or not at all.
        for other in (8, 32, None):
            assert merged(image, [], other).timeout_offset == other
    for at in (0, -8, 4, 520, 1 << 40):
        with pytest.raises(ValueError, match="no offset of a column"):
            Image.empty(row_checksums=False, timeout_offset=at)


def test_without_an_index() -> None:
    transaction = VersionedMap(image_of(many(10))).transaction(0)
    assert reopened(image_of(many(10))).timeout_offset is None
    for ask in (lambda: transaction.expired(5, 10), transaction.next_expiry):
        with pytest.raises(ValueError, match="timeout offset"):
            ask()
    with pytest.raises(ValueError, match="max_rows"):
        VersionedMap(Image.empty(row_checksums=False, timeout_offset=AT)).transaction(0).expired(5, 0)
