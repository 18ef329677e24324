"""RocksDBs that RocksDB itself has written, read by it and by us."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from rocksdict import AccessType, BlockBasedOptions, ChecksumType, DBCompressionType, Options, Rdict

from hdfsstore.codecs.records import RecordChunk
from hdfsstore.fs.local_files import LocalFileManager
from hdfsstore.state.rocksdb.archive import Archive, Sst, belongs, decode
from hdfsstore.state.rocksdb.database import Database

Row = tuple[bytes, bytes]

COMPRESSIONS = ("none", "snappy", "zlib", "bz2", "lz4", "lz4hc", "zstd")
CHECKSUMS = ("no_checksum", "crc32c", "xxhash", "xxhash64", "xxh3")


def options(
    *,
    format_version: int = 5,
    compression: str = "lz4",
    checksum: str = "xxh3",
    block_size: int = 4096,
    index_restarts: int = 1,
    change: Callable[[Options, BlockBasedOptions], object] = lambda *_: None,
) -> Options:
    """Options of a RocksDB that compacts when it is told to."""
    found, table = Options(raw_mode=True), BlockBasedOptions()
    table.set_format_version(format_version)
    table.set_checksum_type(getattr(ChecksumType, checksum)())
    table.set_block_size(block_size)
    table.set_index_block_restart_interval(index_restarts)
    found.set_compression_type(getattr(DBCompressionType, compression)())
    found.set_disable_auto_compactions(True)
    found.set_paranoid_checks(True)
    change(found, table)
    found.set_block_based_table_factory(table)
    return found


def archive_of(database: Path, folder: Path) -> Archive:
    """Puts the files of a closed RocksDB where a checkpoint has them."""
    ssts = folder / "SSTs"
    ssts.mkdir(parents=True, exist_ok=True)
    files, named = {}, []
    for path in sorted(database.iterdir()):
        if path.suffix == ".sst":
            shutil.copy(path, ssts / path.name)
            named.append(Sst(path.name, path.name, path.stat().st_size))
        elif belongs(path.name):
            files[path.name] = path.read_bytes()
    return Archive(files, named, None)


def opened(archive: Archive, folder: Path) -> Database:
    return Database(LocalFileManager(), str(folder), archive, str(folder / "1.zip"))


def rows_of(chunks: Iterable[RecordChunk]) -> list[Row]:
    found = []
    for chunk in chunks:
        keys, values = (memoryview(spans).cast("B").cast("i").tolist() for spans in (chunk.keys, chunk.values))
        for i in range(0, len(keys), 2):
            key = bytes(chunk.data[keys[i] : keys[i] + keys[i + 1]])
            found.append((key, bytes(chunk.data[values[i] : values[i] + values[i + 1]])))
    return found


def by_rocksdb(path: Path, read_with: Options | None = None) -> list[Row]:
    """The rows of a RocksDB, read by RocksDB."""
    database = Rdict(str(path), read_with, access_type=AccessType.read_only())
    try:
        return list(database.items())
    finally:
        database.close()


def zip_by_rocksdb(path: Path) -> list[Row]:
    """The rows of a zip of Spark's, read by RocksDB, which joins merge operands by a comma."""
    archive = decode(path.read_bytes(), str(path))
    with tempfile.TemporaryDirectory() as folder:
        lay_out(archive.files, Path(folder))
        for sst in archive.ssts:
            shutil.copy(path.parent / "SSTs" / sst.remote, Path(folder, sst.local))
        read_with, families = Options.load_latest(folder)
        assert set(families) == {"default"}
        read_with.set_wal_dir(folder)  # the options of Spark 3.2 name a folder of its machine
        database = Rdict(folder, read_with, families, access_type=AccessType.read_only())
        try:
            database.set_loads(bytes)
            return [(bytes(key), bytes(value)) for key, value in database.items()]
        finally:
            database.close()


def lay_out(files: Mapping[str, bytes], folder: Path) -> None:
    for name, content in files.items():
        (folder / name).write_bytes(content)
