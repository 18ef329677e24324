"""Image files that are damaged, of another version, or made to do harm."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

import pyarrow as pa
import pytest

from hdfsstore import CorruptFileError, StateStoreError, UnsupportedVersionError
from hdfsstore._cext.crc32c import crc32c
from hdfsstore._cext.versioned_map import Image, PrefixPlan, Transaction, VersionedMap
from hdfsstore.errors import ImageDamagedError
from tests.support.maps import (
    BLOCK,
    as_dict,
    binary,
    content_of,
    image_of,
    index_at,
    reopened,
    with_right_checksums,
)

PATH = "the-image"
# Of rows of two longs, the first of which is the prefix.
PLAN: PrefixPlan = (2, b"\0")
STATE = {struct.pack("<qqq", 0, i % 7, i): b"%d" % i * (i % 9) for i in range(300)}
NUMBERS = [0, 1, 4, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFFC, 0xFFFFFFF8, 8, 1 << 20]
PREFIX = struct.pack("<qq", 0, 3)


def file_of(state: dict[bytes, bytes], *, row_checksums: bool = False) -> bytearray:
    return bytearray(b"".join(image_of(state, row_checksums=row_checksums, prefix=PLAN).parts(b"some metadata")))


def everything(file: bytes | bytearray) -> tuple[object, ...]:
    """All that can be read out of an image."""
    image = Image.open(pa.py_buffer(bytes(file)), PATH)
    transaction = VersionedMap(image).transaction(0)
    answers = [transaction.get_many(binary([*STATE, b"absent"])).to_pylist(), image.metadata, image.num_keys]
    answers += [content_of(transaction), as_dict(*transaction.prefix_scan(PREFIX))]
    transaction.put_many(binary(STATE), binary(STATE))
    assert transaction.get_many(binary(STATE)).to_pylist() == list(STATE)
    return *answers, content_of(transaction)


def error_or(read: Callable[[bytes], object], file: bytes | bytearray) -> object:
    try:
        return read(bytes(file))
    except StateStoreError as error:
        return error


@pytest.mark.parametrize("row_checksums", [False, True])
def test_every_changed_byte_is_found_or_changes_nothing(row_checksums: bool) -> None:
    whole = file_of(STATE, row_checksums=row_checksums)
    expected = everything(whole)
    places = [*range(200), *range(200, len(whole), 7)]
    for at in places:
        whole[at] ^= 0x41
        answer = error_or(everything, whole)
        if isinstance(answer, StateStoreError):
            assert answer.path == PATH
            assert answer.offset is not None
            assert answer.offset <= at < answer.offset + BLOCK or at < BLOCK
        else:
            assert answer == expected
        whole[at] ^= 0x41
    assert everything(whole) == expected


def test_every_cut_is_found() -> None:
    whole = bytes(file_of(STATE))
    for size in [*range(100), *range(100, len(whole), 101)]:
        with pytest.raises(CorruptFileError) as caught:
            everything(whole[:size])
        assert caught.value.path == PATH
    with pytest.raises(CorruptFileError):
        everything(whole + b"\0")


def test_only_the_blocks_that_are_touched_are_verified() -> None:
    state = {b"%d" % i: b"value" * 10 for i in range(5000)}
    file = file_of(state)
    file[-2000] ^= 1
    image = Image.open(pa.py_buffer(bytes(file)), PATH)
    transaction = VersionedMap(image).transaction(0)
    assert transaction.get(b"0") == b"value" * 10
    with pytest.raises(ImageDamagedError, match="checksum") as caught:
        transaction.get_many(binary(state))
    assert caught.value.path == PATH
    assert caught.value.offset == (len(file) - 2000) // BLOCK * BLOCK
    for read in (image.verify, lambda: image.readinto(bytearray(1 << 20), 0), lambda: image.parts(b"")):
        with pytest.raises(ImageDamagedError):
            read()
    with pytest.raises(ImageDamagedError):
        content_of(transaction)
    # The layers of a damaged image cannot be counted, but the map stays as it was.
    other = VersionedMap(image_of(state)).transaction(0)
    other.remove_many(binary(state))
    map_ = VersionedMap(image)
    with pytest.raises(ImageDamagedError):
        map_.add(0, other.seal())
    assert map_.transaction(0).get(b"0") == b"value" * 10
    with pytest.raises(ValueError, match="no layer"):
        map_.transaction(1)


@pytest.mark.parametrize("row_checksums", [False, True])
def test_a_file_that_means_harm_does_none(row_checksums: bool) -> None:
    """With right checksums the answers are what they are, but nothing is read outside of the file, and reading ends."""
    whole = file_of(STATE, row_checksums=row_checksums)
    chance = random.Random(row_checksums)
    for _ in range(1500):
        file = bytearray(whole)
        for _ in range(chance.choice([1, 1, 2, 30])):
            at = chance.randrange(BLOCK, len(file) - 8)
            if chance.random() < 0.5:
                file[at] = chance.randrange(256)
            else:
                struct.pack_into(chance.choice("<>") + "I", file, at, chance.choice(NUMBERS))
        error = error_or(everything_quietly, with_right_checksums(file))
        if error is not None:
            assert isinstance(error, ImageDamagedError)
            assert "names no record" in error.message


def everything_quietly(file: bytes) -> None:
    transaction = VersionedMap(Image.open(pa.py_buffer(file), PATH)).transaction(0)
    transaction.get_many(binary([*STATE, b"absent"]))
    batches = list(transaction.scan(100))
    keys, values = transaction.prefix_scan(PREFIX)
    transaction.put_many(keys, values)
    transaction.remove_many(binary(STATE))
    for batch in [*batches, *transaction.scan(100), (keys, values)]:
        for array in batch:
            array.validate(full=True)
            array.to_pylist()


def test_a_header_that_means_harm_does_none() -> None:
    whole = file_of(STATE)
    for at in range(8, 112, 4):
        for number in NUMBERS:
            file = bytearray(whole)
            struct.pack_into("<I", file, at, number)
            struct.pack_into("<I", file, 12, 0)
            struct.pack_into("<I", file, 12, crc32c(bytes(file[:BLOCK])))
            error = error_or(everything_quietly, bytes(file))
            if error is not None:
                assert isinstance(error, StateStoreError)
                assert error.path == PATH
                assert error.offset is not None


def test_a_header_that_tells_of_fewer_keys_than_there_are_is_found_out() -> None:
    file = bytearray(b"".join(image_of(STATE).parts(b"")))
    struct.pack_into("<Q", file, 40, 1)
    map_ = VersionedMap(Image.open(pa.py_buffer(with_right_checksums(file)), PATH))
    other = VersionedMap(image_of(STATE)).transaction(0)
    other.remove_many(binary(STATE))
    layer, transaction = other.seal(), map_.transaction(0)
    for update in (lambda: map_.add(0, layer), lambda: transaction.remove_many(binary(STATE))):
        with pytest.raises(ImageDamagedError, match="more keys than its header says") as caught:
            update()
        assert (caught.value.path, caught.value.offset) == (PATH, 40)
    assert map_.transaction(0).get(next(iter(STATE))) == STATE[next(iter(STATE))]


def test_an_index_without_a_free_slot_ends_a_search() -> None:
    whole = file_of(STATE)
    slots = struct.unpack_from("<Q", whole, 32)[0]
    struct.pack_into(f"<{slots}Q", whole, BLOCK, *[0xABCDEF0000000001] * slots)
    file = pa.py_buffer(with_right_checksums(whole))
    transaction = VersionedMap(Image.open(file, PATH)).transaction(0)
    assert transaction.get_many(binary(b"%d" % i for i in range(100))).null_count == 100


def scan_or_error(transaction: Transaction, prefix: bytes) -> tuple[pa.Array, pa.Array] | StateStoreError:
    try:
        return transaction.prefix_scan(prefix)
    except StateStoreError as error:
        return error


def test_an_index_by_prefixes_that_means_harm_does_none() -> None:
    """What is found has the prefix, whatever the index names."""
    whole = file_of(STATE)
    entries, num_slots, homes = (struct.unpack_from("<Q", whole, at)[0] for at in (24, 96, 88))
    assert (entries, homes) == (len(STATE), 9)
    slots_at = index_at(whole) + -(-8 * struct.unpack_from("<Q", whole, 32)[0] // BLOCK) * BLOCK
    slots = list(struct.unpack_from(f"<{num_slots}Q", whole, slots_at))
    tags = [slot >> 40 for slot in slots if slot]
    assert len(tags) == 7
    chance = random.Random(1)
    for _ in range(500):
        file = bytearray(whole)
        for slot in range(num_slots):
            if chance.random() < 0.5:
                first = chance.choice(
                    [0, 1, 2, entries - 1, entries, entries + 1, (1 << 40) - 1, chance.randrange(300)]
                )
                struct.pack_into("<Q", file, slots_at + 8 * slot, chance.choice(tags) << 40 | first)
        if chance.random() < 0.5:
            for _ in range(100):
                file[slots_at + BLOCK + chance.randrange(5 * entries)] = chance.randrange(256)
        file = with_right_checksums(file)
        transaction = VersionedMap(Image.open(pa.py_buffer(file), PATH)).transaction(0)
        for prefix in range(7):
            row = struct.pack("<qq", 0, prefix)
            found = scan_or_error(transaction, row)
            if isinstance(found, StateStoreError):
                assert isinstance(found, ImageDamagedError)
                assert found.path == PATH
                assert found.offset is not None
            else:
                keys, values = (column.to_pylist() for column in found)
                assert all(STATE[key] == value for key, value in zip(keys, values, strict=True))
                assert {key[:16] for key in keys} <= {row}


def test_versions_that_are_not_known_are_refused() -> None:
    whole = file_of(STATE)
    for version in (1, 2, 4):  # the ones before had another hash
        file = bytearray(whole)
        struct.pack_into("<I", file, 8, version)
        with pytest.raises(UnsupportedVersionError, match=f"format version {version}") as caught:
            Image.open(pa.py_buffer(with_right_checksums(file)), PATH)
        assert caught.value.path == PATH
    for at in (64, 68, 72, 76, 184):
        file = bytearray(whole)
        struct.pack_into("<I", file, at, 3)
        with pytest.raises(UnsupportedVersionError) as caught:
            Image.open(pa.py_buffer(with_right_checksums(file)), PATH)
        assert caught.value.path == PATH


def test_metadata_is_bounded() -> None:
    image = image_of(STATE)
    for size in (0, 1, 3, 1 << 20):
        file = b"".join(image.parts(b"m" * size))
        again = Image.open(pa.py_buffer(file), PATH)
        assert again.metadata == b"m" * size
        assert content_of(VersionedMap(again).transaction(0)) == STATE
    with pytest.raises(ValueError, match="metadata"):
        image.parts(b"m" * ((1 << 20) + 1))


def test_a_file_of_an_opened_image_is_the_same_file() -> None:
    image = image_of(STATE)
    assert b"".join(reopened(image).parts(b"x")) == b"".join(image.parts(b"x"))
