"""RocksDBs that we have written: RocksDB and our own reader read the same rows, and RocksDB goes on with them."""

from __future__ import annotations

import random
import shutil
import struct
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rocksdict import BlockBasedOptions, CompactOptions, Options, Rdict

from hdfsstore import CorruptFileError, SizeLimitError, StateStoreError
from hdfsstore._cext.sst import SstBuilder
from hdfsstore.codecs.records import RecordChunk
from hdfsstore.codecs.sst_table import KeyRange
from hdfsstore.fs.local_files import LocalFileManager
from hdfsstore.state.rocksdb.archive import Archive, decode
from hdfsstore.state.rocksdb.database_writer import write_archive, write_version
from hdfsstore.state.rocksdb.manifest import LiveFile, live_files
from hdfsstore.state.rocksdb.manifest_writer import encode_manifest
from tests.support.databases import Row, lay_out, opened, options, rows_of

FS = LocalFileManager()


def chunk_of(rows: Sequence[Row]) -> RecordChunk:
    spans: tuple[list[int], list[int]] = ([], [])
    at = 0
    for row in rows:
        for found, part in zip(spans, row, strict=True):
            found += [at, len(part)]
            at += len(part)
    data = b"".join(key + value for key, value in rows)
    keys, values = (pa.py_buffer(struct.pack(f"{len(numbers)}i", *numbers)) for numbers in spans)
    return RecordChunk(memoryview(data), keys, values, "rows", 0)


def chunks_of(rows: Sequence[Row], size: int = 1000) -> Iterator[RecordChunk]:
    return (chunk_of(rows[i : i + size]) for i in range(0, len(rows), size))


def database_of(archive: Archive, folder: Path) -> Path:
    """The files as RocksDB has them."""
    made = folder / "db"
    made.mkdir()
    lay_out(archive.files, made)
    for sst in archive.ssts:
        shutil.copy(folder / "SSTs" / sst.remote, made / sst.local)
    return made


def with_filter() -> Options:
    def change(found: Options, table: BlockBasedOptions) -> None:
        table.set_bloom_filter(10.0, False)
        found.enable_statistics()

    return options(change=change)


def check(rows: list[Row], folder: Path, file_bytes: int) -> Archive:
    """Writes rows; our reader and RocksDB read them, by iteration and one by one, and a compaction takes them."""
    archive = write_archive(FS, str(folder), chunks_of(rows), file_bytes=file_bytes)
    assert archive.num_keys == len(rows)
    assert rows_of(opened(archive, folder).chunks()) == rows
    database = Rdict(str(database_of(archive, folder)), with_filter())
    try:
        assert list(database.items()) == rows
        assert all(database[key] == value for key, value in rows)
        database[b"\xff new"] = b"1"
        database.flush()
        database.compact_range(None, None, CompactOptions())
        assert list(database.items()) == sorted([*rows, (b"\xff new", b"1")])
    finally:
        database.close()
    return archive


def test_keys_of_all_sizes(tmp_path: Path) -> None:
    """The hash of the filter has five ways, by the size of the key."""
    chance = random.Random(1)
    sizes = [*range(300), *range(1000, 1100), 2048, 5000, 70_000]
    rows = {chance.randbytes(size): chance.randbytes(3) * chance.randrange(50) for size in sizes * 3}
    assert len(check(sorted(rows.items()), tmp_path, file_bytes=200_000).ssts) > 2


def test_rows_of_all_sizes(tmp_path: Path) -> None:
    rows = [(b"%06d" % n, bytes(n)) for n in range(300)]
    rows += [(b"large", random.Random(2).randbytes(5 << 20)), (b"large and flat", bytes(20 << 20)), (b"small", b"")]
    assert len(check(rows, tmp_path, file_bytes=4 << 20).ssts) == 2


def test_chunks_of_a_database_are_taken(tmp_path: Path) -> None:
    rows = [(b"%06d" % n, b"value") for n in range(50_000)]
    first = write_archive(FS, str(tmp_path), chunks_of(rows))
    second = write_archive(FS, str(tmp_path), opened(first, tmp_path).chunks(), file_bytes=100_000)
    assert len(second.ssts) > 1
    assert rows_of(opened(second, tmp_path).chunks()) == rows


def test_no_rows(tmp_path: Path) -> None:
    assert check([], tmp_path, file_bytes=1000).ssts == []


