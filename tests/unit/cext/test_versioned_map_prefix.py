"""Prefixes of keys: the row that Spark projects them to, and rows that are none."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdfsstore._cext.versioned_map import Image, ImageBuilder, Merger, PrefixPlan, Transaction, VersionedMap
from hdfsstore.codecs.types import CalendarIntervalType, DecimalType, IntegerType, StringType, StructField, StructType
from hdfsstore.codecs.unsafe_row import RowCodec
from hdfsstore.errors import ImageDamagedError
from tests.support.maps import BLOCK, as_dict, binary, image_of, prefix_plan, records_of, reopened
from tests.support.row_strategies import tables, to_arrow


def places(key: StructType, columns: int, keys: list[bytes]) -> list[Transaction]:
    """Transactions that have the keys in the image, in a file of it, in a layer, and in themselves."""
    plan = prefix_plan(key, columns)
    image = image_of(dict.fromkeys(keys, b"value"), prefix=plan)
    own = VersionedMap(Image.empty(row_checksums=False, prefix=plan))
    written = own.transaction(0)
    written.put_many(binary(keys), binary(b"value" for _ in keys))
    layer = own.transaction(0)
    layer.put_many(binary(keys), binary(b"value" for _ in keys))
    maps = [VersionedMap(image), VersionedMap(reopened(image))]
    return [*(map_.transaction(0) for map_ in maps), written, own.transaction(own.add(0, layer.seal()))]


@given(tables(min_size=1, null_rows=False), st.data())
def test_keys_are_found_by_the_row_of_their_first_columns(
    table: tuple[StructType, pa.StructArray], data: st.DataObject
) -> None:
    key, rows = table
    columns = data.draw(st.integers(1, len(key.fields)))
    first = StructType(key.fields[:columns])
    encoded = RowCodec(key).encode(rows).to_pylist()
    parts = [rows.field(i) for i in range(columns)]
    fields = [to_arrow(first, []).type.field(i) for i in range(columns)]
    prefixes = (
        RowCodec(first).encode(pa.Array.from_buffers(pa.struct(fields), len(rows), [None], children=parts)).to_pylist()
    )
    for transaction in places(key, columns, encoded):
        for prefix in prefixes:
            expected = {k: b"value" for k, p in zip(encoded, prefixes, strict=True) if p == prefix}
            assert as_dict(*transaction.prefix_scan(prefix)) == expected


WIDE = StructType(
    (
        StructField("text", StringType()),
        StructField("decimal", DecimalType(38, 0)),
        StructField("interval", CalendarIntervalType()),
        StructField("int", IntegerType()),
    )
)


@given(
    st.lists(st.binary(max_size=100)),
    st.lists(st.tuples(st.integers(0, 95), st.sampled_from([0, 1, 0x7F, 0x80, 0xFF])), max_size=6),
)
def test_keys_that_are_no_rows_are_found_by_no_prefix_but_by_themselves(
    others: list[bytes], changes: list[tuple[int, int]]
) -> None:
    row = bytearray(struct.pack("<qqqqq", 0, 40 << 32 | 3, 48 << 32 | 1, 64 << 32 | 16, 5))
    row += b"abc" + bytes(5) + b"\x01" + bytes(15) + bytes(16)
    prefix = struct.pack("<qqq", 0, 24 << 32 | 3, 32 << 32 | 1) + b"abc" + bytes(5) + b"\x01" + bytes(15)
    damaged = bytearray(row)
    for at, byte in changes:
        damaged[at % len(row)] = byte
    keys = list(dict.fromkeys([bytes(row), bytes(damaged), *others]))
    for transaction in places(WIDE, 2, keys):
        assert bytes(row) in as_dict(*transaction.prefix_scan(prefix))
        assert transaction.get_many(binary(keys)).null_count == 0


def test_a_prefix_whose_keys_lie_in_all_three_places() -> None:
    key = StructType((StructField("a", IntegerType()), StructField("b", IntegerType())))
    rows = {(a, b): struct.pack("<qqq", 0, a, b) for a in range(20) for b in range(400)}
    in_image = {row: b"old" for (_, b), row in rows.items() if b < 200}
    map_, layer = VersionedMap(image_of(in_image, prefix=prefix_plan(key, 1))), 0
    expected = {rows[7, b]: b"old" for b in range(200)}
    for step in (2, 3, 5):
        changed = {rows[7, b]: b"%d" % step for b in range(0, 400, step)}
        removed = [rows[7, b] for b in range(step, 100, 10)]
        transaction = map_.transaction(layer)
        transaction.put_many(binary(changed), binary(changed.values()))
        transaction.remove_many(binary(removed))
        expected |= changed
        expected = {key: value for key, value in expected.items() if key not in removed}
        layer = map_.add(layer, transaction.seal())
    transaction = map_.transaction(layer)
    transaction.put(rows[7, 199], b"own")
    transaction.remove(rows[7, 198])
    expected[rows[7, 199]] = b"own"
    del expected[rows[7, 198]]
    for prefix, found in ((7, expected), (8, {rows[8, b]: b"old" for b in range(200)}), (20, {})):
        assert as_dict(*transaction.prefix_scan(struct.pack("<qq", 0, prefix))) == found
    assert as_dict(*transaction.prefix_scan(b"")) == {}


LONGS: PrefixPlan = (2, b"\0")  # of rows of two longs, the first of which is the prefix


def long_key(prefix: int, rest: int) -> bytes:
    return struct.pack("<qqq", 0, prefix, rest)


def scanned(image: Image, prefix: int) -> dict[bytes, bytes]:
    return as_dict(*VersionedMap(image).transaction(0).prefix_scan(struct.pack("<qq", 0, prefix)))


def test_prefixes_of_one_key_and_of_many() -> None:
    sizes = dict.fromkeys(range(5000), 1) | {17: 40_000, 18: 0, 4_999: 700}
    rows = {prefix: [long_key(prefix, i) for i in range(count)] for prefix, count in sizes.items()}
    state = {key: b"" for keys in rows.values() for key in keys} | {b"no row": b""}
    image = image_of(state, prefix=LONGS)
    merger = Merger(image, [], prefix=LONGS)
    while merger.build():
        pass
    for each in (image, reopened(image), merger.finish()):
        assert each.prefix == LONGS
        transaction = VersionedMap(each).transaction(0)
        for prefix in (*range(0, 5_000, 3), 17, 18, 4_999, 5_000, -1):
            found = as_dict(*transaction.prefix_scan(struct.pack("<qq", 0, prefix)))
            assert sorted(found) == sorted(rows.get(prefix, []))


def test_a_key_that_comes_twice_is_found_once() -> None:
    updates = [(long_key(i % 3, i % 40), b"%d" % i) for i in range(200)]
    builder = ImageBuilder(row_checksums=False, prefix=LONGS)
    builder.append(*records_of(updates, row_checksums=False))
    image = builder.finish()
    for prefix in range(3):
        assert scanned(image, prefix) == {key: value for key, value in dict(updates).items() if key[8] == prefix}


def test_a_scan_of_a_file_reads_the_records_of_its_prefix_only() -> None:
    """The first one as well: the index is a part of the file."""
    image = image_of({long_key(i // 50, i): b"value" * 20 for i in range(10_000)}, prefix=LONGS)
    file = bytearray(b"".join(image.parts(b"")))
    file[-BLOCK] ^= 1
    damaged = Image.open(pa.py_buffer(bytes(file)), "the-image")
    for prefix in range(190):
        assert len(scanned(damaged, prefix)) == 50
    with pytest.raises(ImageDamagedError):
        scanned(damaged, 199)


def test_an_image_without_a_plan_has_no_index_by_prefixes() -> None:
    image = reopened(image_of({long_key(1, 2): b""}))
    assert image.prefix is None
    with pytest.raises(ValueError, match="prefix plan"):
        scanned(image, 1)
    assert scanned(reopened(Image.empty(row_checksums=False, prefix=LONGS)), 1) == {}
