"""The map: what the histories of test_versioned_map_model.py do not go through."""

from __future__ import annotations

import os
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait

import pyarrow as pa
import pytest

from hdfsstore._cext.versioned_map import Image, ImageBuilder, LayerBuilder, VersionedMap
from tests.support.maps import binary, content_of, image_of, records_of, reopened, updates_of

STATE = {b"%d" % i: b"value %d" % i for i in range(10_000)}


@pytest.mark.parametrize("row_checksums", [False, True])
def test_a_batch_on_an_image_in_memory_and_in_a_file(row_checksums: bool) -> None:
    built = image_of(STATE, row_checksums=row_checksums)
    keys = [*STATE, b"absent"]
    after = {**STATE, b"1": b"b", b"x": b""}
    del after[b"2"]
    for image in (built, reopened(built)):
        assert image.num_keys == len(STATE)
        assert image.row_checksums is row_checksums
        map_ = VersionedMap(image)
        transaction = map_.transaction(0)
        assert transaction.get_many(binary(keys)).to_pylist() == [*STATE.values(), None]
        transaction.put_many(binary([b"1", b"x", b"1"]), binary([b"a", b"", b"b"]))
        assert transaction.remove(b"2")
        assert not transaction.remove(b"2")
        assert transaction.num_keys == len(STATE)
        layer = map_.add(0, transaction.seal())
        assert map_.num_keys(layer) == len(STATE)
        assert content_of(map_.transaction(layer)) == after
        assert content_of(map_.transaction(0)) == STATE


def test_an_images_records_are_the_snapshot() -> None:
    data, _, _ = records_of(STATE.items(), row_checksums=False)
    built = image_of(STATE)
    for image in (built, reopened(built)):
        assert bytes(image.records) == bytes(data)
        read, buffer = b"", bytearray(10_007)
        while count := image.readinto(buffer, len(read)):
            read += buffer[:count]
        assert read == bytes(data)
        with pytest.raises(ValueError, match="negative"):
            image.readinto(buffer, -1)


def test_the_empty_image() -> None:
    for image in (Image.empty(row_checksums=False), reopened(Image.empty(row_checksums=True))):
        assert image.num_keys == 0
        assert bytes(image.records) == b"\xff\xff\xff\xff"
        transaction = VersionedMap(image).transaction(0)
        assert transaction.get_many(binary([b"", b"a"])).to_pylist() == [None, None]
        assert transaction.get_many(binary([])).to_pylist() == []
        assert list(transaction.scan()) == []
        assert bytes(transaction.seal().records) == b"\xff\xff\xff\xff"


def test_what_is_shown_stays_when_its_owner_is_gone() -> None:
    built = image_of(STATE)
    file = built.parts(b"")
    records = built.records
    expected = bytes(records)
    transaction = VersionedMap(built).transaction(0)
    transaction.put(b"key", b"value" * 1000)
    delta = transaction.seal().records
    found = transaction.get_many(binary([b"key"]))
    del built, transaction
    assert bytes(file[-1]) == bytes(records) == expected
    assert found[0].as_py() == b"value" * 1000 == bytes(delta)[11:-4]


def test_of_a_key_that_comes_twice_the_last_record_holds() -> None:
    builder = ImageBuilder(row_checksums=False, expected_bytes=1 << 20)
    updates = [(b"%d" % (i % 700), b"%d" % i * (i % 5)) for i in range(2000)]
    builder.append(*records_of(updates[:900], row_checksums=False))
    builder.append(*records_of(updates[900:], row_checksums=False))
    image = builder.finish()
    assert image.num_keys == 700
    assert content_of(VersionedMap(image).transaction(0)) == dict(updates)
    assert len(image.records) == 4 + sum(8 + len(key) + len(value) for key, value in dict(updates).items())
    with pytest.raises(ValueError, match="finished"):
        builder.finish()


