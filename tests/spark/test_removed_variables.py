"""Reading state variables on RocksDB that are removed and made again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

import hdfsstore
from hdfsstore.checkpoint.conf import PROVIDER, ROCKSDB_PROVIDER
from tests.data.generate.processor import OUTPUT, numbers, output
from tests.spark.support.own_batch import write_input
from tests.spark.support.own_checkpoint import CHANGELOGS, spark_rows
from tests.support.continued_stores import FORMAT_VERSION
from tests.support.rows import counted


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def rocksdb(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[None]:
    settings = {PROVIDER: ROCKSDB_PROVIDER, FORMAT_VERSION: str(request.param), CHANGELOGS: "true"}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield
    for name in settings:
        spark.conf.unset(name)


def run(frame: DataFrame, checkpoint: Path) -> None:
    writer = frame.writeStream.format("noop").outputMode("update").option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()


def batches(spark: SparkSession, folder: Path, batch_ids: range) -> DataFrame:
    for batch_id in batch_ids:
        write_input(folder, batch_id)
    return spark.readStream.schema("k STRING, n INT").option("maxFilesPerTrigger", 1).json(str(folder))


class Kept(StatefulProcessor):
    """Appends to two lists."""

    names = ("kept", "list")

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.lists = [handle.getListState(name, "n INT") for name in self.names]

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: ARG002
        for n in numbers(rows):
            for each in self.lists:
                each.appendValue((n,))
        yield output(key, 0)

    def close(self) -> None:
        pass


class Removed(Kept):
    """One of the lists is removed."""

    names = ("kept",)

    def init(self, handle: StatefulProcessorHandle) -> None:
        super().init(handle)
        handle.deleteIfExists("list")


@pytest.mark.usefixtures("rocksdb")
def test_a_variable_that_is_removed_and_made_again(spark: SparkSession, tmp_path: Path) -> None:
    folder, checkpoint = tmp_path / "input", tmp_path / "checkpoint"
    for batch_id, processor in enumerate([Kept(), Removed(), Kept()]):
        grouped = batches(spark, folder, range(batch_id, batch_id + 1)).groupBy("k")
        run(grouped.transformWithStateInPandas(processor, OUTPUT, "Update", "None"), checkpoint)
    opened = hdfsstore.Checkpoint(checkpoint)
    for name, batch_ids in {"kept": (0, 1, 2), "list": (0, 2)}.items():
        for batch_id in batch_ids:
            theirs = spark_rows(spark, checkpoint, batchId=batch_id, stateVarName=name)
            assert theirs.num_rows > 0
            assert counted(opened.read_state(batch_id=batch_id, state_var=name)) == counted(theirs)
        feed = {"readChangeFeed": True, "changeStartBatchId": 0, "changeEndBatchId": 2}
        theirs = spark_rows(spark, checkpoint, stateVarName=name, **feed)
        assert counted(opened.read_changes(0, 2, state_var=name)) == counted(theirs)
    with pytest.raises(hdfsstore.StateStoreError, match="has no state variable 'list'"):
        opened.read_state(batch_id=1, state_var="list")
