"""What the end of an SST file says of the rest: its format, its index, and the keys that the MANIFEST names."""

from __future__ import annotations

import bz2
import tracemalloc
import zlib
from typing import Any

import lz4.block
import pytest

from hdfsstore._cext.sst import Merge
from hdfsstore.codecs import sst_table
from hdfsstore.codecs.sst_blocks import decompress
from hdfsstore.codecs.sst_table import KeyRange
from hdfsstore.errors import CorruptFileError, SizeLimitError, UnsupportedVersionError
from tests.support.sst_files import (
    MAX_SEQUENCE,
    RANGE_DELETION,
    XXH3,
    Entry,
    File,
    block_of,
    delta_index_of,
    internal,
    sst_of,
    varint,
)
from tests.support.sst_merges import PATH, rows, table
from tests.support.truth import DATA

CRC32C = 1
KEYS = [b"key %02d" % i for i in range(20)]
ROWS = [(key, b"value") for key in KEYS]
ENTRIES = [(internal(key, 5), value) for key, value in ROWS]
RANGE = KeyRange(internal(KEYS[0], 5), internal(KEYS[-1], 5))


def properties(**numbers: int) -> list[Entry]:
    named = {f"rocksdb.{name.replace('_', '.')}".encode(): varint(number) for name, number in numbers.items()}
    return sorted({b"rocksdb.index.key.is.user.key": b"\1", **named}.items())


