"""Spark's own stateful query is stopped, and ours goes on from its state on the same checkpoint.

The oracle is Spark's query going on by itself, on a copy of the checkpoint.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.state import GroupState

import hdfsstore
from hdfsstore import UnsupportedQueryError
from hdfsstore.checkpoint import conf as confs
from hdfsstore.spark import groupBy
from tests.support.rows import counted

FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
OUTPUT, STATE = "k string, total long", "total long"
BATCHES = 2  # that Spark runs
Outputs = dict[int, Counter[Any]]


def write(folder: Path, batch_id: int) -> None:
    """The input of a batch: some keys of the batch before, some new ones, a null."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{batch_id}.json"
    rows = [
        {
            "k": None if i % 7 == 0 else f"k{(i + batch_id) % 9}",
            "ts": f"2026-01-01T00:{2 * batch_id:02}:{i:02}Z",
            "n": i,
        }
        for i in range(20)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    os.utime(path, (1_700_000_000 + batch_id,) * 2)  # the order in which Spark reads them


def add(key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    total = (state.get[0] if state.exists else 0) + sum(int(frame["n"].sum()) for frame in frames)
    state.update((total,))
    yield pd.DataFrame({"k": [key[0]], "total": [total]})


def add_until_timeout(key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    if state.hasTimedOut:
        yield pd.DataFrame({"k": [key[0]], "total": [-state.get[0]]})
        state.remove()
        return
    yield from add(key, frames, state)
    state.setTimeoutTimestamp(state.getCurrentWatermarkMs() + 100_000)


class Queries:
    """The same function on Spark's API and on ours, over the files of a folder."""

    def __init__(self, spark: SparkSession, folder: Path, function: Callable[..., Any], timeout: str) -> None:
        self._spark = spark
        self._folder = folder
        self._arguments = function, OUTPUT, STATE, "update", timeout

    def sparks(self, checkpoint: Path) -> Outputs:
        stream = self._rows().groupBy("k").applyInPandasWithState(*self._arguments)
        return self._run(stream.writeStream.outputMode("update"), checkpoint)

    def ours(self, checkpoint: Path, **options: object) -> Outputs:
        stream = groupBy(self._rows(), "k").applyInPandasWithState(*self._arguments)
        writer = stream.writeStream.outputMode("update")
        return self._run(writer.options(**{f"hdfsstore.{k}": v for k, v in options.items()}), checkpoint)

    def arrow(self, checkpoint: Path) -> Outputs:
        stream = groupBy(self._rows(), "k").mapInArrowWithState(*self._arguments)
        return self._run(stream.writeStream, checkpoint)

    def _rows(self) -> DataFrame:
        stream = self._spark.readStream.schema("k string, ts timestamp, n int").option("maxFilesPerTrigger", 1)
        return stream.json(str(self._folder)).withWatermark("ts", "1 minute")

    def _run(self, writer: Any, checkpoint: Path) -> Outputs:
        outputs: Outputs = {}
        writer.foreachBatch(lambda rows, batch_id: outputs.update({batch_id: Counter(map(tuple, rows.collect()))}))
        query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        query.awaitTermination()
        return {batch_id: rows for batch_id, rows in outputs.items() if rows}


def statestore(spark: SparkSession, checkpoint: Path) -> Counter[str]:
    return counted(spark.read.format("statestore").load(str(checkpoint)).drop("partition_id").toArrow())


@pytest.mark.parametrize("backend", [confs.HDFS_PROVIDER, confs.ROCKSDB_PROVIDER], ids=["hdfs", "rocksdb"])
def test_our_query_goes_on(spark: SparkSession, tmp_path: Path, backend: str) -> None:
    folder, checkpoint, copy = tmp_path / "input", tmp_path / "checkpoint", tmp_path / "copy"
    queries = Queries(spark, folder, add, "NoTimeout")
    for batch_id in range(BATCHES):
        write(folder, batch_id)
    spark.conf.set(confs.PROVIDER, backend)
    if backend == confs.ROCKSDB_PROVIDER:
        spark.conf.set(FORMAT, 2)
    try:
        queries.sparks(checkpoint)
        shutil.copytree(checkpoint, copy)
        write(folder, BATCHES)
        expected = queries.sparks(copy)
        with pytest.raises(
            UnsupportedQueryError, match=r"applyInPandasWithState.*hdfsstore's mapInArrowWithState cannot"
        ):
            queries.arrow(checkpoint)
        # Files that Spark's own source reads, where Spark has written such.
        version = 1 if backend == confs.HDFS_PROVIDER else 2
        assert queries.ours(checkpoint, checkpointFormatVersion=version) == expected
        if version == 1:
            assert statestore(spark, checkpoint / "hdfsstore") == statestore(spark, copy)
        spark.conf.unset(FORMAT)
        write(folder, BATCHES + 1)
        assert queries.ours(checkpoint, checkpointFormatVersion=version).keys() == {BATCHES + 1}
    finally:
        spark.conf.unset(confs.PROVIDER)
        spark.conf.unset(FORMAT)
    assert hdfsstore.Checkpoint(checkpoint / "hdfsstore").latest_batch_id == BATCHES + 1


@pytest.mark.parametrize("offset_log", [1, 2])
def test_timeouts_go_on(spark: SparkSession, tmp_path: Path, offset_log: int) -> None:
    """Those that Spark's operator has set fire; the source that makes batches for them is new to Spark's offset log."""
    spark = spark.newSession()
    spark.conf.set("spark.sql.streaming.offsetLog.formatVersion", offset_log)
    folder, checkpoint, copy = tmp_path / "input", tmp_path / "checkpoint", tmp_path / "copy"
    queries = Queries(spark, folder, add_until_timeout, "EventTimeTimeout")
    for batch_id in range(BATCHES):
        write(folder, batch_id)
    queries.sparks(checkpoint)
    shutil.copytree(checkpoint, copy)
    for batch_id in range(BATCHES, BATCHES + 2):
        write(folder, batch_id)
    outputs = queries.ours(checkpoint, checkpointFormatVersion=1)
    assert list(outputs.values()) == list(queries.sparks(copy).values())
    assert any(total < 0 for rows in outputs.values() for _, total in rows)
    assert statestore(spark, checkpoint / "hdfsstore") == statestore(spark, copy)
    assert (checkpoint / f"offsets/{max(outputs)}").read_text().startswith(f"v{offset_log}\n")
