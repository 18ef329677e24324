"""RocksDBs of many options, and zips of real Sparks: our rows are those that RocksDB itself reads."""

from __future__ import annotations

import itertools
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from rocksdict import (
    BlockBasedIndexType,
    BlockBasedOptions,
    CompactOptions,
    DataBlockIndexType,
    DBPath,
    Options,
    Rdict,
)

from hdfsstore.errors import UnsupportedProviderError
from hdfsstore.fs.local_files import LocalFileManager
from hdfsstore.state.rocksdb.archive import decode
from hdfsstore.state.rocksdb.database import Database
from hdfsstore.state.rocksdb.manifest import LiveFile, live_files
from tests.support.databases import (
    CHECKSUMS,
    COMPRESSIONS,
    Row,
    archive_of,
    by_rocksdb,
    opened,
    options,
    rows_of,
    zip_by_rocksdb,
)
from tests.support.truth import DATA, Case, few

PAIRS = list(itertools.zip_longest(COMPRESSIONS, CHECKSUMS, fillvalue="xxh3"))
# rocksdict has no zlib: what Spark read of those files is in tests/unit/checkpoint/test_truth.py.
ZIPS = sorted(path for path in DATA.glob("spark-*/*/checkpoint/state/**/*.zip") if "compression_z/" not in str(path))


def case_of(path: Path) -> Case:
    return Case(DATA.joinpath(*path.relative_to(DATA).parts[:2]))


def key(number: int) -> bytes:
    return b"key %05d" % number


def fill(database: Rdict, chance: random.Random, rounds: int = 3, steps: int = 600) -> None:
    """Updates in several files of level 0, which overlap."""
    for turn in range(rounds):
        for step in range(steps):
            if chance.random() < 0.3:
                database.delete(key(chance.randrange(900)))
            else:
                database[key(chance.randrange(900))] = b"value %d " % step * chance.randrange(6)
        if turn:
            first, end = sorted(chance.sample(range(900), 2))
            database.delete_range(key(first), key(end))
        database.flush()


def written(folder: Path, **how: object) -> list[Row]:
    with_options = options(**how)  # type: ignore[arg-type]
    database = Rdict(str(folder / "db"), with_options)
    fill(database, random.Random(str(how)))
    database.close()
    return by_rocksdb(folder / "db", with_options)


@pytest.mark.parametrize("format_version", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("index_restarts", [1, 16])
def test_formats(tmp_path: Path, format_version: int, index_restarts: int) -> None:
    rows = written(tmp_path, format_version=format_version, index_restarts=index_restarts, block_size=300)
    assert len(rows) > 100
    assert rows_of(opened(archive_of(tmp_path / "db", tmp_path), tmp_path).chunks()) == rows


@pytest.mark.parametrize(("compression", "checksum"), PAIRS)
@pytest.mark.parametrize("format_version", [5, 6])
def test_compressions_and_checksums(tmp_path: Path, compression: str, checksum: str, format_version: int) -> None:
    rows = written(tmp_path, compression=compression, checksum=checksum, format_version=format_version)
    assert rows_of(opened(archive_of(tmp_path / "db", tmp_path), tmp_path).chunks()) == rows


def small_levels(found: Options, _: BlockBasedOptions) -> None:
    found.set_disable_auto_compactions(False)
    found.set_level_zero_file_num_compaction_trigger(2)
    found.set_max_bytes_for_level_base(4000)
    found.set_max_bytes_for_level_multiplier(2)
    found.set_target_file_size_base(2000)


def levels_of(files: Sequence[LiveFile], user_key: bytes) -> set[int]:
    """The levels after 0 that may have a key."""
    return {
        file.level for file in files if file.level and file.keys.smallest[:-8] <= user_key <= file.keys.largest[:-8]
    }


def test_three_levels_that_overlap(tmp_path: Path) -> None:
    how, chance = options(change=small_levels, block_size=500), random.Random(1)
    most = 0
    while most < 3:  # compactions run in the background
        database = Rdict(str(tmp_path / "db"), how)
        fill(database, chance)
        database.close()
        archive = archive_of(tmp_path / "db", tmp_path)
        files = live_files(archive.files, "1.zip")
        most = max(len(levels_of(files, key(number))) for number in range(900))
    assert rows_of(opened(archive, tmp_path).chunks()) == by_rocksdb(tmp_path / "db", how)


def with_hashes(_: Options, table: BlockBasedOptions) -> None:
    table.set_data_block_index_type(DataBlockIndexType.binary_and_hash())


def with_partitions(_: Options, table: BlockBasedOptions) -> None:
    table.set_index_type(BlockBasedIndexType.two_level_index_search())


def with_blobs(found: Options, _: BlockBasedOptions) -> None:
    found.set_enable_blob_files(True)
    found.set_min_blob_size(10)


def with_dictionary(found: Options, _: BlockBasedOptions) -> None:
    found.set_compression_options(-14, 32767, 0, 1 << 14)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (with_hashes, r"\.sst, byte \d+: .* hash index in its data blocks"),
        (with_partitions, r"\.sst, byte \d+: .* partitioned index"),
        (with_blobs, r"MANIFEST-\d+, byte \d+: .* blob files"),
        (with_dictionary, r"\.sst, byte \d+: .* compression dictionary"),
    ],
)
def test_what_spark_cannot_make_is_refused_by_name(
    tmp_path: Path, change: Callable[[Options, BlockBasedOptions], None], named: str
) -> None:
    database = Rdict(str(tmp_path / "db"), options(change=change, compression="zstd"))
    for number in range(2000):
        database[key(number)] = b"a value %d " % number * 9
    database.close()
    with pytest.raises(UnsupportedProviderError, match=named):
        rows_of(opened(archive_of(tmp_path / "db", tmp_path), tmp_path).chunks())