@pytest.mark.parametrize("row_checksums", [False, True])
def test_chosen_records_of_a_chunk_are_copied(row_checksums: bool) -> None:
    updates = [(b"a", b"1"), (b"b", None), (b"c", b""), (b"", None), (b"d", b"22")]
    data, keys, values = records_of(updates, row_checksums=row_checksums)
    chosen = [0, 2, 3, 4]
    kept = [pa.py_buffer(b"".join(bytes(spans)[8 * i : 8 * i + 8] for i in chosen)) for spans in (keys, values)]
    builder = LayerBuilder(row_checksums=row_checksums)
    builder.append(data, *kept)
    layer = builder.finish()
    assert layer.num_records == 4
    assert updates_of(layer, row_checksums=row_checksums) == [updates[i] for i in chosen]
    map_ = VersionedMap(Image.empty(row_checksums=row_checksums))
    assert map_.num_keys(map_.add(0, layer)) == 3


def test_spans_that_are_not_those_of_records_are_refused() -> None:
    data, keys, values = records_of([(b"key", b"value"), (b"other", b"")], row_checksums=False)

    def spans(*numbers: int) -> pa.Buffer:
        return pa.py_buffer(b"".join(number.to_bytes(4, "little", signed=True) for number in numbers))

    builder = ImageBuilder(row_checksums=False)
    for wrong in (
        (keys, spans(0, 1)),
        (spans(4, 3), spans(11, 6)),
        (spans(4, 2), spans(11, 5)),
        (spans(4, 1 << 30), spans(11, 5)),
        (spans(-4, 3), spans(3, 5)),
        (spans(4, -8), spans(0, 5)),
        (spans(4, 3), spans(11, 0x7FFFFFFF)),
        (spans(4, 3), spans(11, -1)),
        (spans(4, 3), spans(11, -2)),
    ):
        with pytest.raises(ValueError, match=r"spans|keys and"):
            builder.append(data, *wrong)
    with pytest.raises(ValueError, match="spans"):
        builder.append(b"", keys, values)
    with pytest.raises(ValueError, match="tombstones"):
        builder.append(*records_of([(b"key", None)], row_checksums=False))
    builder.append(data, keys, values)
    assert builder.finish().num_keys == 2


def test_wrong_arguments() -> None:
    map_ = VersionedMap(Image.empty(row_checksums=False))
    transaction = map_.transaction(0)
    with pytest.raises(ValueError, match="nulls"):
        transaction.get_many(pa.array([b"a", None], pa.binary()))
    with pytest.raises(ValueError, match="nulls"):
        transaction.put_many(binary([b"a"]), pa.array([None], pa.binary()))
    with pytest.raises(ValueError, match="1 keys and 2 values"):
        transaction.put_many(binary([b"a"]), binary([b"", b""]))
    with pytest.raises(TypeError, match="binary"):
        transaction.remove_many(pa.array(["a"]))
    with pytest.raises(ValueError, match="prefix plan"):
        transaction.prefix_scan(b"")
    for layer in (-1, 1):
        with pytest.raises(ValueError, match="no layer"):
            map_.transaction(layer)
    with pytest.raises(ValueError, match="checksums"):
        map_.add(0, LayerBuilder(row_checksums=True).finish())
    for plan in ((2, b""), (1, b"\0\0"), (2, b"\3")):
        with pytest.raises(ValueError, match="prefix plan"):
            Image.empty(row_checksums=False, prefix=plan)
    transaction.seal()
    with pytest.raises(ValueError, match="sealed"):
        transaction.put(b"a", b"b")
    with pytest.raises(ValueError, match="sealed"):
        transaction.seal()


def test_slices_and_large_arrays() -> None:
    keys = pa.array([b"not this", *STATE], pa.large_binary())[1:]
    values = pa.array([b"nor this", b"nor that", *STATE.values()], pa.large_binary())[2:]
    with_nulls_before = pa.array([None, *STATE], pa.binary())[1:]
    transaction = VersionedMap(Image.empty(row_checksums=False)).transaction(0)
    transaction.put_many(keys, values)
    assert transaction.get_many(with_nulls_before).to_pylist() == list(STATE.values())
    assert transaction.remove_many(keys[5000:]) == 5000
    assert transaction.num_keys == 5000


