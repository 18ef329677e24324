"""Merging an image with layers, against a dict."""

import itertools
import os
import struct
import sys
import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdfsstore._cext.versioned_map import Image, LayerBuilder, Merger, VersionedMap
from hdfsstore.errors import ImageDamagedError
from tests.support.maps import content_of, image_of, records_of, reopened

KEYS = st.binary(max_size=3)
UPDATES = st.lists(st.tuples(KEYS, st.none() | st.binary(max_size=40)), max_size=30)


def layer_of(updates, row_checksums=False):
    """A key may come twice in it, as in Spark's deltas."""
    builder = LayerBuilder(row_checksums=row_checksums)
    if updates:
        builder.append(*records_of(updates, row_checksums=row_checksums))
    return builder.finish()


def merged(base, layers):
    """The image, and all chunks of its records."""
    merger = Merger(base, layers)
    chunks = []
    while (chunk := merger.read()) is not None:
        chunks.append(bytes(chunk))
    while merger.build():
        pass
    return merger.finish(), b"".join(chunks)


def state_of(image):
    return content_of(VersionedMap(image).transaction(0))


@given(st.dictionaries(KEYS, st.binary(max_size=40)), st.lists(UPDATES, max_size=4), st.booleans(), st.booleans())
def test_the_newest_record_of_each_key_holds(state, deltas, row_checksums, from_file):
    base = image_of(state, row_checksums=row_checksums)
    expected = dict(state)
    for updates in deltas:
        for key, value in updates:
            expected[key] = value
    expected = {key: value for key, value in expected.items() if value is not None}
    image, chunks = merged(
        reopened(base) if from_file else base, [layer_of(updates, row_checksums) for updates in deltas]
    )
    assert state_of(image) == expected
    assert image.num_keys == len(expected)
    assert chunks == bytes(image.records), "the chunks are the snapshot"
    assert state_of(base) == state


def test_more_than_a_chunk_of_everything():
    """Runs, dead records and updates each reach over several chunks; one record is larger than a chunk."""
    state = {struct.pack(">q", i): struct.pack("<q", i) * 12 for i in range(60_000)}
    state[b"large"] = bytes(3 << 20)
    state[b"larger"] = bytes(17 << 20)  # more than the 24 bits that a dead record's size has
    base = image_of(state)
    first = {struct.pack(">q", i): b"first" * 20 for i in range(0, 60_000, 3)}
    second = {struct.pack(">q", i): None if i % 2 else b"second" * 20 for i in range(0, 60_000, 9)}
    second |= {b"larger": None, b"new": bytes(2 << 20)}
    image, chunks = merged(base, [layer_of(first.items()), layer_of(second.items())])
    expected = {key: value for key, value in (state | first | second).items() if value is not None}
    assert state_of(image) == expected
    assert chunks == bytes(image.records)


def test_chunks_are_bounded_and_there_are_many():
    base = image_of({struct.pack(">q", i): bytes(100) for i in range(100_000)})
    merger = Merger(base, [layer_of([(struct.pack(">q", i), bytes(100)) for i in range(0, 100_000, 2)])])
    sizes = []
    while (chunk := merger.read()) is not None:
        sizes.append(chunk.size)
    assert max(sizes) <= 1 << 20
    assert len([size for size in sizes if size]) >= 10
    assert len([size for size in sizes if not size]) >= 6, "deciding takes steps of its own"
    steps = 0
    while merger.build():
        steps += 1
    assert steps >= 10


STEP_RECORDS = 2_048
STEP_ENTRIES = 1 << 15
STEP_BYTES = 1 << 20


def build_steps(base, layers, **indexes):
    merger = Merger(base, layers, **indexes)
    steps = 1
    while merger.build():
        steps += 1
    return steps


