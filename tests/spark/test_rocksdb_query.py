"""Queries of Spark with its RocksDB provider: our store writes a batch in between, and reads keys with a prefix."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import hdfsstore
from hdfsstore.checkpoint.commit_log import read_commit_log
from hdfsstore.checkpoint.conf import PROVIDER, ROCKSDB_PROVIDER
from hdfsstore.codecs.murmur3 import partition_ids
from hdfsstore.codecs.records import RecordFormat
from hdfsstore.fs.local_files import LocalFileManager
from hdfsstore.fs.location import resolve
from hdfsstore.fs.publish import publish
from hdfsstore.state.rocksdb.archive import CHANGELOG_FILES, encode
from hdfsstore.state.rocksdb.database_writer import write_archive
from hdfsstore.state.rocksdb.partition_reader import RocksDbPartitionReader
from hdfsstore.state.versions.files import StateFiles
from tests.spark.support.own_batch import OURS, begin, count, count_in_python, count_in_store, rows_of, write_input
from tests.spark.support.own_checkpoint import CHANGELOGS
from tests.support.continued_stores import FORMAT_VERSION
from tests.support.rows import counted

KEY, VALUE = pa.schema({"k": pa.string()}), pa.schema({"count": pa.int64(), "sum": pa.int64()})


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def format_version(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[int]:
    settings = {PROVIDER: ROCKSDB_PROVIDER, FORMAT_VERSION: str(request.param), CHANGELOGS: "true"}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield request.param
    for name in settings:
        spark.conf.unset(name)


def ids_of(checkpoint: Path, batch_id: int) -> list[list[str]]:
    fs, path = resolve(checkpoint)
    return read_commit_log(fs, f"{path}/commits/{batch_id}").state_unique_ids.get(0, [])


def run_query(spark: SparkSession, folder: Path, checkpoint: Path) -> dict[int, Counter[Any]]:
    """Counts what has come into the folder. Returns the rows of each batch."""
    outputs: dict[int, Counter[Any]] = {}
    stream = spark.readStream.schema("k STRING, n INT").option("maxFilesPerTrigger", 1).json(str(folder))
    writer = count(stream).writeStream.outputMode("update").option("checkpointLocation", str(checkpoint))
    writer.foreachBatch(lambda rows, batch_id: outputs.update({batch_id: Counter(map(tuple, rows.collect()))}))
    writer.trigger(availableNow=True).start().awaitTermination()
    return outputs


def test_spark_goes_on_from_what_was_computed_here(spark: SparkSession, tmp_path: Path, format_version: int) -> None:
    folder, checkpoint = tmp_path / "input", tmp_path / "checkpoint"
    for batch_id in range(OURS):
        write_input(folder, batch_id)
    outputs = run_query(spark, folder, checkpoint)
    our_input = write_input(folder, OURS)
    begin(checkpoint, our_input)
    run_batch(checkpoint, tmp_path / "local", format_version)
    write_input(folder, OURS + 1)
    outputs |= run_query(spark, folder, checkpoint)
    assert outputs == {b: Counter(count_in_python(b)) for b in (0, 1, OURS + 1)}


def run_batch(checkpoint: Path, local_dir: Path, format_version: int) -> None:
    """The state of batch OURS, each row in the partition where Spark would put it, and the commit log."""
    rows = pa.Table.from_pylist(rows_of(OURS), schema=pa.schema({"k": pa.string(), "n": pa.int64()}))
    described = hdfsstore.Checkpoint(checkpoint).operator().store()
    keys = pa.StructArray.from_arrays([rows["k"].combine_chunks()], ["k"])
    places = partition_ids(keys, described.key_type, described.num_partitions)
    before = ids_of(checkpoint, OURS - 1)
    conf = hdfsstore.StateStoreConf(
        checkpoint_format_version=format_version, local_dir=str(local_dir), maintenance_interval=0
    )
    infos = {}
    for partition_id in range(described.num_partitions):
        store_id = hdfsstore.StateStoreId(str(checkpoint / "state"), 0, partition_id)
        with hdfsstore.open_provider(store_id, "rocksdb", conf, KEY, VALUE) as provider:
            store = provider.get_store(OURS, before[partition_id][0] if before else None)
            count_in_store(store, rows.filter(pc.equal(places, partition_id)))
            infos[partition_id] = [store.commit()]
    hdfsstore.CommitLog(checkpoint, checkpoint_format_version=format_version).add(OURS, 0, {0: infos})


@pytest.mark.usefixtures("format_version")
def test_spark_goes_on_from_files_that_rocksdb_has_not_written(spark: SparkSession, tmp_path: Path) -> None:
    """Zips and SST files of our own take the place of all files of the state; several SST files of each partition."""
    folder, checkpoint = tmp_path / "input", tmp_path / "checkpoint"
    for batch_id in range(OURS):
        write_input(folder, batch_id)
    outputs = run_query(spark, folder, checkpoint)
    theirs = spark.read.format("statestore").load(str(checkpoint)).toArrow()
    ids = ids_of(checkpoint, OURS - 1)
    for partition_id in set(theirs["partition_id"].to_pylist()):
        rewrite(checkpoint / "state" / "0" / str(partition_id), OURS, ids[partition_id][0] if ids else None)
    assert counted(spark.read.format("statestore").load(str(checkpoint)).toArrow()) == counted(theirs)
    write_input(folder, OURS)
    write_input(folder, OURS + 1)
    outputs |= run_query(spark, folder, checkpoint)
    assert outputs == {b: Counter(count_in_python(b)) for b in range(OURS + 2)}


def rewrite(partition: Path, version: int, unique_id: str | None) -> None:
    """Writes a version anew, of which no other file stays."""
    fs = LocalFileManager()
    how = RecordFormat(extensions=CHANGELOG_FILES, value_checksums=False, typed=True, checksum_files=True)
    reader = RocksDbPartitionReader(fs, str(partition), how, {version: unique_id} if unique_id else {})
    chunks = [chunk.copy() for chunk in reader.load(version, lambda chunk: chunk)]
    for path in partition.rglob("*"):
        if path.is_file() and path.parent.name != "_metadata":
            path.unlink()
    archive = write_archive(fs, str(partition), chunks, file_bytes=50)
    assert len(archive.ssts) > 1
    path = StateFiles.path_of(str(partition), (version, unique_id), "snapshot", CHANGELOG_FILES)
    publish(fs, path, encode(archive), overwrite=False)


def sessions(rows: DataFrame) -> DataFrame:
    timed = rows.withColumn("t", F.timestamp_seconds(F.col("n") * 100))
    return timed.groupBy(F.session_window("t", "150 seconds"), "k").count()


def test_keys_with_a_prefix(spark: SparkSession, tmp_path: Path, format_version: int) -> None:
    """Session windows are kept by the group's key, the prefix, and their start."""
    folder, checkpoint = tmp_path / "input", tmp_path / "checkpoint"
    for batch_id in range(2):
        write_input(folder, batch_id)
    stream = spark.readStream.schema("k STRING, n INT").option("maxFilesPerTrigger", 1).json(str(folder))
    writer = sessions(stream).writeStream.outputMode("complete").option("checkpointLocation", str(checkpoint))
    writer.format("noop").trigger(availableNow=True).start().awaitTermination()
    theirs = spark.read.format("statestore").load(str(checkpoint)).toArrow()
    described = hdfsstore.Checkpoint(checkpoint).operator().store()
    assert described.num_cols_prefix_key == 1
    key_type, value_type = (pa.schema(list(theirs.schema.field(part).type)) for part in ("key", "value"))
    ids = ids_of(checkpoint, 1)
    conf = hdfsstore.StateStoreConf(
        checkpoint_format_version=format_version, local_dir=str(tmp_path / "local"), maintenance_interval=0
    )
    found = 0
    for partition_id in range(described.num_partitions):
        own = theirs.filter(pc.equal(theirs["partition_id"], partition_id)).select(["key", "value"])
        store_id = hdfsstore.StateStoreId(str(checkpoint / "state"), 0, partition_id)
        with (
            hdfsstore.open_provider(store_id, "rocksdb", conf, key_type, value_type, 1) as provider,
            provider.get_read_store(2, ids[partition_id][0] if ids else None) as store,
        ):
            rows = pa.Table.from_batches(store.scan(), schema=own.schema)
            assert counted(rows) == counted(own)
            for key, value in store.iterator():
                assert store.get(key) == value
            found += rows.num_rows
    assert found == theirs.num_rows > 4