@pytest.mark.thorough
def test_values_of_more_than_2_gib_come_as_a_large_array() -> None:
    transaction = VersionedMap(Image.empty(row_checksums=False)).transaction(0)
    transaction.put(b"large", bytes(1 << 28))
    transaction.put(b"small", b"value")
    found = transaction.get_many(binary([b"small", *[b"large"] * 8, b"none", b"small"]))
    assert found.type == pa.large_binary()
    found.validate()
    assert [found[i].as_py() for i in (0, 9, 10)] == [b"value", None, b"value"]
    assert [len(found[i].as_buffer()) for i in range(1, 9)] == [1 << 28] * 8


def test_memory_is_little_more_than_the_records() -> None:
    state = {b"key %020d" % i: b"value %042d" % i for i in range(200_000)}
    raw = sum(len(key) + len(value) for key, value in state.items())
    assert image_of(state).nbytes < 1.27 * raw


def test_readers_and_writers_in_threads() -> None:
    """Each thread commits its own branch while it reads others' layers: nobody sees what is not theirs."""
    map_ = VersionedMap(image_of(STATE))
    seen, done = threading.Event(), threading.Event()

    def write(seed: int) -> tuple[int, dict[bytes, bytes]]:
        chance, layer, state = random.Random(seed), 0, dict(STATE)
        for step in range(12):
            if step == 6:  # no writer ends before there was a read, however late the reader's turn comes
                assert seen.wait(60)
            transaction = map_.transaction(layer)
            changes = {b"%d" % chance.randrange(20_000): b"%d" % chance.randrange(1 << 40) for _ in range(1500)}
            transaction.put_many(binary(changes), binary(changes.values()))
            state |= changes
            for key in chance.sample(list(state), 100):
                del state[key]
                assert transaction.remove(key)
            layer = map_.add(layer, transaction.seal())
            assert map_.num_keys(layer) == len(state)
        return layer, state

    def read() -> None:
        while not done.is_set():
            found = map_.transaction(0).get_many(binary(STATE))
            assert found.to_pylist() == list(STATE.values())
            seen.set()

    with ThreadPoolExecutor(4) as pool:
        reader = pool.submit(read)
        writers = [pool.submit(write, seed) for seed in range(3)]
        wait(writers)
        done.set()
    reader.result()
    for layer, state in (writer.result() for writer in writers):
        assert content_of(map_.transaction(layer), 1 << 20) == state


def test_a_transaction_is_for_one_thread() -> None:
    transaction = VersionedMap(Image.empty(row_checksums=False)).transaction(0)
    keys = binary(b"%d" % i for i in range(300_000))
    refused = threading.Event()
    until = time.monotonic() + 60

    def put() -> None:
        while not refused.is_set() and time.monotonic() < until:  # however late the other one's turn comes
            try:
                transaction.put_many(keys, keys)
            except RuntimeError:
                refused.set()

    with ThreadPoolExecutor(2) as pool:
        for running in [pool.submit(put) for _ in range(2)]:
            running.result()
    assert refused.is_set()
    assert transaction.num_keys == len(keys)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_finds_the_map_whole_and_unlocked() -> None:
    map_ = VersionedMap(image_of(STATE))
    transaction = map_.transaction(0)
    transaction.put_many(binary(STATE), binary(b"new" for _ in STATE))
    layer = transaction.seal()
    stop = threading.Event()

    def add() -> None:
        while not stop.is_set():
            map_.add(0, layer)

    thread = threading.Thread(target=add)
    thread.start()
    try:
        while map_.nbytes < 1 << 20:
            pass
        for _ in range(20):
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    other = VersionedMap(map_.image)
                    assert other.num_keys(other.add(0, layer)) == len(STATE)
                    number = map_.add(0, layer)
                    assert map_.transaction(number).get(b"7") == b"new"
                    assert map_.transaction(0).get_many(binary(STATE)).to_pylist() == list(STATE.values())
                    code = 0
                finally:
                    os._exit(code)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        thread.join()
