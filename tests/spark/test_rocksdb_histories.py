"""RocksDB as Spark's jars have it, beside our reader and writer: random histories, with merges as Spark has them.

Histories without merges and single deletions are in tests/unit/state/rocksdb/test_database_histories.py.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import hdfsstore
from hdfsstore.codecs.types import StructType
from hdfsstore.repair.verbs import convert
from tests.spark.support.own_checkpoint import OwnCheckpoint, spark_rows
from tests.spark.support.value_tables import value_tables
from tests.support.databases import Row, archive_of, opened, rows_of
from tests.support.rows import counted

JAVA = Any

KEYS = st.builds(
    lambda number, kind: (b"%03d" % number, b"\0" * 9 + bytes((number,)), b"key" * 30 + bytes((number,)))[kind],
    st.integers(0, 30),
    st.integers(0, 2),
)
# A single deletion counts only for a key that was put once since the last one, and in no other way.
ONCE = st.builds(lambda number: b"once %03d" % number, st.integers(0, 20))
VALUES = st.binary(max_size=40)
CHANGES = st.one_of(
    st.tuples(st.just("put"), KEYS, VALUES),
    st.tuples(st.just("merge"), KEYS, VALUES),
    st.tuples(st.just("merge"), KEYS, VALUES),
    st.tuples(st.just("delete"), KEYS, st.none()),
)
STEPS = st.lists(
    st.one_of(
        CHANGES,
        CHANGES,
        st.tuples(st.just("delete range"), KEYS, KEYS),
        st.tuples(st.just("put once"), ONCE, VALUES),
        st.tuples(st.just("single delete"), ONCE, st.none()),
        st.tuples(st.just("ingest"), st.dictionaries(KEYS, CHANGES, min_size=1, max_size=5), st.none()),
        st.tuples(st.just("flush"), st.none(), st.none()),
        st.tuples(st.just("compact"), st.none(), st.none()),
    ),
    max_size=60,
)
OPTIONS = st.fixed_dictionaries(
    {
        "format_version": st.integers(1, 6),
        "compression": st.sampled_from(
            ["NO_COMPRESSION", "SNAPPY_COMPRESSION", "ZLIB_COMPRESSION", "BZLIB2_COMPRESSION", "LZ4_COMPRESSION",
             "LZ4HC_COMPRESSION", "ZSTD_COMPRESSION"]
        ),
        "checksum": st.sampled_from(["kNoChecksum", "kCRC32c", "kxxHash", "kxxHash64", "kXXH3"]),
        "block_size": st.sampled_from([64, 300, 4096]),
        "index_restarts": st.sampled_from([1, 2, 16]),
        "delimiter": st.sampled_from([",", ""]),
        "by_itself": st.booleans(),  # RocksDB compacts when it likes
    }
)  # fmt: skip


class Database:
    """An empty RocksDB, opened by the library that Spark opens its own with."""

    def __init__(self, java: JAVA, path: Path, how: dict[str, Any]) -> None:
        java.RocksDB.loadLibrary()
        self._java = java
        table = java.BlockBasedTableConfig().setFormatVersion(how["format_version"]).setBlockSize(how["block_size"])
        table.setChecksumType(getattr(java.ChecksumType, how["checksum"]))
        table.setIndexBlockRestartInterval(how["index_restarts"])
        self._options = java.Options().setCreateIfMissing(True).setParanoidChecks(True).setTableFormatConfig(table)
        self._options.setCompressionType(getattr(java.CompressionType, how["compression"]))
        self._options.setMergeOperator(java.StringAppendOperator(how["delimiter"]))
        self._options.setDisableAutoCompactions(not how["by_itself"]).setLevel0FileNumCompactionTrigger(2)
        self._options.setTargetFileSizeBase(600).setMaxBytesForLevelBase(2000)  # several files of several levels
        self._db = java.RocksDB.open(self._options, str(path))
        self._unlogged = java.WriteOptions().setDisableWAL(True)

    def play(self, steps: list[tuple[str, Any, Any]], folder: Path) -> None:
        there: set[bytes] = set()
        for number, (step, first, second) in enumerate(steps):
            if step in ("put", "merge"):
                getattr(self._db, step)(self._unlogged, first, second)
            elif step == "delete":
                self._db.delete(self._unlogged, first)
            elif step == "delete range" and first < second:
                self._db.deleteRange(self._unlogged, first, second)
            elif step == "put once" and first not in there:
                self._db.put(self._unlogged, first, second)
                there.add(first)
            elif step == "single delete" and first in there:
                self._db.singleDelete(self._unlogged, first)
                there.remove(first)
            elif step == "ingest":
                self._ingest(first, folder / f"{number}.sst")
            elif step == "flush":
                self.flush()
            elif step == "compact":
                self._db.compactRange()

    def flush(self) -> None:
        self._db.flush(self._java.FlushOptions().setWaitForFlush(True))

    def rows(self) -> list[Row]:
        found, rows = [], self._db.newIterator()
        rows.seekToFirst()
        while rows.isValid():
            found.append((bytes(rows.key()), bytes(rows.value())))
            rows.next()
        rows.status()
        rows.close()
        return found

    def close(self) -> None:
        self._db.cancelAllBackgroundWork(True)
        self._db.close()

    def _ingest(self, changes: dict[bytes, tuple[str, bytes, Any]], path: Path) -> None:
        writer = self._java.SstFileWriter(self._java.EnvOptions(), self._options)
        writer.open(str(path))
        for key, (step, _, value) in sorted(changes.items()):
            getattr(writer, step)(key, *([] if step == "delete" else [value]))
        writer.finish()
        writer.close()
        self._db.ingestExternalFile([str(path)], self._java.IngestExternalFileOptions())


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(steps=STEPS, how=OPTIONS, bounds=st.tuples(st.none() | KEYS, st.none() | KEYS))
def test_what_rocksdb_wrote_with_merges_is_read_as_it_reads_it(
    spark: SparkSession, steps: list[tuple[str, Any, Any]], how: dict[str, Any], bounds: tuple[Any, Any]
) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        database = Database(spark._jvm.org.rocksdb, folder / "db", how)
        try:
            database.play(steps, folder)
            database.flush()
            rows = database.rows()
        finally:
            database.close()
        ours, delimiter = opened(archive_of(folder / "db", folder), folder), how["delimiter"].encode()
        assert rows_of(ours.chunks(delimiter=delimiter)) == rows
        first, end = bounds
        assert rows_of(ours.chunks(None, delimiter, first, end)) == [
            row for row in rows if (first is None or row[0] >= first) and (end is None or row[0] < end)
        ]


# A failing example costs a Spark job for each step of shrinking it: it is shown as it was found.
@settings(max_examples=12, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(value_tables())
def test_rows_of_any_type_that_we_wrote_are_read_by_spark(
    spark: SparkSession, table: tuple[StructType, pa.StructArray]
) -> None:
    """The zips and SST files of a state that is converted are ours from the first byte to the last."""
    value_type, values = table
    ids = list(range(len(values)))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        with OwnCheckpoint(folder, value_type) as written:
            written.add_batch({0: [(ids, values)], 1: [(ids, values), (ids[::2], None)]})
        convert(written.path, folder / "converted", "rocksdb")
        theirs = spark_rows(spark, folder / "converted")
        assert theirs.num_rows == len(ids) + len(ids[1::2])
        assert counted(hdfsstore.Checkpoint(folder / "converted").read_state()) == counted(theirs)
