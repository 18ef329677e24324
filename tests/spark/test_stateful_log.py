"""Tests the driver's log beside Spark's own: repeated batches, a query that is set back, lost logs."""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

import hdfsstore
from hdfsstore.spark import groupBy


def add(rows: pa.Table, state: Any) -> pa.Table:
    new = rows.group_by("k").aggregate([("n", "sum")])
    total = pa.table({"total": pc.add(new["n_sum"], pc.fill_null(state.get(new.select(["k"]))["total"], 0))})
    state.put(new.select(["k"]), total)
    return pa.table({"k": new["k"], "total": total["total"]})


class Query:
    """Sums by key, of one file a batch."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._input = folder / "input"
        self._input.mkdir()
        self.checkpoint = folder / "checkpoint"

    def write(self, number: int) -> None:
        path = self._input / f"{number}.json"
        path.write_text("".join(json.dumps({"k": i % 5, "n": 10**number}) + "\n" for i in range(8)))
        os.utime(path, (1_700_000_000 + number,) * 2)

    def run(self) -> list[int]:
        """Runs until there is no more input. Returns the batches that the sink was given."""
        given = []
        rows = self._spark.readStream.schema("k long, n long").option("maxFilesPerTrigger", 1).json(str(self._input))
        stream = groupBy(rows, "k").mapInArrowWithState(add, "k long, total long", "total long", "update", "NoTimeout")
        writer = stream.writeStream.foreachBatch(lambda output, batch_id: given.append((batch_id, output.count())))
        query = writer.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True).start()
        query.awaitTermination()
        return [batch_id for batch_id, _ in given]

    def state(self) -> Counter[int]:
        table = hdfsstore.Checkpoint(self.checkpoint / "hdfsstore").read_state()
        return Counter({row["key"]["k"]: row["value"]["groupState"]["total"] for row in table.to_pylist()})

    def set_back(self, batch_id: int, *logs: str) -> None:
        for log in logs:
            for path in (self.checkpoint / log).iterdir():
                if int(path.name.strip(".cr")) >= batch_id:
                    path.unlink()


def totals(*numbers: int) -> Counter[int]:
    """The sums of the files of those numbers."""
    return Counter({k: sum(10**number for number in numbers) * (2 if k < 3 else 1) for k in range(5)})


def test_batches_given_again_and_a_query_set_back(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    query = Query(spark, tmp_path)
    for number in range(3):
        query.write(number)
    assert query.run() == [0, 1, 2]
    # As after a kill between our commit and Spark's: the sink has had the batch.
    query.set_back(2, "commits")
    query.write(3)
    assert query.run() == [3]
    assert query.state() == totals(0, 1, 2, 3)
    # As after a kill before our commit.
    query.set_back(3, "commits", "hdfsstore/commits")
    assert query.run() == [3]
    assert query.state() == totals(0, 1, 2, 3)
    # Set back: batch 1 is all that Spark's source has seen since, and what is new.
    query.set_back(1, "offsets", "commits")
    query.write(4)
    with caplog.at_level(logging.WARNING, "hdfsstore"):
        assert query.run() == [1]
    assert "Spark's log was set back to batch 1" in caplog.text
    assert query.state() == totals(0, 1, 2, 3, 4)
    assert len(list(query.checkpoint.glob("hdfsstore/rewound/*/commits/*"))) == 3
    # Without our log there is no state, and none is made up.
    shutil.rmtree(query.checkpoint / "hdfsstore")
    query.write(5)
    with pytest.raises(StreamingQueryException, match=r"MissingFileError.*there is no log of its state"):
        query.run()
