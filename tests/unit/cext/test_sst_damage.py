"""SST files and overlays that are damaged, hostile, or not Spark's: what is refused, and with which words."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pytest

from hdfsstore import (
    CorruptFileError,
    SizeLimitError,
    StateStoreError,
    UnsupportedProviderError,
    UnsupportedVersionError,
)
from hdfsstore._cext.sst import Merge, Overlay
from hdfsstore.codecs.sst_blocks import decompress
from hdfsstore.codecs.sst_table import Table
from tests.support.sst_files import (
    MERGE,
    RANGE_DELETION,
    File,
    block_of,
    closed,
    internal,
    sst_of,
    varint,
)
from tests.support.sst_merges import PATH, merged, rows, table
from tests.support.truth import DATA


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
    [
        (7, UnsupportedVersionError),
        (31, UnsupportedVersionError),
        (0, CorruptFileError),
        (5 + 256, CorruptFileError),
        (69, CorruptFileError),
    ],
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
        "spark-3.5.9/rocksdb_aggregation",  # as Spark 3 writes them: CRC-32C, Snappy
        "spark-4.3.0/transform_with_state",
        "spark-4.3.0/rocksdb_checksum_kcrc32c",
        "spark-4.3.0/rocksdb_checksum_kxxhash",
        "spark-4.3.0/rocksdb_checksum_kxxhash64",
        "spark-4.3.0/rocksdb_compression_zstd",
        "spark-4.3.0/rocksdb_format_version_2",
        "spark-4.3.0/rocksdb_format_version_6",
    ],
)
def test_every_cut_and_every_change_of_a_file_of_spark_is_found_or_changes_nothing(case: str) -> None:
    """What may change are the Bloom filter, which is not read, and the padding of the footer."""
    files = (DATA / case).rglob("*.sst")
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
