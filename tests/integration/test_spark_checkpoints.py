"""A real Spark query has its checkpoint on HDFS or S3; it is opened in place, our store writes there, Spark goes on."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from threading import Timer

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

import hdfsstore.spark
from hdfsstore.checkpoint.commit_log import encode_commit_log, read_commit_log
from hdfsstore.checkpoint.offset_log import encode_offset_log, read_offset_log
from hdfsstore.fs.publish import publish
from tests.services.hdfs import Hdfs
from tests.services.minio import PASSWORD, Minio
from tests.services.places import Place, on_hdfs, on_minio
from tests.support.rows import counted

PARTITIONS = 2  # the session's
USERS = 50


@pytest.fixture(params=["hdfs", "minio"])
def remote(request: pytest.FixtureRequest, hdfs: Hdfs, minio: Minio) -> Place:
    return on_hdfs(hdfs) if request.param == "hdfs" else on_minio(minio)


def add_input(folder: Path, number: int) -> None:
    """A file in which each user has one event."""
    folder.mkdir(exist_ok=True)
    lines = (json.dumps({"user": f"user {user}", "amount": user + number}) for user in range(USERS))
    (folder / f"{number}.json").write_text("\n".join(lines))


def run(spark: SparkSession, place: Place, folder: Path) -> dict[str, tuple[int, int]]:
    """Runs the query over the input that is new. Returns what it put out: user -> (events, amount)."""
    rows: dict[str, tuple[int, int]] = {}

    def sink(batch: DataFrame, _: int) -> None:
        rows.update({row.user: (row.n, row.total) for row in batch.collect()})

    query = writer(spark, place, folder).foreachBatch(sink).trigger(availableNow=True).start()
    query.awaitTermination()
    return rows


def writer(spark: SparkSession, place: Place, folder: Path) -> DataStreamWriter:
    """Of the query; a batch has one file of the input."""
    events = spark.readStream.schema("user string, amount long").option("maxFilesPerTrigger", 1).json(folder.as_uri())
    totals = events.groupBy("user").agg(F.count("*").alias("n"), F.sum("amount").alias("total"))
    return totals.writeStream.outputMode("update").option("checkpointLocation", place.uri)


def sparks_rows(spark: SparkSession, place: Place, **options: int) -> pa.Table:
    source = spark.read.format("statestore").options(**options)
    return source.load(place.uri).select("key", "value", "partition_id").toArrow()


def ours(place: Place) -> pa.Table:
    checkpoint = hdfsstore.Checkpoint(place.uri, storage_options=place.storage_options)
    return checkpoint.read_state().select(["key", "value", "partition_id"])


def program(verb: str, place: Place, folder: Path) -> list[str]:
    """The command as a user runs it, with the storage's options in a file of the folder."""
    file = folder / "options"
    file.touch(0o600)
    file.write_text("".join(f"{name}={value}\n" for name, value in place.storage_options.items()))
    return [sys.executable, "-m", "hdfsstore", verb, place.uri, "--option-file", str(file), "--json"]


