"""Threads that share images, maps and transactions: what one of them reads is never freed or replaced by another."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TypeVar

import pytest

from hdfsstore._cext.key_set import KeySet
from hdfsstore._cext.lz4_block import Lz4BlockReader, Lz4BlockWriter
from hdfsstore._cext.records import RecordParser
from hdfsstore._cext.versioned_map import Image, ImageBuilder, LayerBuilder, Merger, Transaction, VersionedMap
from tests.support.maps import as_dict, binary, content_of, image_of, indexed_long, records_of, reopened
from tests.support.threads import at_once

T = TypeVar("T")
ONE_PREFIX = (2, bytes(1))  # keys of two longs, found by the first of them
AT = 16  # where in a value the long is that it is indexed by
THREADS = pytest.mark.parametrize("threads", [2, 8])


def key(prefix: int, number: int) -> bytes:
    return struct.pack("<qqq", 0, prefix, number)


def value(number: int) -> bytes:
    return struct.pack("<qqq", 0, 0, number)


@THREADS
def test_first_prefix_scans_of_an_image_at_once(threads: int) -> None:
    state = {key(7, i): b"%d" % i for i in range(30_000)}
    prefix = struct.pack("<qq", 0, 7)
    for _ in range(5):
        map_ = VersionedMap(image_of(state, prefix=ONE_PREFIX))

        def scan(_: int, map_: VersionedMap = map_) -> None:
            assert as_dict(*map_.transaction(0).prefix_scan(prefix)) == state

        at_once(scan, threads)


@THREADS
def test_blocks_of_a_file_are_verified_at_once(threads: int) -> None:
    state = {key(i % 7, i): value(i) for i in range(2_000)}
    image = reopened(image_of(state))

    def look(number: int) -> None:
        transaction = VersionedMap(image).transaction(0)
        asked = list(state)[number:] + list(state)[:number]
        assert transaction.get_many(binary(asked)).to_pylist() == [state[key] for key in asked]
        assert content_of(transaction) == state
        image.verify()

    at_once(look, threads)


@THREADS
def test_branches_of_a_map_grow_at_once(threads: int) -> None:
    """Each thread adds layers of its own, and reads its own and the others' base by all calls meanwhile."""
    base = {key(i % 5, i): value(i) for i in range(500)}
    map_ = VersionedMap(image_of(base, prefix=ONE_PREFIX, timeout_offset=AT))
    trunk = map_.transaction(0)
    trunk.put_many(binary(more := [key(i % 5, 1000 + i) for i in range(200)]), binary(map(value, range(200))))
    shared = {**base, **dict(zip(more, map(value, range(200)), strict=True))}
    first = map_.add(0, trunk.seal())

    def check(reader: Transaction, state: dict[bytes, bytes], step: int) -> None:
        longs = {key: number for key, value in state.items() if (number := indexed_long(value, AT)) is not None}
        assert content_of(reader, 4000) == state
        assert reader.get_many(binary([*state, b"none"])).to_pylist() == [*state.values(), None]
        found = as_dict(*reader.prefix_scan(struct.pack("<qq", 0, step % 5)))
        assert found == {key: value for key, value in state.items() if key[8] == step % 5}
        expired = [pair for found in reader.expired(100, 64) for pair in as_dict(*found).items()]
        assert dict(expired) == {key: state[key] for key, number in longs.items() if number < 100}
        assert reader.next_expiry() == min(longs.values())

    def grow(number: int) -> None:
        layer, state = first, dict(shared)
        for step in range(8):
            transaction = map_.transaction(layer)
            changed = {key(i % 5, i): value(10 * i + step) for i in range(number, 1500, 37 + step)}
            gone = sorted(state)[step :: 50 + number]
            transaction.put_many(binary(changed), binary(changed.values()))
            transaction.remove_many(binary(gone))
            state = {key: value for key, value in {**state, **changed}.items() if key not in gone}
            check(transaction, state, step)
            layer = map_.add(layer, transaction.seal())
            check(map_.transaction(layer), state, step)
            check(map_.transaction(first), shared, step)
            assert map_.nbytes > 0
        merger = Merger(map_.image, map_.path(layer))
        while merger.build():
            pass
        assert content_of(VersionedMap(merger.finish()).transaction(0), 4000) == state

    at_once(grow, threads)


