"""The cases that hold what RocksDB can write and Spark does not: the last version is written again by RocksDB."""

from __future__ import annotations

import json
import shutil
import tempfile
import uuid
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from .case import LAST, Inputs, Query, case
from .rocksdb_cases import ON_ZIPS, rising
from .session import PARTITIONS

JAVA = Any
BATCHES = [range(24), range(24, 48), range(48, 60)]


class Database:
    """A copy of what a zip holds, opened by the RocksDB of Spark's own jars; what is written goes to no log."""

    def __init__(self, spark: SparkSession, store: Path, version: int, local: Path, checksum: str = "kXXH3") -> None:
        with zipfile.ZipFile(store / f"{version}.zip") as archive:
            archive.extractall(local)
        self.metadata = json.loads((local / "metadata").read_text(encoding="utf-8").split("\n", 1)[1])
        (local / "metadata").unlink()
        self._names = {file["localFileName"]: file["dfsSstFileName"] for file in self.metadata["sstFiles"]}
        for name, stored in self._names.items():
            shutil.copy(store / "SSTs" / stored, local / name)
        self.local, self.store, self.java = local, store, spark._jvm.org.rocksdb
        self.java.RocksDB.loadLibrary()
        table = self.java.BlockBasedTableConfig().setChecksumType(getattr(self.java.ChecksumType, checksum))
        self.options = self.java.Options().setTableFormatConfig(table).setDisableAutoCompactions(True)
        self.options.setCompressionType(self.java.CompressionType.LZ4_COMPRESSION)
        self.db = self.java.RocksDB.open(self.options, str(local))
        self.unlogged = self.java.WriteOptions().setDisableWAL(True)
        rows = self.db.newIterator()
        rows.seekToFirst()
        self.rows: list[tuple[bytes, bytes]] = []
        while rows.isValid():
            self.rows.append((bytes(rows.key()), bytes(rows.value())))
            rows.next()
        rows.close()
        self.keys = [key for key, _ in self.rows]

    def put(self, at: int, value_of: int) -> None:
        """Gives the key at a place the value of another one."""
        self.db.put(self.unlogged, self.keys[at], self.rows[value_of][1])

    def flush(self) -> None:
        self.db.flush(self.java.FlushOptions().setWaitForFlush(True))

    def save(self, version: int) -> None:
        """Writes <version>.zip and the SST files that are new."""
        image = self.local.with_name("image")
        self.java.Checkpoint.create(self.db).createCheckpoint(str(image))
        files = []
        for path in sorted(image.glob("*.sst")):
            stored = self._names.get(path.name, f"{path.stem}-{uuid.uuid4()}.sst")
            shutil.copy(path, self.store / "SSTs" / stored)
            size = path.stat().st_size
            files.append({"localFileName": path.name, "dfsSstFileName": stored, "sizeBytes": size})
        remove(self.store / f"{version}.zip")
        with zipfile.ZipFile(self.store / f"{version}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(image.iterdir()):
                if path.suffix != ".sst":
                    archive.write(path, path.name)
            archive.writestr("metadata", "v1\n" + json.dumps({**self.metadata, "sstFiles": files, "numKeys": -1}))
        self.db.close()


def remove(file: Path) -> None:
    """Removes a file together with the checksums that Hadoop keeps beside it."""
    file.unlink()
    file.with_name(f".{file.name}.crc").unlink()


def stores(checkpoint: Path) -> list[Path]:
    return [checkpoint / "state" / "0" / str(partition) for partition in range(PARTITIONS)]


def written_again(change: Callable[[Database], None], checksum: str = "kXXH3") -> Callable[[SparkSession, Path], None]:
    """Makes version 3 out of version 2 and a change."""

    def afterwards(spark: SparkSession, checkpoint: Path) -> None:
        for store in stores(checkpoint):
            with tempfile.TemporaryDirectory() as folder:
                database = Database(spark, store, 2, Path(folder) / "db", checksum)
                change(database)
                database.save(3)

    return afterwards


def delete_ranges(database: Database) -> None:
    db, keys = database.db, database.keys
    db.deleteRange(database.unlogged, keys[2], keys[7])
    database.put(3, value_of=0)
    database.flush()
    db.deleteRange(database.unlogged, keys[10], keys[14])
    database.flush()
    database.put(12, value_of=1)
    db.deleteRange(database.unlogged, keys[13], keys[15])
    db.deleteRange(database.unlogged, keys[14], keys[-1] + b"\xff")
    database.flush()


def delete_singly(database: Database) -> None:
    db, keys = database.db, database.keys
    db.singleDelete(database.unlogged, keys[1])
    db.delete(database.unlogged, keys[4])
    db.put(database.unlogged, keys[0] + b"\x01", b"never seen")
    database.flush()
    db.singleDelete(database.unlogged, keys[0] + b"\x01")
    database.put(4, value_of=0)
    database.flush()


def compact(database: Database) -> None:
    database.put(1, value_of=0)
    level = getattr(database.java, "CompactRangeOptions$BottommostLevelCompaction").kForce
    options = database.java.CompactRangeOptions().setBottommostLevelCompaction(level)
    database.db.compactRange(database.db.getDefaultColumnFamily(), None, None, options)


def ingest(database: Database) -> None:
    file = database.local.with_name("ingested.sst")
    writer = database.java.SstFileWriter(database.java.EnvOptions(), database.options)
    writer.open(str(file))
    for at in (1, 2, 5):
        writer.put(database.keys[at], database.rows[0][1])
    writer.delete(database.keys[8])
    writer.finish()
    database.db.ingestExternalFile([str(file)], database.java.IngestExternalFileOptions())
    database.put(2, value_of=3)
    database.flush()


@case(*LAST, confs=ON_ZIPS, afterwards=written_again(delete_ranges))
def rocksdb_range_deletions(inputs: Inputs) -> Query:
    """SST files of version 3 with range deletions that overlap, and with keys put again; written by RocksDB."""
    return rising(inputs, BATCHES)


@case(*LAST, confs=ON_ZIPS, afterwards=written_again(delete_singly))
def rocksdb_single_deletions(inputs: Inputs) -> Query:
    """SST files of version 3 with single deletions; written by RocksDB."""
    return rising(inputs, BATCHES)


@case(*LAST, confs=ON_ZIPS, afterwards=written_again(ingest))
def rocksdb_ingested(inputs: Inputs) -> Query:
    """A file of version 3 that was ingested: its sequence number is in the MANIFEST alone; written by RocksDB."""
    return rising(inputs, BATCHES)


def rocksdb_checksum(inputs: Inputs) -> Query:
    """SST files of version 3 with checksums of another kind, written by RocksDB"""
    return rising(inputs, BATCHES)


for kind in ("kCRC32c", "kxxHash", "kxxHash64", "kNoChecksum"):
    case(*LAST, confs=ON_ZIPS, afterwards=written_again(compact, kind), suffix=kind.lower())(rocksdb_checksum)


def delete_ranges_in_changelogs(spark: SparkSession, checkpoint: Path) -> None:
    """Puts 2.changelog and 3.changelog, which delete ranges, in the place of 2.zip and 3.zip."""
    jvm = spark._jvm
    streaming = jvm.org.apache.spark.sql.execution.streaming
    hadoop_path = jvm.org.apache.hadoop.fs.Path
    manager = getattr(getattr(streaming.checkpointing, "CheckpointFileManager$"), "MODULE$")
    codec = getattr(getattr(jvm.org.apache.spark.io, "CompressionCodec$"), "MODULE$")
    conf = spark.sparkContext._jsc.sc().conf()
    for store in stores(checkpoint):
        with tempfile.TemporaryDirectory() as folder:
            rows = Database(spark, store, 2, Path(folder) / "db").rows
        (keys, values) = zip(*rows, strict=True)
        files = manager.create(hadoop_path(str(store)), spark.sparkContext._jsc.hadoopConfiguration())
        second, third = (
            streaming.state.StateStoreChangelogWriterV2(
                files, hadoop_path(f"{store}/{version}.changelog"), codec.createCodec(conf, "lz4")
            )
            for version in (2, 3)
        )
        for at, key in enumerate(keys):
            second.put(key, values[-at])
        second.deleteRange(keys[2], keys[5])
        second.put(keys[3], values[3])
        second.delete(keys[6])
        second.commit()
        third.put(keys[4], values[0])
        third.deleteRange(keys[3], keys[5])
        third.deleteRange(keys[9], keys[-1])
        third.put(keys[10], values[0])
        third.commit()
        for version in (2, 3):
            remove(store / f"{version}.zip")


@case(*LAST, confs=ON_ZIPS, afterwards=delete_ranges_in_changelogs)
def rocksdb_range_deletions_in_changelogs(inputs: Inputs) -> Query:
    """Changelogs of versions 2 and 3 with deletions of ranges, written by Spark's classes."""
    return rising(inputs, BATCHES)