def test_files_in_several_folders_are_refused_by_name(tmp_path: Path) -> None:
    """A compaction writes to the second folder, as the first one is full."""

    def change(found: Options, _: BlockBasedOptions) -> None:
        found.set_db_paths([DBPath(str(tmp_path / "first"), 1), DBPath(str(tmp_path / "second"), 1 << 40)])
        found.set_disable_auto_compactions(False)
        found.set_level_zero_file_num_compaction_trigger(2)

    database = Rdict(str(tmp_path / "db"), options(change=change))
    while not any((tmp_path / "second").glob("*.sst")):
        fill(database, random.Random(1), rounds=2)
    database.compact_range(None, None, CompactOptions())  # waits until the MANIFEST has those files
    database.close()
    with pytest.raises(UnsupportedProviderError, match=r"MANIFEST-\d+, byte \d+: .* several folders"):
        opened(archive_of(tmp_path / "db", tmp_path), tmp_path)


def test_changes_that_are_in_a_log_alone_are_refused_by_name(tmp_path: Path) -> None:
    database = Rdict(str(tmp_path / "db"), options())
    database[b"a"] = b"1"
    database.flush_wal()
    shutil.copytree(tmp_path / "db", tmp_path / "copy")  # close() would flush it
    database.close()
    with pytest.raises(UnsupportedProviderError, match=r"\d+\.log has changes that are in no SST file"):
        opened(archive_of(tmp_path / "copy", tmp_path), tmp_path)


def test_wide_columns_are_refused_by_name(tmp_path: Path) -> None:
    database = Rdict(str(tmp_path / "db"), options())
    database.put_entity(b"a", names=[b"x"], values=[b"1"])
    database.close()
    with pytest.raises(UnsupportedProviderError, match=r"\.sst, byte 0: .* kind 22, .*wide columns"):
        rows_of(opened(archive_of(tmp_path / "db", tmp_path), tmp_path).chunks())


@pytest.mark.parametrize("path", few(ZIPS, case_of, case_of), ids=lambda path: str(path.relative_to(DATA)))
def test_zips_of_spark(path: Path) -> None:
    archive = decode(path.read_bytes(), str(path))
    database = Database(LocalFileManager(), str(path.parent), archive, str(path))
    assert rows_of(database.chunks()) == zip_by_rocksdb(path)