def test_a_transaction_for_one_thread_that_more_use() -> None:
    """A call while another thread is in one is refused, and what the others did holds."""
    transaction = VersionedMap(Image.empty(row_checksums=False, timeout_offset=AT)).transaction(0)
    calls = 40

    def use(number: int) -> dict[bytes, bytes]:
        """What this thread has put."""
        put: dict[bytes, bytes] = {}
        for call in range(calls):
            mine = {key(number, i): value(call * i) for i in range(300 * (number + 1))}
            keys = binary(mine)
            try:
                transaction.get_many(keys)
                transaction.put_many(keys, binary(mine.values()))
                put = mine
                sum(len(found) for found, _ in transaction.scan(1 << 20))
                sum(len(found) for found, _ in transaction.expired(100, 1000))
            except RuntimeError as error:
                assert_refused(error)
        return put

    expected: dict[bytes, bytes] = {}
    for put in at_once(use, 4):
        expected |= put
    assert expected
    assert content_of(transaction, 1 << 20) == expected


def assert_refused(error: RuntimeError) -> None:
    assert "in use by another thread" in str(error)


def refused(call: Callable[[], T]) -> T | None:
    """What it returns; None where another thread was in the object."""
    try:
        return call()
    except RuntimeError as error:
        assert_refused(error)
        return None


RECORDS = records_of([(b"key %d" % i, b"value") for i in range(20_000)], row_checksums=False)


@pytest.mark.parametrize("make", [LayerBuilder, ImageBuilder])
def test_a_builder_that_more_threads_use(make: type[LayerBuilder | ImageBuilder]) -> None:
    builder = make(row_checksums=False)

    def append(_: int) -> int:
        return sum(refused(lambda: builder.append(*RECORDS) or True) is not None for _ in range(20))

    appended = sum(at_once(append, 4))
    assert appended
    built = builder.finish()
    if isinstance(built, Image):
        assert built.num_keys == 20_000
    else:
        assert built.records.size == appended * (RECORDS[0].nbytes - 4) + 4


def test_a_parser_and_a_set_of_keys_that_more_threads_use() -> None:
    data, keys, values = RECORDS
    keys_so_far = KeySet()
    parser = RecordParser(row_checksums=False, tombstones=False, max_record_bytes=100)

    def use(_: int) -> None:
        for first in range(0, 8 * 20_000, 8000):
            some = keys.slice(first, 8000), values.slice(first, 8000)
            refused(lambda some=some: keys_so_far.note(data, *some))  # type: ignore[misc]
            refused(keys_so_far.settle)
            refused(lambda: keys_so_far.positions(binary([b"key 1", b"key 2"])))
            assert refused(lambda: parser.parse(data, data.nbytes)) in (None, 20_000)

    at_once(use, 4)
    keys_so_far.note(data, keys, values)
    assert len(keys_so_far) == 20_000


def test_a_reader_and_a_writer_of_lz4_that_more_threads_use() -> None:
    class Source:
        def readinto(self, buffer: memoryview) -> int:
            size = min(len(buffer), len(blocks))
            buffer[:size] = blocks[:size]
            return size

    writer = Lz4BlockWriter()
    piece = RECORDS[0].tobytes()

    def write(_: int) -> list[bytes | None]:
        return [refused(lambda: writer.write(piece)) for _ in range(10)]

    written = [part for parts in at_once(write, 4) for part in parts if part is not None]
    assert written
    assert len(writer.finish()) > 0
    alone = Lz4BlockWriter()
    blocks = alone.write(piece) + alone.finish()
    reader = Lz4BlockReader(Source(), "path")

    def read(_: int) -> None:
        for _ in range(50):
            refused(lambda: reader.readinto(bytearray(50_000)))

    at_once(read, 4)