def command(place: Place, folder: Path) -> list[dict[str, object]]:
    """The rows of `hdfsstore read`."""
    done = subprocess.run(program("read", place, folder), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_checkpoint_is_read_in_place(spark: SparkSession, remote: Place, tmp_path: Path) -> None:
    for number in range(3):
        add_input(tmp_path / "input", number)
    run(spark, remote, tmp_path / "input")
    rows = ours(remote)
    assert rows.num_rows == USERS
    assert counted(rows) == counted(sparks_rows(spark, remote))
    assert len(command(remote, tmp_path)) == USERS
    checkpoint = hdfsstore.Checkpoint(remote.uri, storage_options=remote.storage_options)
    assert [batch.batch_id for batch in checkpoint.batches] == [0, 1, 2]
    assert not checkpoint.damaged


def test_watch_shows_each_batch_of_a_query_that_runs(spark: SparkSession, remote: Place, tmp_path: Path) -> None:
    add_input(tmp_path / "input", 0)
    query = writer(spark, remote, tmp_path / "input").format("noop").start()
    lines = []
    try:
        query.processAllAvailable()
        watch = [*program("watch", remote, tmp_path), "--interval", "0.2", "--count", "3"]
        with subprocess.Popen(watch, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching:
            stop = Timer(120, watching.kill)  # a watch that sees no batch would never end
            stop.start()
            assert watching.stdout is not None
            for number, line in enumerate(watching.stdout, 1):
                lines.append(json.loads(line))
                if number < 3:
                    add_input(tmp_path / "input", number)
            stop.cancel()
            assert watching.wait() == 0, watching.stderr and watching.stderr.read()
    finally:
        query.stop()
    assert [line["batch_id"] for line in lines] == [0, 1, 2]
    for line in lines:
        [store] = line["stores"]
        assert (store["num_partitions"], store["rows"], store["rows_batch_id"]) == (PARTITIONS, USERS, line["batch_id"])
        assert store["bytes"] > 0
        assert store["note"] is None


def test_our_store_writes_there_and_spark_goes_on(spark: SparkSession, remote: Place, tmp_path: Path) -> None:
    for number in range(2):
        add_input(tmp_path / "input", number)
    run(spark, remote, tmp_path / "input")
    users = users_in(ours(remote))
    batch_id = add_batch(remote, tmp_path / "local")
    rows = ours(remote)
    assert counted(rows) == counted(sparks_rows(spark, remote))
    (gone,) = users - users_in(rows)
    for number in (2, 3):
        add_input(tmp_path / "input", number)
    after = run(spark, remote, tmp_path / "input")
    assert hdfsstore.Checkpoint(remote.uri, storage_options=remote.storage_options).latest_batch_id == batch_id + 2
    # The events of the user that our batch removed are counted anew.
    assert {user: n for user, (n, _) in after.items()} == {user: 2 if user == gone else 4 for user in users}
    assert counted(ours(remote)) == counted(sparks_rows(spark, remote))


def test_the_source_reads_it_with_the_settings_of_the_session(
    spark: SparkSession, remote: Place, tmp_path: Path
) -> None:
    for number in range(2):
        add_input(tmp_path / "input", number)
    run(spark, remote, tmp_path / "input")
    newest, first = sparks_rows(spark, remote), sparks_rows(spark, remote, batchId=0)
    assert counted(newest) != counted(first)
    for locations in ((), (remote.uri,)):  # by what the session's conf says, and by what its JVM says
        hdfsstore.spark.register(spark, *locations)
        source = spark.read.format("hdfsstore")
        frame = source.load(remote.uri)
        assert counted(frame.toArrow()) == counted(newest)
        assert frame.rdd.getNumPartitions() == PARTITIONS
        assert PASSWORD not in frame._jdf.queryExecution().toString()
        assert counted(source.option("batchId", 0).load(remote.uri).toArrow()) == counted(first)
        [store] = spark.read.format("hdfsstore-metadata").load(remote.uri).collect()
        assert (store.stateStoreName, store.numPartitions, store.maxBatchId) == ("default", PARTITIONS, 1)


def users_in(rows: pa.Table) -> set[str]:
    return {key["user"] for key in rows["key"].to_pylist()}


def add_batch(place: Place, local_dir: Path) -> int:
    """Our store writes a batch that removes one user. Returns its number."""
    checkpoint = hdfsstore.Checkpoint(place.uri, storage_options=place.storage_options)
    last = checkpoint.latest_batch_id
    rows = checkpoint.read_state()
    schemas = {f"{part}_schema": pa.schema(list(rows.schema.field(part).type)) for part in ("key", "value")}
    conf = hdfsstore.StateStoreConf(checkpoint_format_version=1, local_dir=str(local_dir), maintenance_interval=0)
    for partition_id in range(PARTITIONS):
        store_id = hdfsstore.StateStoreId(f"{place.uri}/state", 0, partition_id, storage_options=place.storage_options)
        with hdfsstore.open_provider(store_id, conf=conf, **schemas) as provider:
            store = provider.get_store(last + 1)
            if partition_id == 0:
                key, _ = next(store.iterator())
                store.remove(key)
            store.commit()
    fs, root = place.files, place.path
    offsets = read_offset_log(fs, f"{root}/offsets/{last}")
    offsets = replace(offsets, timestamp_ms=offsets.timestamp_ms + 1000)
    publish(fs, f"{root}/offsets/{last + 1}", encode_offset_log(offsets), overwrite=False)
    commit = read_commit_log(fs, f"{root}/commits/{last}")
    publish(fs, f"{root}/commits/{last + 1}", encode_commit_log(commit), overwrite=False)
    return last + 1