def test_a_filter_spares_reads_of_keys_that_are_not_there(tmp_path: Path) -> None:
    rows = [(b"key %08d" % n, b"value") for n in range(20_000)]
    archive = write_archive(FS, str(tmp_path), chunks_of(rows))
    how = with_filter()
    database = Rdict(str(database_of(archive, tmp_path)), how)
    assert not any(key + b"0" in database for key, _ in rows[:-1])
    found = dict(line.split(" COUNT : ")[:2] for line in how.get_statistics().splitlines() if " COUNT : " in line)
    database.close()
    assert int(found["rocksdb.bloom.filter.useful"].split()[0]) > 19_600


ROWS = st.dictionaries(
    st.one_of(st.binary(max_size=40), st.builds(lambda n: b"\0" * 20 + n.to_bytes(4, "big"), st.integers(0, 500))),
    st.one_of(st.binary(max_size=40), st.builds(bytes, st.integers(0, 9000))),
    max_size=150,
)


@settings(max_examples=60)
@given(ROWS, st.integers(1, 9000), st.integers(1, 50))
def test_random_rows(rows: dict[bytes, bytes], file_bytes: int, per_chunk: int) -> None:
    in_order = sorted(rows.items())
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        archive = write_archive(FS, str(folder), chunks_of(in_order, per_chunk), file_bytes=file_bytes)
        assert rows_of(opened(archive, folder).chunks()) == in_order
        database = Rdict(str(database_of(archive, folder)), with_filter())
        assert list(database.items()) == in_order
        assert all(database[key] == value for key, value in in_order)
        database.close()


@pytest.mark.parametrize("file_bytes", [1, 1 << 20])
@pytest.mark.parametrize("second", [b"a", b"b"])
def test_keys_out_of_order_are_refused(tmp_path: Path, file_bytes: int, second: bytes) -> None:
    with pytest.raises(StateStoreError, match="not behind the key before it"):
        write_archive(FS, str(tmp_path), chunks_of([(b"b", b""), (second, b"")], 1), file_bytes=file_bytes)
    assert len(list(tmp_path.rglob("*.sst"))) == (1 if file_bytes == 1 else 0)


@pytest.mark.parametrize(
    ("keys", "values"),
    [([0, 5], [0, 1]), ([-1, 1], [0, 1]), ([0, 1], [3, 2]), ([0, 1], [0, -1]), ([0, 2**31 - 1], [0, 0]), ([0], [0])],
)
def test_spans_that_do_not_fit_are_refused(keys: list[int], values: list[int]) -> None:
    spans = [struct.pack(f"{len(numbers)}i", *numbers) for numbers in (keys, values)]
    with pytest.raises(ValueError, match="span"):
        SstBuilder(file_bytes=1000).add(b"abcd", *spans)


@pytest.mark.thorough
def test_a_row_of_a_gigabyte_is_refused() -> None:
    spans = [struct.pack("2i", *numbers) for numbers in ((0, 1), (0, 1 << 30))]
    with pytest.raises(SizeLimitError, match="row 0"):
        SstBuilder(file_bytes=1000).add(bytes((1 << 30) + 1), *spans)


def test_a_version_is_a_zip_that_names_its_files(tmp_path: Path) -> None:
    rows = [(b"\1\0key %d" % n, b"\0value") for n in range(9)]
    families = {"default": 1, "$ttl_count": 2, "count": 3}
    path, _ = write_version(FS, str(tmp_path), (7, None), chunks_of(rows), families)
    assert Path(path) == tmp_path / "7.zip"
    archive = decode(Path(path).read_bytes(), path)
    assert dict(archive.families) == families
    assert archive.num_keys is None
    assert rows_of(opened(archive, tmp_path).chunks()) == rows
    assert sorted(file.name for file in (tmp_path / "SSTs").iterdir()) == [sst.remote for sst in archive.ssts]


def test_a_manifest_of_many_files_goes_over_several_blocks() -> None:
    archive_files = encode_manifest(live := [live_file(number) for number in range(2, 900)])
    assert len(archive_files["MANIFEST-000001"]) > 3 * (32 << 10)
    assert live_files(archive_files, "1.zip") == live
    for at in range(0, len(archive_files["MANIFEST-000001"]), 997):
        damaged = bytearray(archive_files["MANIFEST-000001"])
        damaged[at] ^= 1
        with pytest.raises(CorruptFileError):
            live_files({**archive_files, "MANIFEST-000001": bytes(damaged)}, "1.zip")


def live_file(number: int) -> LiveFile:
    first, last = (b"%08d" % (10 * number + end) + b"." * 50 + b"\1" + bytes(7) for end in (0, 9))
    return LiveFile(6, number, 1000 + number, KeyRange(first, last), 0, 0)
