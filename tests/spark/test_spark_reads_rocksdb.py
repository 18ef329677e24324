"""Spark reads, with its RocksDB provider, what our RocksDB backend writes, with ids and without."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from hdfsstore.checkpoint.conf import PROVIDER, ROCKSDB_PROVIDER
from hdfsstore.codecs.compression import CODECS
from tests.spark.support.own_checkpoint import CHANGELOGS, NUMBER, PARTITIONS, OwnCheckpoint, numbers, spark_rows
from tests.support.continued_stores import FORMAT_VERSION
from tests.support.rows import counted

BATCHES = 5


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def format_version(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[int]:
    version: int = request.param
    settings = {PROVIDER: ROCKSDB_PROVIDER, FORMAT_VERSION: str(version), CHANGELOGS: "true"}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield version
    for name in settings:
        spark.conf.unset(name)


def model(batch_id: int) -> dict[int, int]:
    """What is there after a batch: each puts 40 ids and removes every third of those before."""
    state: dict[int, int] = {}
    for b in range(batch_id + 1):
        for i in removed(b):
            state.pop(i, None)
        state.update({i: 1000 * b + i for i in put(b)})
    return state


def put(batch_id: int) -> list[int]:
    return list(range(30 * batch_id, 30 * batch_id + 40))


def removed(batch_id: int) -> list[int]:
    return list(range(0, 30 * batch_id, 3))


def write_batch(written: OwnCheckpoint, batch_id: int) -> None:
    updates = {}
    for p in range(PARTITIONS):
        gone, new = ([i for i in ids if i % PARTITIONS == p] for ids in (removed(batch_id), put(batch_id)))
        updates[p] = [(gone, None), (new, numbers([1000 * batch_id + i for i in new]))]
    written.add_batch(updates)


def expected(batch_id: int) -> pa.Table:
    rows = [(i % PARTITIONS, {"id": i}, {"n": n}) for i, n in model(batch_id).items()]
    return pa.table(
        {
            "partition_id": pa.array([row[0] for row in rows], pa.int32()),
            "key": pa.array([row[1] for row in rows], pa.struct({"id": pa.int64()})),
            "value": pa.array([row[2] for row in rows], pa.struct({"n": pa.int64()})),
        }
    )


def seen(spark: SparkSession, path: Path, batch_id: int) -> pa.Table:
    return spark_rows(spark, path, batchId=batch_id).select(["partition_id", "key", "value"])


@pytest.mark.parametrize("codec", CODECS)
def test_changelogs(spark: SparkSession, tmp_path: Path, format_version: int, codec: str) -> None:
    with OwnCheckpoint(tmp_path, NUMBER, codec, backend="rocksdb", format_version=format_version) as written:
        for batch_id in range(BATCHES):
            write_batch(written, batch_id)
        assert counted(seen(spark, written.path, BATCHES - 1)) == counted(expected(BATCHES - 1))
        assert counted(seen(spark, written.path, 1)) == counted(expected(1))


def test_zips_and_what_follows_them(spark: SparkSession, tmp_path: Path, format_version: int) -> None:
    with OwnCheckpoint(tmp_path, NUMBER, backend="rocksdb", format_version=format_version) as written:
        for batch_id in range(BATCHES):
            write_batch(written, batch_id)
            if batch_id in (1, 3):
                for provider in written.partitions:
                    provider.do_maintenance()
    for version in (1, 2, 3, 4):  # now only the zips lead there, the second one with SST files of the first
        for path in written.path.glob(f"state/0/*/{version}*.changelog"):
            path.unlink()
    assert counted(seen(spark, written.path, BATCHES - 1)) == counted(expected(BATCHES - 1))
    assert counted(seen(spark, written.path, 3)) == counted(expected(3))
