"""Merges of SST files made by hand, and of overlays: what counts, and what is refused."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdfsstore import (
    CorruptFileError,
    SizeLimitError,
    StateStoreError,
    UnsupportedProviderError,
    UnsupportedVersionError,
)
from hdfsstore._cext.sst import Merge, Overlay, footer_checksum
from hdfsstore.codecs.sst_blocks import decompress
from hdfsstore.codecs.sst_table import KeyRange, Table, open_table
from tests.support.sst_files import (
    DELETION,
    MAX_SEQUENCE,
    MERGE,
    PUT,
    RANGE_DELETION,
    File,
    block_of,
    closed,
    internal,
    sst_of,
    varint,
)
from tests.support.truth import DATA

PATH = "SSTs/000001-x.sst"
ALL_KEYS = KeyRange(internal(b"", MAX_SEQUENCE), internal(b"\xff" * 9, MAX_SEQUENCE, RANGE_DELETION))

Record = tuple[int, bytes, bytes]


def table(content: bytes, keys: KeyRange = ALL_KEYS, window: int = 0) -> Table:
    def read(offset: int, size: int) -> bytes:
        return content[offset : offset + size]

    return open_table(PATH, len(content), read, lambda at, size: content[at : at + max(size, window)], 0, keys)


def overlay_of(records: Sequence[Record]) -> Overlay:
    overlay = Overlay()
    data, keys, values = bytearray(), [], []
    for _, key, value in records:
        keys += [len(data), len(key)]
        values += [len(data) + len(key), len(value)]
        data += key + value
    if records:
        key_spans, value_spans = (struct.pack(f"{len(numbers)}i", *numbers) for numbers in (keys, values))
        overlay.add(data, key_spans, value_spans, bytes(kind for kind, _, _ in records))
    return overlay


def rows(merge: Merge) -> list[tuple[bytes, bytes]]:
    found = []
    while (read := merge.read()) is not None:
        data = bytes(read[0])
        keys, values = (memoryview(spans).cast("B").cast("i").tolist() for spans in read[1:])
        for i in range(0, len(keys), 2):
            key = data[keys[i] : keys[i] + keys[i + 1]]
            found.append((key, data[values[i] : values[i] + values[i + 1]]))
    return found


def merged(*contents: bytes, overlay: Overlay | None = None, delimiter: bytes = b",") -> list[tuple[bytes, bytes]]:
    return rows(Merge([[table(content)] for content in contents], overlay, delimiter=delimiter))


@pytest.mark.parametrize(("kind", "digest"), [(2, 0xE8E3E705), (3, 0x65B89B9B), (4, 0xE16CE425)])
def test_hashes_of_all_sizes(kind: int, digest: int) -> None:
    """The digests are of the hashes that the package xxhash computes of the same bytes."""
    data = bytes((i * 131 + (i >> 8) * 7) & 255 for i in range(2200))
    # XXH3 takes the byte of the compression apart; 0 changes nothing.
    hashes = [footer_checksum(data[:n] + b"\0" * (kind == 4), kind, 0, 0) for n in range(1, 2200)]
    assert zlib.crc32(b"".join(found.to_bytes(4, "little") for found in hashes)) == digest


def test_the_newest_entry_counts() -> None:
    old = sst_of([(internal(b"a", 1), b"old"), (internal(b"b", 2), b"old"), (internal(b"c", 3), b"old")])
    new = sst_of([(internal(b"a", 5), b"new"), (internal(b"b", 6, DELETION), b""), (internal(b"d", 7), b"new")])
    assert merged(old, new) == merged(new, old) == [(b"a", b"new"), (b"c", b"old"), (b"d", b"new")]


@pytest.mark.parametrize("delimiter", [b",", b""])
def test_operands_are_joined_over_all_files_down_to_a_value(delimiter: bytes) -> None:
    base = sst_of([(internal(b"a", 2), b"0"), (internal(b"b", 1), b"never"), (internal(b"c", 3, MERGE), b"x")])
    middle = sst_of(
        [(internal(b"a", 5, MERGE), b"2"), (internal(b"a", 4, MERGE), b"1"), (internal(b"b", 6, DELETION), b"")]
    )
    overlay = overlay_of([(MERGE, b"a", b"3"), (MERGE, b"b", b"only"), (MERGE, b"b", b"these")])
    assert merged(middle, base, overlay=overlay, delimiter=delimiter) == [
        (b"a", delimiter.join((b"0", b"1", b"2", b"3"))),
        (b"b", delimiter.join((b"only", b"these"))),
        (b"c", b"x"),
    ]


def test_a_range_deletion_holds_within_its_file() -> None:
    """What the compaction has written to the next file may have lost its sequence numbers."""
    deletion = [(internal(b"a", 5, RANGE_DELETION), b"z")]
    first = table(
        sst_of([(internal(b"b", 9), b"newer"), (internal(b"c", 3), b"gone")], deletion),
        KeyRange(internal(b"a", 5, RANGE_DELETION), internal(b"m", 4)),
    )
    others = sst_of([(internal(b"m", 3), b"out"), (internal(b"n", 0), b"out")])
    below = sst_of([(internal(b"b", 1), b"gone"), (internal(b"l", 2), b"gone")])
    assert rows(Merge([[first, table(others)], [table(below)]], delimiter=b",")) == [
        (b"b", b"newer"), (b"m", b"out"), (b"n", b"out"),
    ]  # fmt: skip


KEYS = st.sampled_from([b"", b"a", b"ab", b"ab\0", b"b", b"\0" * 9, b"\0" * 9 + b"\1", b"long" * 20, b"\xff"])
RECORDS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from([PUT, MERGE, DELETION, 7]), KEYS, st.binary(max_size=40)),
        st.tuples(st.just(RANGE_DELETION), KEYS, KEYS),
    ),
    max_size=60,
)


def model(records: Sequence[Record], delimiter: bytes) -> dict[bytes, bytes]:
    state: dict[bytes, bytes] = {}
    for kind, key, value in records:
        if kind == PUT:
            state[key] = value
        elif kind == MERGE:
            state[key] = state[key] + delimiter + value if key in state else value
        elif kind == RANGE_DELETION:
            state = {k: v for k, v in state.items() if not key <= k < value}
        else:
            state.pop(key, None)
    return state


@given(RECORDS, st.integers(0, 60), st.sampled_from([b",", b""]), st.tuples(st.none() | KEYS, st.none() | KEYS))
def test_overlays_and_files_agree_with_a_model(
    records: list[Record], cut: int, delimiter: bytes, bounds: tuple[bytes | None, bytes | None]
) -> None:
    """The first records are in a file, the others in the overlay."""
    numbered = [(key, sequence, kind, value) for sequence, (kind, key, value) in enumerate(records[:cut], 1)]
    points = sorted((r for r in numbered if r[2] != RANGE_DELETION), key=lambda r: (r[0], -r[1]))
    ranges = sorted((r for r in numbered if r[2] == RANGE_DELETION), key=lambda r: (r[0], -r[1]))
    content = sst_of(*([(internal(key, s, kind), value) for key, s, kind, value in part] for part in (points, ranges)))
    first, end = bounds
    merge = Merge(
        [[table(content)]], overlay_of(records[cut:]), delimiter=delimiter, first=first, end=end, chunk_bytes=1
    )
    expected = sorted(model(records, delimiter).items())
    assert rows(merge) == [
        row for row in expected if (first is None or row[0] >= first) and (end is None or row[0] < end)
    ]


@pytest.mark.parametrize(
    "keys",
    [
        [b"user-%d" % (i * 48271 % 65537) for i in range(2000)],
        [b"\0" * (i % 70) + b"\1" * (i % 3) for i in range(2000)],
        [b"x" * i for i in range(400)],
        [b"y" * 100 + b"%d" % (i % 900) for i in range(2000)],
        [b"one"] * 100 + [b""] * 100,
    ],
    ids=["numbers", "zeros at the end", "each begins the next", "a long common start", "few keys, often"],
)
def test_overlays_of_many_records_are_sorted_whatever_their_keys_share(keys: list[bytes]) -> None:
    random.Random(1).shuffle(keys)
    records = [(MERGE if i % 3 else PUT, key, b"%d" % i) for i, key in enumerate(keys)]
    expected = sorted(model(records, b",").items())
    assert rows(Merge((), overlay_of(records), delimiter=b",")) == expected


@pytest.mark.parametrize(
    "key_of",
    [
        lambda i: b"a row of several words, user-%d" % i,
        lambda i: b"%d" % i,
        lambda i: b"%d" % i + b"\0" * (i % 12),
        lambda i: b"x" * (i % 120) + b"%d" % (i % 97),
        lambda i: b"%d, and more bytes than a head has" % (i // 3) + b"%d" % (i % 3),
        lambda i: b"%c\0\0\0\0\0\0\0user-%d" % (len(str(i)), i),
    ],
    ids=["a common start", "numbers", "zeros at the end", "of many sizes", "differ at the end", "their sizes first"],
)
@pytest.mark.parametrize(("chunk_bytes", "per_block"), [(1, 100), (20_000, 7)])
def test_many_rows_of_several_files_and_an_overlay(
    key_of: Callable[[int], bytes], chunk_bytes: int, per_block: int
) -> None:
    """Most rows take the short way of a merge; merges, deletions, large values and older entries do not."""
    random_of = random.Random(7)
    kinds = [PUT] * 20 + [MERGE, DELETION]
    records = [
        (random_of.choice(kinds), key_of(random_of.randrange(3000)), b"v%d" % i * random_of.choice([0, 1, 1, 1, 40]))
        for i in range(8000)
    ]
    runs = []
    for part in (range(4000, 6000), range(2000, 4000), range(2000)):
        entries = [(records[i][1], -i, records[i][0], records[i][2]) for i in part]
        internals = [(internal(key, -at, kind), value) for key, at, kind, value in sorted(entries)]
        runs.append([table(sst_of(internals, per_block=per_block, restart_every=4))])
    merge = Merge(runs, overlay_of(records[6000:]), delimiter=b",", chunk_bytes=chunk_bytes)
    assert rows(merge) == sorted(model(records, b",").items())


@pytest.mark.parametrize("at", [1, 2, 5, 19, 20, 21, 39])
@pytest.mark.parametrize("other", ["an earlier key", "the same key", "the same key, newer"])
@pytest.mark.parametrize("restart_every", [1, 16])
def test_each_key_out_of_order_is_found(at: int, other: str, restart_every: int) -> None:
    keys = [b"the key with number %d" % i for i in range(10, 50)]
    entries = [(internal(key, 5), b"v") for key in keys]
    wrong = {
        "an earlier key": internal(keys[at - 1][:-1], 5),
        "the same key": internal(keys[at - 1], 5),
        "the same key, newer": internal(keys[at - 1], 6),
    }[other]
    with pytest.raises(CorruptFileError, match="not in order"):
        merged(sst_of([*entries[:at], (wrong, b"v"), *entries[at:]], per_block=20, restart_every=restart_every))


def test_a_record_may_be_larger_than_a_chunk() -> None:
    large = [(internal(b"%d" % i), b"%d" % i * 50_000) for i in range(5)]
    overlay = overlay_of([(MERGE, b"2", b"x" * 70_000)])
    found = rows(Merge([[table(sst_of(large))]], overlay, delimiter=b",", chunk_bytes=4096))
    assert [(key, len(value)) for key, value in found] == [
        (b"0", 50_000), (b"1", 50_000), (b"2", 120_001), (b"3", 50_000), (b"4", 50_000),
    ]  # fmt: skip


def test_only_the_blocks_between_the_bounds_are_read() -> None:
    content = sst_of([(internal(b"%05d" % i), b"v") for i in range(3000)])
    asked = []

    def window(at: int, size: int) -> bytes:
        asked.append(at)
        return content[at : at + size]

    opened = open_table(PATH, len(content), lambda at, size: content[at : at + size], window, 0, ALL_KEYS)
    merge = Merge([[opened]], delimiter=b",", first=b"01500", end=b"01501")
    assert rows(merge) == [(b"01500", b"v")]
    assert len(asked) == 1


def test_a_file_whose_index_ends_behind_the_bound_is_not_the_last_one() -> None:
    """An index may end with any key that is not before those of the file, so also behind those of the next file."""
    tables = []
    for first, last in ((b"a", b"z"), (b"b", b"b"), (b"d", b"d")):
        file = File()
        handle = file.add(block_of([(internal(first), b"v")]))
        tables.append(table(file.finish(block_of([(last, handle)]))))
    assert rows(Merge([tables], delimiter=b",", end=b"c")) == [(b"a", b"v"), (b"b", b"v")]
    assert rows(Merge([tables], delimiter=b",", first=b"b", end=b"e")) == [(b"b", b"v"), (b"d", b"v")]


@pytest.mark.parametrize(
    "entry",
    [
        b"\0" + varint(1 << 63) + b"\0" + internal(b"a"),
        b"\0\x09" + varint((1 << 64) - 1) + internal(b"a"),
        b"\0\x09" + b"\xff" * 10 + internal(b"a"),
        b"\1\x09\0" + internal(b"a"),
        varint((1 << 31) + 1) + b"\x09\0" + internal(b"a"),
        b"\0\x07\0" + bytes(7),
        b"\0\x09\5" + internal(b"a"),
        b"\xff",
        b"\0\x89",
    ],
)
def test_entries_that_contradict_themselves(entry: bytes) -> None:
    file = File()
    handle = file.add(closed(entry))
    content = file.finish(block_of([(b"z", handle)]))
    with pytest.raises(CorruptFileError) as caught:
        merged(content)
    assert (caught.value.path, caught.value.offset) == (PATH, 0)


@pytest.mark.parametrize(
    ("handle", "error"),
    [
        (varint(1 << 63) + varint(5), CorruptFileError),
        (varint(0) + varint((1 << 64) - 1), CorruptFileError),
        (varint((1 << 64) - 5) + varint(10), CorruptFileError),
        (varint(0) + varint(10_000), CorruptFileError),
        (varint(3), CorruptFileError),
        (b"\xff" * 11, CorruptFileError),
    ],
)
def test_handles_that_the_file_does_not_have(handle: bytes, error: type[StateStoreError]) -> None:
    file = File()
    file.add(block_of([(internal(b"a"), b"v")]))
    with pytest.raises(error) as caught:
        merged(file.finish(block_of([(b"z", handle)])))
    assert caught.value.path == PATH
    assert caught.value.offset is not None


@pytest.mark.parametrize("compression", [1, 2, 3, 4, 5, 7])
@pytest.mark.parametrize("size", [0, 1, 300, 1 << 30, (1 << 31) - 1, 1 << 31, 1 << 40, (1 << 64) - 1])
def test_declared_sizes_of_blocks_allocate_nothing(compression: int, size: int) -> None:
    file = File()
    handle = file.add(varint(size) + b"no block that any codec has made", compression)
    with pytest.raises((CorruptFileError, SizeLimitError)) as caught:
        merged(file.finish(block_of([(b"z", handle)])))
    assert caught.value.path == PATH


@pytest.mark.parametrize(("compression", "most"), [(1, 64), (2, 1040), (4, 255), (5, 255), (7, 1 << 15), (64, 1 << 15)])
def test_no_block_is_larger_than_its_codec_can_make_of_it(compression: int, most: int) -> None:
    for size, can_be in ((90 * most, True), (100 * most, False)):
        with pytest.raises(CorruptFileError) as caught:
            decompress(compression, varint(size) + bytes(90))
        assert ("declares" in caught.value.message) == (not can_be)


def test_blocks_of_zeros_are_read_however_well_they_compress() -> None:
    zeros = bytes(32 << 20)
    compress = zlib.compressobj(9, zlib.DEFLATED, -15)
    deflated = compress.compress(zeros) + compress.flush()
    assert decompress(2, varint(len(zeros)) + deflated) == zeros
    assert decompress(7, varint(len(zeros)) + pa.compress(zeros, "zstd", asbytes=True)) == zeros
    assert decompress(1, pa.compress(zeros, "snappy", asbytes=True)) == zeros


def sizes(keys: int, values: int, entries: int) -> list[tuple[bytes, bytes]]:
    """Properties of a file, in their order."""
    return [
        (b"rocksdb.index.key.is.user.key", b"\1"),
        (b"rocksdb.num.entries", varint(entries)),
        (b"rocksdb.raw.key.size", varint(keys)),
        (b"rocksdb.raw.value.size", varint(values)),
    ]


@pytest.mark.parametrize(("compression", "codec"), [(1, "snappy"), (4, "lz4_raw"), (7, "zstd")])
@pytest.mark.parametrize("in_index", [False, True])
def test_no_block_is_larger_than_the_rows_of_its_file(compression: int, codec: str, in_index: bool) -> None:
    """A block of 1 MiB of zeros is whole by its checksum, and much more than one row of 3 bytes."""
    key, value = internal(b"a"), bytes(1 << 20)
    block = block_of([(key, value)])
    packed = pa.compress(block, codec, asbytes=True)
    contents = packed if compression == 1 else varint(len(block)) + packed

    def file_of(value_size: int) -> bytes:
        file = File()
        handle = file.add(contents, compression)
        return file.finish(block_of([(b"a", handle)]), properties=sizes(len(key), value_size, 1))

    assert merged(file_of(len(value))) == [(b"a", value)]
    if in_index:
        with pytest.raises(CorruptFileError, match="declares") as caught:
            table(File().finish(contents, properties=sizes(9, 3, 1), index_compression=compression))
    else:
        with pytest.raises(CorruptFileError, match="declares") as caught:
            merged(file_of(3))
    assert (caught.value.path, caught.value.offset) == (PATH, 0)


def test_blocks_that_rocksdb_never_compresses() -> None:
    file = File()
    plain = block_of([(internal(b"a", 1, RANGE_DELETION), bytes(4096))])
    handle = file.add(varint(len(plain)) + pa.compress(plain, "zstd", asbytes=True), 7)
    with pytest.raises(CorruptFileError, match="declares") as caught:
        table(file.finish(block_of([]), more=[(b"rocksdb.range_del", handle)]))
    assert (caught.value.path, caught.value.offset) == (PATH, 0)


def test_values_without_operands_are_read_whatever_would_merge_them() -> None:
    file = File()
    handle = file.add(block_of([(internal(b"a"), b"v")]))
    properties = [(b"rocksdb.index.key.is.user.key", b"\1"), (b"rocksdb.merge.operator", b"UInt64AddOperator")]
    assert merged(file.finish(block_of([(b"a", handle)]), properties=properties)) == [(b"a", b"v")]


@pytest.mark.parametrize("kind", [3, 8, 0x11, 0x14, 0x16, 0x18, 0xFF])
def test_other_kinds_of_entries_are_refused_by_name(kind: int) -> None:
    with pytest.raises(UnsupportedProviderError, match=f"kind {kind}"):
        merged(sst_of([(internal(b"a", 1, kind), b"v")]))


@pytest.mark.parametrize(
    ("properties", "more"),
    [
        ([(b"rocksdb.block.based.table.index.type", (2).to_bytes(4, "little"))], []),
        ([(b"rocksdb.block.based.table.index.type", (3).to_bytes(4, "little"))], []),
        ([(b"rocksdb.comparator", b"rocksdb.ReverseBytewiseComparator")], []),
        ([], [(b"rocksdb.compression_dict", b"\0\0")]),
        ([(b"rocksdb.merge.operands", b"\1"), (b"rocksdb.merge.operator", b"UInt64AddOperator")], []),
    ],
)
def test_other_tables_are_refused_by_name(
    properties: list[tuple[bytes, bytes]], more: list[tuple[bytes, bytes]]
) -> None:
    with pytest.raises(UnsupportedProviderError) as caught:
        table(File().finish(block_of([]), properties=properties, more=more))
    assert caught.value.path == PATH


@pytest.mark.parametrize(
    ("version", "error"),
    [(1, UnsupportedVersionError), (7, UnsupportedVersionError), (5 + 256, CorruptFileError), (69, CorruptFileError)],
)
def test_other_formats_and_damaged_ones(version: int, error: type[StateStoreError]) -> None:
    """No checksum guards the format. If it is damaged, an older zip may take the place of this one."""
    content = File().finish(block_of([]), version=version)
    with pytest.raises(error, match=f"format {version}") as caught:
        table(content)
    assert (caught.value.path, caught.value.offset) == (PATH, len(content) - 12)


@pytest.mark.parametrize(
    "name",
    [b"block.based.table.index.type", b"external_sst_file.version", b"external_sst_file.global_seqno"],
)
def test_numbers_in_properties_that_are_too_long(name: bytes) -> None:
    """Python refuses to show numbers of so many digits."""
    properties = {b"rocksdb.external_sst_file.version": b"\2", b"rocksdb." + name: b"\1" * 2000}
    with pytest.raises(CorruptFileError, match="2000 bytes") as caught:
        table(File().finish(block_of([]), properties=sorted(properties.items())))
    assert caught.value.path == PATH
    assert caught.value.offset is not None


def test_names_that_share_so_many_bytes_that_they_would_fill_the_memory() -> None:
    """80 KB of properties, whose names have 256 MB."""
    file, size = File(), 1 << 16
    entries = varint(0) + varint(size) + varint(0) + bytes(size)
    entries += (varint(size - 1) + b"\1\0n") * 4096
    handle = file.add(closed(entries))
    with pytest.raises(CorruptFileError, match="contradicts itself") as caught:
        table(file.finish(block_of([]), more=[(b"rocksdb.range_del", handle)]))
    assert (caught.value.path, caught.value.offset) == (PATH, 0)


@pytest.mark.parametrize("restart_every", [1, 2, 16])
def test_an_index_whose_entries_share_bytes_and_tell_what_sizes_add(restart_every: int) -> None:
    entries = [(internal(b"%03d" % i), b"v" * (i * 7 % 40)) for i in range(200)]
    content = sst_of(entries, per_block=3, restart_every=restart_every, delta_index=True)
    assert merged(content) == [(key[:-8], value) for key, value in entries]
    found = rows(Merge([[table(content)]], delimiter=b",", first=b"150", end=b"153"))
    assert [key for key, _ in found] == [b"150", b"151", b"152"]


def test_keys_out_of_order_are_found() -> None:
    with pytest.raises(CorruptFileError, match="not in order"):
        merged(sst_of([(internal(b"b"), b""), (internal(b"a"), b"")]))


@pytest.mark.parametrize("sequence", [2, 3])
def test_entries_of_a_key_out_of_order_are_found(sequence: int) -> None:
    with pytest.raises(CorruptFileError, match="not in order"):
        merged(sst_of([(internal(b"a", 2, MERGE), b"1"), (internal(b"a", sequence, MERGE), b"2")]))


def test_an_index_that_names_a_block_again_and_again() -> None:
    """Otherwise a small file would make a value without end."""
    file = File()
    handle = file.add(block_of([(internal(b"a", 2, MERGE), bytes(1000))]))
    with pytest.raises(CorruptFileError, match="not in order"):
        merged(file.finish(block_of([(b"a", handle)] * 100)))


@pytest.mark.parametrize("start", [(1 << 31) - 40, (1 << 32) - 40])
@pytest.mark.parametrize("damaged", [False, True])
def test_blocks_behind_two_and_four_gigabytes(start: int, damaged: bool) -> None:
    file = File(start=start)
    blocks = [[(internal(b"%02d" % i), b"v%d" % i) for i in range(at, at + 4)] for at in range(0, 40, 4)]
    handles = [(part[-1][0][:-8], file.add(block_of(part))) for part in blocks]
    content = file.finish(block_of(handles))
    at_last = content.index(b"v39")
    if damaged:
        content = content[:at_last] + b"V" + content[at_last + 1 :]

    def read(offset: int, size: int) -> bytes:
        zeros = bytes(max(start - offset, 0))
        return zeros + content[max(offset - start, 0) : offset - start + size]

    opened = open_table(PATH, start + len(content), read, read, 0, ALL_KEYS)
    assert rows(Merge([[opened]], delimiter=b",", first=b"17", end=b"19")) == [(b"17", b"v17"), (b"18", b"v18")]
    if damaged:
        with pytest.raises(CorruptFileError, match="checksum") as caught:
            rows(Merge([[opened]], delimiter=b","))
        assert start + at_last - 80 < (caught.value.offset or 0) < start + at_last
    else:
        assert len(rows(Merge([[opened]], delimiter=b","))) == 40


def indexed(index: Sequence[tuple[bytes, int]], *blocks: Sequence[bytes]) -> bytes:
    """A file of blocks of keys, and an index of a key and the number of a block each."""
    file = File()
    handles = [file.add(block_of([(internal(key), b"v") for key in keys])) for keys in blocks]
    return file.finish(block_of([(key, handles[at]) for key, at in index]))


@pytest.mark.parametrize(
    "index",
    [
        [(b"z", 0), (b"d", 1), (b"f", 2)],
        [(b"b", 0), (b"f", 2), (b"d", 1)],
        [(b"b", 0), (b"d", 2), (b"f", 1)],
        [(b"a", 0), (b"d", 1), (b"f", 2)],
        [(b"b", 0), (b"d", 1), (b"e", 2)],
        [(b"cc", 0), (b"d", 1), (b"f", 2)],
    ],
    ids=[
        "keys go down",
        "entries change places",
        "blocks go back",
        "a key behind",
        "the last key behind",
        "a key before",
    ],
)
def test_an_index_whose_keys_are_not_those_of_its_blocks(index: list[tuple[bytes, int]]) -> None:
    """Otherwise a look-up of a key would not find what a read of all finds."""
    blocks = ([b"a", b"b"], [b"c", b"d"], [b"e", b"f"])
    assert len(merged(indexed([(b"bb", 0), (b"d", 1), (b"g", 2)], *blocks))) == 6
    with pytest.raises(CorruptFileError, match="index is not in order") as caught:
        merged(indexed(index, *blocks))
    assert (caught.value.path, caught.value.remedy is not None) == (PATH, True)


def test_blocks_without_entries_that_an_index_names_again_and_again() -> None:
    """Otherwise a file of 100 KB would keep a processor busy for hours: it has nothing that could be out of order."""
    restarts = (2 << 20) // 4
    plain = bytes(4 * restarts) + restarts.to_bytes(4, "little")
    file = File()
    handle = file.add(varint(len(plain)) + pa.compress(plain, "lz4_raw", asbytes=True), 4)
    with pytest.raises(CorruptFileError, match="index is not in order"):
        merged(file.finish(block_of([(b"%08d" % i, handle) for i in range(5000)])))


def test_entries_without_a_restart_point() -> None:
    """RocksDB takes such a block for an empty one."""
    file = File()
    handle = file.add(closed(b"\0\x09\1" + internal(b"a") + b"v", []))
    with pytest.raises(CorruptFileError, match="contradicts itself"):
        merged(file.finish(block_of([(b"a", handle)])))


def test_operands_are_refused_before_they_fill_the_memory() -> None:
    taken = 0

    def tables() -> Iterator[Table]:
        nonlocal taken
        for sequence in range(40, 0, -1):
            taken += 1
            yield table(sst_of([(internal(b"a", sequence, MERGE), b"")]))

    with pytest.raises(SizeLimitError):
        rows(Merge([tables()], delimiter=bytes(64 << 20)))
    assert taken == 16


@pytest.mark.parametrize("delimiter", [b",", b""])
def test_operands_of_no_bytes_count_too(delimiter: bytes) -> None:
    content = sst_of([(internal(b"a", sequence, MERGE), b"") for sequence in range(4000, 0, -1)])
    with pytest.raises(SizeLimitError, match="1025 operands"):
        rows(Merge([[table(content)]], delimiter=delimiter, most_bytes=8192))
    assert rows(Merge([[table(content)]], delimiter=delimiter, most_bytes=32000)) == [(b"a", delimiter * 3999)]


def test_a_merge_that_failed_does_not_end_as_if_all_was_read() -> None:
    def tables() -> Iterator[Table]:
        yield table(sst_of([(internal(b"a"), b"v")]))
        raise OSError("the connection is lost")

    merge = Merge([tables()], delimiter=b",")
    with pytest.raises(OSError, match="connection"):
        merge.read()
    with pytest.raises(RuntimeError, match="failed earlier"):
        merge.read()


def test_a_merge_takes_one_call_at_a_time() -> None:
    content = sst_of([(internal(b"a"), b"v")])
    refused = []

    def window(at: int, size: int) -> bytes:
        with ThreadPoolExecutor(1) as other:
            refused.append(other.submit(merge.read).exception())
        return content[at : at + size]

    opened = open_table(PATH, len(content), lambda at, size: content[at : at + size], window, 0, ALL_KEYS)
    merge = Merge([[opened]], delimiter=b",")
    assert rows(merge) == [(b"a", b"v")]
    assert [(type(error), str(error)) for error in refused] == [
        (RuntimeError, "the object is in use by another thread"),
    ]


@pytest.mark.thorough
def test_many_range_deletions() -> None:
    """Each but the last of a key is older than the key: they stay until they have ended."""
    count = 200_000
    records: list[Record] = []
    for i in range(count):
        records.append((RANGE_DELETION, b"%08d" % i, b"%08d" % (i + 1)))
    records += [(PUT, b"%08d" % i, b"") for i in range(count)]
    assert len(rows(Merge([], overlay_of(records), delimiter=b","))) == count


@pytest.mark.parametrize("spans", [(-1, 3), (0, -1), (2**31 - 1, 2**31 - 1), (0, 4), (4, 0)])
def test_overlays_refuse_spans_that_do_not_fit(spans: tuple[int, int]) -> None:
    overlay = Overlay()
    with pytest.raises(ValueError, match="span"):
        overlay.add(b"abc", struct.pack("2i", *spans), struct.pack("2i", 0, 0))
    with pytest.raises(ValueError, match="kind"):
        overlay.add(b"abc", struct.pack("2i", 0, 3), struct.pack("2i", 0, 0), b"\x03")
    with pytest.raises(ValueError, match="kinds"):
        overlay.add(b"abc", struct.pack("2i", 0, 3), struct.pack("2i", 0, 0), b"")
    assert len(overlay) == 0


def test_every_cut_and_every_change_is_found() -> None:
    entries = [(internal(b"key %d" % i, i + 1, i % 3), b"value") for i in range(9)]
    content = sst_of(entries, [(internal(b"key 3", 20, RANGE_DELETION), b"key 5")])
    whole, unnamed = merged(content), 0
    padding = range(len(content) - 53, len(content))  # in the footer
    for at in range(len(content)):
        with pytest.raises(StateStoreError):
            merged(content[:at])
        for change in (1, 0x80, 0xFF):
            damaged = bytearray(content)
            damaged[at] ^= change
            try:
                found = merged(bytes(damaged))
            except StateStoreError as error:
                unnamed += error.path != PATH
            else:
                assert at in padding
                assert found == whole
    assert not unnamed


@pytest.mark.parametrize(
    "case",
    [
        "transform_with_state",
        "rocksdb_checksum_kcrc32c",
        "rocksdb_checksum_kxxhash",
        "rocksdb_checksum_kxxhash64",
        "rocksdb_compression_zstd",
        "rocksdb_format_version_2",
        "rocksdb_format_version_6",
    ],
)
def test_every_cut_and_every_change_of_a_file_of_spark_is_found_or_changes_nothing(case: str) -> None:
    """What may change are the Bloom filter, which is not read, and the padding of the footer."""
    files = (DATA / "spark-4.3.0" / case).rglob("*.sst")
    content = min(files, key=lambda path: (path.stat().st_size, path.name)).read_bytes()
    whole, found = merged(content), 0
    for at in range(len(content)):
        with pytest.raises(StateStoreError) as cut:
            merged(content[:at])
        assert cut.value.path == PATH
        for change in (1, 0x80, 0xFF):
            damaged = bytearray(content)
            damaged[at] ^= change
            try:
                assert merged(bytes(damaged)) == whole
            except StateStoreError as error:
                assert error.path == PATH  # noqa: PT017 - most are found, and all found ones name the file
                found += 1
    assert found > 2 * len(content)