class TestFormat:
    """No checksum guards the footer before format 6."""

    @pytest.mark.parametrize("case", ["spark-4.3.0/transform_with_state", "spark-4.3.0/rocksdb_format_version_6"])
    @pytest.mark.parametrize("version", [*range(1, 8), 13, 21, 31])
    def test_a_damaged_format_is_told_by_the_rest_of_the_file(self, case: str, version: int) -> None:
        content = next(DATA.glob(f"{case}/**/*.sst")).read_bytes()
        at = len(content) - 12
        if content[at] == version:
            table(content)
            return
        with pytest.raises(CorruptFileError) as caught:
            table(content[:at] + bytes((version,)) + content[at + 1 :])
        assert caught.value.path == PATH
        assert caught.value.remedy

    @pytest.mark.parametrize("case", ["spark-3.2.1/rocksdb_aggregation", "spark-3.5.9/rocksdb_aggregation"])
    @pytest.mark.parametrize("version", [*range(1, 8), 13, 21, 31])
    def test_a_damaged_format_of_spark_3_is_an_error_or_changes_no_row(self, case: str, version: int) -> None:
        """Their properties have 0. What formats 1 to 5 do otherwise, these files do not have, or it is named."""
        content = next(DATA.glob(f"{case}/**/*.sst")).read_bytes()
        at = len(content) - 12
        damaged = content[:at] + bytes((version,)) + content[at + 1 :]
        assert content[at] == 5
        if version <= 5:
            read, expected = (rows(Merge([[table(each)]], delimiter=b",")) for each in (damaged, content))
            assert read == expected
        else:
            with pytest.raises(CorruptFileError):
                table(damaged)

    @pytest.mark.parametrize("version", [7, 21, 31])
    @pytest.mark.parametrize("is_named", [True, False])
    def test_where_nothing_tells_damage_the_error_names_both_reasons(self, version: int, is_named: bool) -> None:
        named = properties(**({"format_version": version} if is_named else {}))
        content = File().finish(block_of([]), properties=named, version=version)
        with pytest.raises(UnsupportedVersionError, match=f"format {version}, .* or it is damaged here") as caught:
            table(content)
        assert (caught.value.path, caught.value.offset) == (PATH, len(content) - 12)
        assert caught.value.remedy is not None
        assert "restore it" in caught.value.remedy
        assert "with RocksDB" in caught.value.remedy

    @pytest.mark.parametrize(("compression", "codec"), [(0, ""), (2, "zlib"), (3, "bzip2"), (4, "lz4"), (5, "lz4")])
    @pytest.mark.parametrize("version", [0, 1])
    def test_files_of_the_first_formats(self, version: int, compression: int, codec: str) -> None:
        """Spark's conf rocksdb.formatVersion may be 0 or 1. RocksDB 6, in Spark 3.2, then has another footer for 0."""
        file = File(CRC32C)
        block = packed_before_2(codec, block_of(ENTRIES))
        index = packed_before_2(codec, block_of([(KEYS[-1], file.add(block, compression))]))
        content = file.finish(index, index_compression=compression, version=1)
        if version == 0:
            content = content[:-53] + content[-52:-13] + b"\0" + (0xDB4775248B80FB57).to_bytes(8, "little")
        assert rows(Merge([[table(content, RANGE)]], delimiter=b",")) == ROWS
        for at in (5, len(block) // 2):
            damaged = content[:at] + bytes((content[at] ^ 1,)) + content[at + 1 :]
            with pytest.raises(CorruptFileError, match="checksum") as caught:
                rows(Merge([[table(damaged, RANGE)]], delimiter=b","))
            assert (caught.value.path, caught.value.offset) == (PATH, 0)
        for at in range(len(content) - 13, len(content), 3):
            with pytest.raises(CorruptFileError):
                table(content[:at], RANGE)

    @pytest.mark.parametrize("size", [8, 47, 48, 50, 52, 53])
    def test_a_file_that_is_no_longer_than_a_footer_of_format_0(self, size: int) -> None:
        content = (bytes(45) + (0xDB4775248B80FB57).to_bytes(8, "little"))[-size:]
        with pytest.raises(CorruptFileError) as caught:
            table(content)
        assert caught.value.offset in range(size)

    @pytest.mark.parametrize(("compression", "codec"), [(2, "zlib"), (3, "bzip2"), (4, "lz4")])
    def test_blocks_of_the_first_formats_are_bounded(self, compression: int, codec: str) -> None:
        packed = packed_before_2(codec, bytes(1 << 20))
        assert decompress(compression, packed, has_size=False) == bytes(1 << 20)
        with pytest.raises(CorruptFileError, match="at most"):
            decompress(compression, packed, 1000, has_size=False)
        for cut in (0, 3, len(packed) // 2, len(packed) - 1):
            with pytest.raises(CorruptFileError):
                decompress(compression, packed[:cut], has_size=False)


def packed_before_2(codec: str, block: bytes) -> bytes:
    """A block, compressed as before format 2."""
    if codec == "zlib":
        stream = zlib.compressobj(wbits=-15)
        return stream.compress(block) + stream.flush()
    if codec == "bzip2":
        return bz2.compress(block)
    return len(block).to_bytes(8, "little") + lz4.block.compress(block, store_size=False) if codec else block


def sst(first: int = 0, last: int = 7, *, delta: bool, double: bool = False, **numbers: int) -> bytes:
    """Seven blocks, of which the index names those from `first` to `last`."""
    file = File(XXH3)
    places: list[tuple[bytes, int, int]] = []
    for i in range(0, 20, 3):
        block = block_of(ENTRIES[i : i + 3])
        places.append((KEYS[min(i + 2, 19)], len(file.content), len(block)))
        file.add(block)
    told = {"num_data_blocks": len(places), "data_size": len(file.content)} | numbers
    named = properties(**told, **({"index_value_is_delta_encoded": 1} if delta else {}))
    places = places[first:last]
    if double:
        places.insert(1, places[0])
    index = delta_index_of(places) if delta else block_of([(k, varint(at) + varint(n)) for k, at, n in places])
    return file.finish(index, properties=named)


@pytest.mark.parametrize("delta", [False, True])
class TestIndex:
    def test_one_that_names_all_blocks(self, delta: bool) -> None:
        assert rows(Merge([[table(sst(delta=delta), RANGE)]], delimiter=b",")) == ROWS

    @pytest.mark.parametrize(("first", "last"), [(1, 7), (0, 6), (3, 4), (0, 0)])
    def test_one_that_leaves_blocks_out(self, delta: bool, first: int, last: int) -> None:
        """Its checksum is right: only the properties tell."""
        with pytest.raises(CorruptFileError, match="by its properties") as caught:
            table(sst(first, last, delta=delta), RANGE)
        assert caught.value.path == PATH
        assert caught.value.offset is not None

    def test_one_that_names_a_block_twice(self, delta: bool) -> None:
        with pytest.raises(CorruptFileError, match=r"index is not in order|by its properties"):
            table(sst(0, 6, delta=delta, double=True), RANGE)

    @pytest.mark.parametrize("numbers", [{"num_data_blocks": 8}, {"data_size": 1}])
    def test_properties_of_another_file(self, delta: bool, numbers: dict[str, int]) -> None:
        with pytest.raises(CorruptFileError, match="by its properties"):
            table(sst(delta=delta, **numbers), RANGE)


def index_of(size: int, **numbers: int) -> bytes:
    """A file whose index is so many zeros, packed."""
    packed = lz4.block.compress(bytes(size), store_size=False)
    return File().finish(varint(size) + packed, properties=properties(**numbers), index_compression=4)


def test_an_index_that_would_fill_the_memory() -> None:
    """2 GiB in 8 MB: the properties of a file that somebody has made do not bound it."""
    forged = {"raw_key_size": 1 << 40, "raw_value_size": 1 << 40, "num_entries": 1 << 40}
    body = lz4.block.compress(bytes(1 << 20), store_size=False)
    content = File().finish(varint((256 << 20) + 1) + body * 257, properties=properties(**forged), index_compression=4)
    tracemalloc.start()
    try:
        with pytest.raises(SizeLimitError, match=str(256 << 20)) as caught:
            table(content)
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()
    assert (caught.value.path, caught.value.offset) == (PATH, 0)
    assert caught.value.remedy


def test_an_index_has_no_more_bytes_than_the_keys_of_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {"raw_key_size": 100, "raw_value_size": 1 << 30, "num_entries": 10}
    with pytest.raises(CorruptFileError, match="declares"):
        table(index_of(1 << 20, **told))
    monkeypatch.setattr(sst_table, "MOST_INDEX", 1 << 10)
    with pytest.raises(SizeLimitError, match="1024"):
        table(index_of(1 << 20, **told))


class TestRange:
    """The MANIFEST says which keys a file has. By it, look-ups pass over files."""

    @pytest.mark.parametrize("end", ["smallest", "largest"])
    @pytest.mark.parametrize("by", ["narrower", "wider"])
    @pytest.mark.parametrize("bounds", [{}, {"first": b"a"}, {"end": b"z"}], ids=str)
    def test_another_range(self, end: str, by: str, bounds: dict[str, Any]) -> None:
        outside = (end == "smallest") == (by == "wider")
        keys = RANGE._replace(**{end: internal(b"key" if outside else b"z", 5)})
        if by == "narrower":
            keys = RANGE._replace(**{end: internal(KEYS[1] if end == "smallest" else KEYS[-2], 5)})
        with pytest.raises(CorruptFileError, match="first or last key") as caught:
            rows(Merge([[table(sst_of(ENTRIES), keys)]], delimiter=b",", **bounds))
        assert caught.value.path == PATH
        assert caught.value.remedy
        whole = rows(Merge([[table(sst_of(ENTRIES), RANGE)]], delimiter=b",", **bounds))
        assert whole == ROWS

    def test_what_is_not_read_is_not_compared(self) -> None:
        keys = KeyRange(internal(KEYS[1], 5), internal(KEYS[-2], 5))
        merge = Merge([[table(sst_of(ENTRIES), keys)]], delimiter=b",", first=KEYS[8], end=KEYS[10])
        assert rows(merge) == ROWS[8:10]

    def test_range_deletions_widen_it(self) -> None:
        deletion = [(internal(b"a", 1, RANGE_DELETION), b"z")]
        keys = KeyRange(internal(b"a", 1, RANGE_DELETION), internal(b"z", MAX_SEQUENCE, RANGE_DELETION))
        assert rows(Merge([[table(sst_of(ENTRIES, deletion), keys)]], delimiter=b",")) == ROWS