def test_no_step_does_more_than_a_bounded_part():
    """Of each pass over records, dead records, index entries or bytes a step does no more than its share."""
    count = 200_000
    keys = [struct.pack("<qqq", 0, i % 9_000, i) for i in range(count)]
    base = image_of({key: struct.pack("<qqq", 0, 0, i * 7 % count) for i, key in enumerate(keys)})
    records = -(-count // STEP_RECORDS)
    entries = -(-count // STEP_ENTRIES)
    plain = build_steps(base, [])
    assert plain >= records + base.records.size // STEP_BYTES, "indexing and copying"
    timed = build_steps(base, [], timeout_offset=16)
    assert timed - plain >= records + 2 * 2 * entries + entries, "going through the records, two passes, writing"
    prefixes = build_steps(base, [], prefix=(2, b"\0"))
    assert prefixes - plain >= records + 4 * 2 * entries + entries, "44 bits of hashes are four passes"
    updated = [layer_of([(key, None) for key in keys[::2]])]
    dead = count // 2
    passes = 3  # that 11 bits of an offset take, of 13 MB
    gone = build_steps(base, updated)
    assert gone >= dead // STEP_RECORDS + passes * 2 * (dead // STEP_ENTRIES) + 2 * dead // STEP_RECORDS + records // 2


def test_an_image_is_built_whether_the_records_were_read_or_not():
    state = {struct.pack(">q", i): bytes(100) for i in range(50_000)}
    layer = layer_of([(struct.pack(">q", i), None) for i in range(0, 50_000, 2)])
    images = []
    for reads in (0, 3, 8, 1000):
        merger = Merger(image_of(state), [layer])
        for _ in range(reads):
            merger.read()
        while merger.build():
            merger.read()
        images.append(bytes(merger.finish().records))
    assert len(images[0]) == 25_000 * 116 + 4
    assert images[1:] == images[:1] * 3


def test_nothing_is_left():
    state = {bytes([i]): b"v" for i in range(100)}
    image, chunks = merged(image_of(state), [layer_of([(key, None) for key in state])])
    assert image.num_keys == 0
    assert chunks == b"\xff\xff\xff\xff"


def test_nothing_to_begin_with():
    image, _ = merged(Image.empty(row_checksums=False), [layer_of([(b"a", b"1"), (b"b", None)])])
    assert state_of(image) == {b"a": b"1"}
    image, chunks = merged(Image.empty(row_checksums=False), [])
    assert (image.num_keys, chunks) == (0, b"\xff\xff\xff\xff")


def test_a_damaged_image_is_found_out():
    state = {struct.pack(">q", i): bytes(50) for i in range(5_000)}
    content = b"".join(image_of(state).parts(b""))
    layer = layer_of([(struct.pack(">q", 17), b"x")])
    found_out = 0
    for at in range(8_192, len(content), len(content) // 50):
        damaged = bytearray(content)
        damaged[at] ^= 1
        image = Image.open(pa.py_buffer(bytes(damaged)), "the-image")
        try:
            found = merged(image, [layer])[0]
        except ImageDamagedError as error:
            found_out += error.path == "the-image"
        else:  # a block of the index that this merge had no need of
            assert state_of(found) == state | {struct.pack(">q", 17): b"x"}
    assert found_out >= 30


@pytest.mark.parametrize("damage", ["of the index", "of the records"])
@pytest.mark.parametrize("step", ["read", "build"])
def test_a_merger_that_has_failed_does_not_go_on(damage, step):
    """What was under way when it failed is half done: going on would leave records out, or bring dead ones back."""
    state = {struct.pack(">q", i): bytes(50) for i in range(5_000)}
    content = bytearray(b"".join(image_of(state).parts(b"")))
    content[10_000 if damage == "of the index" else -100_000] ^= 1
    layer = layer_of([(key, None) for key in list(state)[::3]])
    merger = Merger(Image.open(pa.py_buffer(bytes(content)), "the-image"), [layer])
    goes_on = merger.build if step == "build" else lambda: merger.read() is not None
    with pytest.raises(ImageDamagedError):
        all(iter(goes_on, False))
    for method in (merger.read, merger.build, merger.finish):
        with pytest.raises(ImageDamagedError, match="the-image"):
            method()


def test_other_threads_go_on_while_a_table_gets_its_pages():
    """The first step of a merger only does that. No thread is forced to release the GIL, so a step has to do it."""
    layer = layer_of([(struct.pack(">q", i), b"") for i in range(200_000)])
    empty = Image.empty(row_checksums=False)
    turns, ended = [0], threading.Event()

    def take_turns():
        while not ended.is_set():
            turns[0] += 1
            time.sleep(0)

    other = threading.Thread(target=take_turns)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        other.start()
        until = time.monotonic() + 60
        before = turns[0]
        while turns[0] == before:
            assert time.monotonic() < until, "the GIL was not released"
            merger = Merger(empty, [layer])
            before = turns[0]
            merger.build()
    finally:
        ended.set()
        sys.setswitchinterval(interval)
        other.join()


def test_misuse():
    base = image_of({b"a": b"1"})
    with pytest.raises(ValueError, match="checksums"):
        Merger(base, [layer_of([(b"a", b"2")], row_checksums=True)])
    merger = Merger(base, [])
    with pytest.raises(ValueError, match="not built"):
        merger.finish()
    while merger.read() is not None:
        pass
    assert merger.read() is None
    with pytest.raises(ValueError, match="not built"):
        merger.finish()
    while merger.build():
        pass
    assert not merger.build()
    merger.finish()
    assert not merger.build()
    with pytest.raises(ValueError, match="given away"):
        merger.finish()


ROLLUP = Path("/proc/self/smaps_rollup")


def resident() -> int:
    """Bytes of memory that this process has pages for, counted now."""
    line = next(line for line in ROLLUP.read_text().splitlines() if line.startswith("Rss:"))
    return int(line.split()[1]) << 10


@pytest.mark.skipif(
    not os.environ.get("CI") and not ROLLUP.exists(),
    reason="only Linux tells at once how much memory a process has pages for",
)
@pytest.mark.resident_memory
def test_no_step_asks_for_much_memory_at_once():
    """2 MiB, a huge page, are five milliseconds where the host of a virtual machine has to find them."""
    base = image_of({struct.pack(">qq", i, 0): bytes(struct.pack(">qq", 0, i)) + bytes(84) for i in range(60_000)})
    updates = layer_of([(struct.pack(">qq", i, 0), bytes(100)) for i in range(0, 60_000, 3)])
    merger = Merger(base, [updates], timeout_offset=8)
    sizes = [resident()]
    while merger.build():
        sizes.append(resident())
    rises = [after - before for before, after in itertools.pairwise(sizes)]
    assert sum(rises) > 6 << 20, "it asks for memory"
    assert max(rises) <= 1 << 20
    assert merger.finish().num_keys == 60_000


@pytest.mark.skipif(not os.environ.get("CI") and not ROLLUP.exists(), reason="elsewhere memory is freed all at once")
@pytest.mark.resident_memory
def test_the_memory_of_an_image_goes_in_steps():
    large = {b"%d" % i: bytes(1 << 20) for i in range(64)}
    merger = Merger(image_of({}), [layer_of(list(large.items()))])
    with pytest.raises(ValueError, match="not ended"):
        merger.free()
    while merger.build():
        pass
    image = merger.finish()
    while merger.free():
        pass
    assert state_of(image) == large, "as long as somebody has it, it stays"
    with pytest.raises(ValueError, match="has ended"):
        merger.read()
    del image
    sizes = [resident()]
    while merger.free():
        sizes.append(resident())
    falls = [before - after for before, after in itertools.pairwise(sizes)]
    assert sum(falls) > 48 << 20
    assert max(falls) <= 3 << 20
    assert not merger.free()


def test_an_image_outlives_its_merger():
    merger = Merger(image_of({b"a": b"1"}), [layer_of([(b"b", b"2")])])
    while merger.build():
        pass
    image = merger.finish()
    merger.free()
    del merger
    assert state_of(image) == {b"a": b"1", b"b": b"2"}


def test_a_merge_that_nobody_interrupts_gives_the_same():
    state = {b"%d" % i: b"value %d" % i for i in range(3000)}
    updates = [(b"%d" % i, None if i % 3 else b"new") for i in range(0, 4000, 2)]
    merger = Merger(image_of(state), [layer_of(updates)], in_steps=False)
    while merger.build():
        pass
    expected = {key: value for key, value in (state | dict(updates)).items() if value is not None}
    assert state_of(merger.finish()) == expected
