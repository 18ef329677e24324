"""Tables of more slots than 32 bits count bytes of, and what is more than they have room for."""

from __future__ import annotations

import os
import sys

import pyarrow as pa
import pytest

from hdfsstore._cext.key_groups import group_rows
from hdfsstore._cext.key_set import KeySet
from hdfsstore._cext.versioned_map import Image, LayerBuilder, VersionedMap
from hdfsstore.errors import ImageDamagedError, SizeLimitError
from tests.support.maps import BLOCK, binary, empty_keys, image_of, large_key, updates_of

pytestmark = pytest.mark.skipif(
    not os.environ.get("CI") and sys.platform != "linux", reason="address space without memory can be had on Linux"
)


def image_with_a_damaged_value() -> Image:
    """Of the empty key; whatever reads no other key does not see it."""
    image = image_of({b"": bytes(3 * BLOCK), b"other": b"value"})
    file = bytearray(b"".join(image.parts(b"")))
    file[file.rindex(bytes(2 * BLOCK)) + BLOCK] ^= 1
    return Image.open(pa.py_buffer(bytes(file)), "the-image")


def test_a_table_of_two_to_the_28_slots() -> None:
    """Its 2 GiB are reserved for so many keys; that the first lookup fails leaves them untouched."""
    transaction = VersionedMap(image_with_a_damaged_value()).transaction(0)
    state = {b"key %d" % i: b"%d" % i for i in range(20)}
    transaction.put_many(binary(state), binary(state.values()))
    before = transaction.nbytes
    many = empty_keys((1 << 27) // 4 * 3 + 1)
    with pytest.raises(ImageDamagedError):
        transaction.put_many(many, many)
    assert transaction.nbytes - before > 8 << 28
    for i in range(20, 40):
        transaction.put(b"key %d" % i, b"%d" % i)
        state[b"key %d" % i] = b"%d" % i
    assert {key: transaction.get(key) for key in state} == state
    assert transaction.get(b"other") == b"value"
    assert updates_of(transaction.seal()) == list(state.items())


@pytest.mark.parametrize("count", [3 * (1 << 30) + 1, 1 << 33])
def test_more_keys_than_a_table_has_room_for(count: int) -> None:
    transaction = VersionedMap(Image.empty(row_checksums=False)).transaction(0)
    transaction.put(b"key", b"value")
    keys = empty_keys(count)
    with pytest.raises(SizeLimitError, match="room for 4294967294 updates of 3221225472 keys"):
        transaction.put_many(keys, keys)
    with pytest.raises(SizeLimitError):
        transaction.remove_many(keys)
    transaction.put(b"another", b"value")
    assert transaction.get_many(binary([b"key", b"another", b""])).to_pylist() == [b"value", b"value", None]


def test_keys_and_values_of_2_gib() -> None:
    large, small = large_key(), binary([b"key"])
    transaction = VersionedMap(Image.empty(row_checksums=False)).transaction(0)
    for keys, values in ((large, small), (small, large)):
        with pytest.raises(SizeLimitError, match="is 2 GiB or more"):
            transaction.put_many(keys, values)
    with pytest.raises(SizeLimitError, match="is 2 GiB or more"):
        transaction.get_many(large)
    with pytest.raises(SizeLimitError, match="is 2 GiB or more"):
        group_rows(large, False)
    with pytest.raises(SizeLimitError, match="is 2 GiB or more"):
        KeySet().positions(large)


def test_more_rows_than_can_be_grouped() -> None:
    with pytest.raises(SizeLimitError, match="at most 2147483647"):
        group_rows(empty_keys(1 << 31), False)


@pytest.mark.parametrize("position", [-(1 << 63), -1])
def test_a_position_before_the_records(position: int) -> None:
    with pytest.raises(ValueError, match="is negative"):
        Image.empty(row_checksums=False).readinto(bytearray(8), position)


def test_a_layer_of_several() -> None:
    map_ = VersionedMap(Image.empty(row_checksums=True))
    layers = []
    for updates in ({b"a": b"1", b"b": b"2"}, {}, {b"a": b"3"}):
        transaction = map_.transaction(0)
        transaction.put_many(binary(updates), binary(updates.values()))
        layers.append(transaction.seal())
    builder = LayerBuilder(row_checksums=True)
    for layer in layers:
        builder.append_layer(layer)
    joined = builder.finish()
    assert joined.num_records == 3
    assert updates_of(joined, row_checksums=True) == [(b"a", b"1"), (b"b", b"2"), (b"a", b"3")]
    with pytest.raises(ValueError, match="finished"):
        builder.append_layer(layers[0])
    with pytest.raises(ValueError, match="row checksums"):
        LayerBuilder(row_checksums=False).append_layer(layers[0])
