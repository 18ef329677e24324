"""Histories of layers, branches and interleaved transactions against dicts."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from hdfsstore._cext.versioned_map import ImageBuilder, Layer, LayerBuilder, Transaction, VersionedMap
from hdfsstore.codecs.types import LongType, StringType, StructField, StructType
from tests.support.maps import (
    Update,
    as_dict,
    binary,
    content_of,
    image_of,
    indexed_long,
    prefix_plan,
    records_of,
    reopened,
    updates_of,
)

KEY = StructType((StructField("a", StringType()), StructField("b", LongType())))
PLAN = prefix_plan(KEY, 1)


def row(text: str, number: int) -> bytes:
    """An UnsafeRow of KEY."""
    content = text.encode()
    padded = content + bytes(-len(content) % 8)
    return bytes(8) + (24 << 32 | len(content)).to_bytes(8, "little") + number.to_bytes(8, "little") + padded


def prefix(text: str) -> bytes:
    content = text.encode()
    return bytes(8) + (16 << 32 | len(content)).to_bytes(8, "little") + content + bytes(-len(content) % 8)


TEXTS = ["", "a", "b", "a text of more than 8 bytes"]
ROWS = {text: [row(text, number) for number in range(8)] for text in TEXTS}
KEYS = st.sampled_from([b"", b"x", b"17 bytes of a key", *(key for keys in ROWS.values() for key in keys)])
VALUES = st.sampled_from([b"", b"v", b"8 bytes.", b"a value" * 9]) | st.binary(max_size=20)
VALUES |= st.integers(-2, 9).map(lambda number: struct.pack("<qqq", 0, 0, number))
TIMEOUT_OFFSET = 16
INDEX = st.integers(0, 1 << 20)


def check_due(transaction: Transaction, state: dict[bytes, bytes], end: int) -> None:
    found: list[tuple[bytes, bytes]] = []
    for keys, values in transaction.expired(end, 3):
        found += as_dict(keys, values).items()
    longs = {key: indexed_long(value) for key, value in state.items()}
    assert sorted(found) == sorted(
        (key, state[key]) for key, value in longs.items() if value is not None and value < end
    )
    assert transaction.next_expiry() == min((value for value in longs.values() if value is not None), default=None)


@dataclass
class Open:
    """A transaction, what it must hold, and scans under way with what they must find."""

    transaction: Transaction
    parent: int
    base: dict[bytes, bytes]
    state: dict[bytes, bytes]
    updates: list[Update]
    scans: list[tuple[Iterator[Any], dict[bytes, bytes], dict[bytes, bytes]]]


class Histories(RuleBasedStateMachine):
    @initialize(
        state=st.dictionaries(KEYS, VALUES), row_checksums=st.booleans(), mapped=st.booleans(), large=st.booleans()
    )
    def start(self, state: dict[bytes, bytes], row_checksums: bool, mapped: bool, large: bool) -> None:
        if large:
            state |= {b"%d" % i: b"a value" for i in range(1000)}
        self.row_checksums = row_checksums
        image = image_of(state, row_checksums=row_checksums, prefix=PLAN, timeout_offset=TIMEOUT_OFFSET)
        self.map = VersionedMap(reopened(image) if mapped else image)
        self.states = {0: state}
        self.updates: dict[int, list[Update]] = {}
        self.parents: dict[int, int] = {}
        self.open: list[Open] = []

    def pick(self, index: int) -> Open:
        if not self.open:
            self.begin(index)
        return self.open[index % len(self.open)]

    @rule(index=INDEX)
    def begin(self, index: int) -> None:
        layer = index % len(self.states)
        state = self.states[layer]
        self.open.append(Open(self.map.transaction(layer), layer, state, dict(state), [], []))

    @rule(index=INDEX, key=KEYS, value=VALUES)
    def put(self, index: int, key: bytes, value: bytes) -> None:
        open_ = self.pick(index)
        open_.transaction.put(key, value)
        open_.state[key] = value
        open_.updates.append((key, value))

    @rule(index=INDEX, key=KEYS)
    def remove(self, index: int, key: bytes) -> None:
        open_ = self.pick(index)
        assert open_.transaction.remove(key) == (key in open_.state)
        if open_.state.pop(key, None) is not None:
            open_.updates.append((key, None))

    @rule(index=INDEX, records=st.lists(st.tuples(KEYS, VALUES)), wide=st.booleans(), cut=st.integers(0, 3))
    def put_many(self, index: int, records: list[tuple[bytes, bytes]], wide: bool, cut: int) -> None:
        open_ = self.pick(index)
        kind = pa.large_binary() if wide else pa.binary()
        keys, values = (pa.array([row[i] for row in records], kind)[cut:] for i in (0, 1))
        open_.transaction.put_many(keys, values)
        open_.state.update(records[cut:])
        open_.updates += records[cut:]

    @rule(index=INDEX, count=st.integers(1, 2000), step=st.integers(1, 7))
    def put_a_lot(self, index: int, count: int, step: int) -> None:
        self.put_many(index, [(b"%d" % (i * step % 1500), b"%d" % i) for i in range(count)], False, 0)

    @rule(index=INDEX, keys=st.lists(KEYS))
    def remove_many(self, index: int, keys: list[bytes]) -> None:
        open_ = self.pick(index)
        there = [key for key in dict.fromkeys(keys) if key in open_.state]
        assert open_.transaction.remove_many(binary(keys)) == len(there)
        for key in there:
            del open_.state[key]
            open_.updates.append((key, None))

    @rule(index=INDEX, keys=st.lists(KEYS | st.binary(max_size=4)))
    def get_many(self, index: int, keys: list[bytes]) -> None:
        open_ = self.pick(index)
        keys += list(open_.state)
        found = open_.transaction.get_many(binary(keys))
        found.validate(full=True)
        assert found.to_pylist() == [open_.state.get(key) for key in keys]

    @rule(
        index=INDEX,
        keys=st.lists(KEYS),
        value=VALUES,
        between=st.lists(st.tuples(KEYS, VALUES | st.none()), max_size=3),
    )
    def update_what_was_got(self, index: int, keys: list[bytes], value: bytes, between: list[Update]) -> None:
        open_ = self.pick(index)
        for remove in (False, True):
            array = binary(keys)
            found = open_.transaction.get_many(array)
            assert found.to_pylist() == [open_.state.get(key) for key in keys]
            for key, other in between:
                if other is None:
                    self.remove(index, key)
                else:
                    self.put(index, key, other)
            if remove:
                there = [key for key in dict.fromkeys(keys) if key in open_.state]
                assert open_.transaction.remove_many(array) == len(there)
                open_.updates += [(key, None) for key in there]
                open_.state = {key: known for key, known in open_.state.items() if key not in there}
            else:
                open_.transaction.put_many(array, binary([value] * len(keys)))
                open_.updates += [(key, value) for key in keys]
                open_.state |= dict.fromkeys(keys, value)
            assert open_.transaction.num_keys == len(open_.state)

    @rule(index=INDEX, key=KEYS)
    def get(self, index: int, key: bytes) -> None:
        open_ = self.pick(index)
        assert open_.transaction.get(key) == open_.state.get(key)

    @rule(index=INDEX, text=st.sampled_from([*TEXTS, "none"]))
    def prefix_scan(self, index: int, text: str) -> None:
        open_ = self.pick(index)
        expected = {key: open_.state[key] for key in ROWS.get(text, []) if key in open_.state}
        assert as_dict(*open_.transaction.prefix_scan(prefix(text))) == expected

    @rule(index=INDEX, end=st.integers(-2, 11))
    def expired(self, index: int, end: int) -> None:
        open_ = self.pick(index)
        check_due(open_.transaction, open_.state, end)

    @rule(index=INDEX, max_bytes=st.sampled_from([1, 50, 1000, 1 << 20]))
    def begin_scan(self, index: int, max_bytes: int) -> None:
        open_ = self.pick(index)
        open_.scans.append((open_.transaction.scan(max_bytes), dict(open_.state), {}))

    @rule(index=INDEX, batches=st.integers(1, 4))
    def go_on_with_scans(self, index: int, batches: int) -> None:
        open_ = self.pick(index)
        for scan, _, found in open_.scans:
            for batch in (next(scan, None) for _ in range(batches)):
                if batch is not None:
                    assert not found.keys() & as_dict(*batch).keys()
                    found |= as_dict(*batch)

    @rule(index=INDEX)
    def drop(self, index: int) -> None:
        self.finish_scans(self.open.pop(self.open.index(self.pick(index))))

    @rule(index=INDEX, from_file=st.booleans())
    def commit(self, index: int, from_file: bool) -> None:
        open_ = self.open.pop(self.open.index(self.pick(index)))
        layer = open_.transaction.seal()
        assert updates_of(layer, row_checksums=self.row_checksums) == open_.updates
        assert content_of(open_.transaction, 1000) == open_.state
        self.finish_scans(open_)
        self.check_image(layer, open_)
        number = self.map.add(open_.parent, self.read_again(layer) if from_file else layer)
        assert number == len(self.states)
        self.states[number] = open_.state
        self.updates[number] = open_.updates
        self.parents[number] = open_.parent

    def check_image(self, layer: Layer, open_: Open) -> None:
        """Where a transaction's updates are all that there is, they are an image."""
        put = dict(open_.updates)
        assert layer.is_whole is ({key for key, value in put.items() if value is not None} == open_.state.keys())
        image = layer.image(prefix=PLAN, timeout_offset=TIMEOUT_OFFSET)
        assert (image is not None) is (layer.is_whole and len(put) == len(open_.updates) == len(open_.state))
        if image is not None:
            assert bytes(image.records) == bytes(layer.records)
            for each in (image, reopened(image)):
                transaction = VersionedMap(each).transaction(0)
                assert transaction.num_keys == len(open_.state)
                assert content_of(transaction) == open_.state
                assert transaction.get_many(binary(open_.state)).to_pylist() == list(open_.state.values())
                check_due(transaction, open_.state, 5)

    def read_again(self, layer: Layer) -> Layer:
        """The layer as it comes out of its file."""
        updates = updates_of(layer, row_checksums=self.row_checksums)
        builder = LayerBuilder(row_checksums=self.row_checksums)
        for part in (updates[:3], updates[3:]):
            builder.append(*records_of(part, row_checksums=self.row_checksums))
        again = builder.finish()
        assert bytes(again.records) == bytes(layer.records)
        return again

    @rule(index=INDEX, keep=st.integers(0, 2))
    def new_image(self, index: int, keep: int) -> None:
        """A map of an image of one layer, and the last layers before it again on top of an older image."""
        tip = index % len(self.states)
        path = self.map.path(tip)
        older = tip
        for _ in range(min(keep, len(path))):
            older = self.parents[older]
        builder = ImageBuilder(row_checksums=self.row_checksums, prefix=PLAN, timeout_offset=TIMEOUT_OFFSET)
        for keys, values in self.map.transaction(older).scan(500):
            records = zip(keys.to_pylist(), values.to_pylist(), strict=True)
            builder.append(*records_of(records, row_checksums=self.row_checksums))
        other = VersionedMap(builder.finish())
        number = 0
        for layer in path[len(path) - keep if keep < len(path) else 0 :] if keep else []:
            number = other.add(number, layer)
        assert content_of(other.transaction(number)) == self.states[tip]
        assert other.num_keys(number) == len(self.states[tip])
        check_due(other.transaction(number), self.states[tip], 5)

    @invariant()
    def counts_are_right(self) -> None:
        for open_ in getattr(self, "open", []):
            transaction = open_.transaction
            assert transaction.num_keys == len(open_.state)
            assert transaction.num_puts == sum(value is not None for _, value in open_.updates)
            assert transaction.num_removes == sum(value is None for _, value in open_.updates)

    def finish_scans(self, open_: Open) -> None:
        for scan, expected, found in open_.scans:
            for batch in scan:
                assert not found.keys() & as_dict(*batch).keys()
                found |= as_dict(*batch)
            assert found == expected
        open_.scans = []

    def teardown(self) -> None:
        for open_ in getattr(self, "open", []):
            self.finish_scans(open_)
        for layer, state in getattr(self, "states", {}).items():
            assert self.map.num_keys(layer) == len(state)
            assert content_of(self.map.transaction(layer)) == state
            check_due(self.map.transaction(layer), state, 5)
            updates = []
            at = layer
            while at:
                updates.append(self.updates[at])
                at = self.parents[at]
            path = self.map.path(layer)
            assert [updates_of(one, row_checksums=self.row_checksums) for one in path] == updates[::-1]


TestHistories = Histories.TestCase
TestHistories.settings = settings(stateful_step_count=30)
