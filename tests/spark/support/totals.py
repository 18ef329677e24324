"""A stream of events, the totals by user that a stateful query makes of it, and what a driver leaves that is killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from hdfsstore import Checkpoint
from hdfsstore.spark import groupBy
from hdfsstore.spark.driver.query import StatefulQuery
from tests.support.waiting import WAIT_SECONDS

SCHEMA = "user string, n long, seconds long"


class Events:
    """A stream of files, one a batch."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = str(folder)

    def add(self, *rows: tuple[str, int, int]) -> None:
        self._spark.createDataFrame(list(rows), SCHEMA).coalesce(1).write.mode("append").json(self._folder)

    def stream(self) -> DataFrame:
        return self._spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(self._folder)

    def timed(self) -> DataFrame:
        return self.stream().withColumn("time", F.timestamp_seconds("seconds")).withWatermark("time", "0 seconds")


def total(rows: pa.Table, state: Any) -> pa.Table:
    """The sum of n for each user."""
    new = rows.group_by("user").aggregate([("n", "sum")])
    sums = pc.add(new["n_sum"], pc.fill_null(state.get(new)["total"], 0))
    state.put(new, pa.table({"total": sums}))
    return pa.table({"user": new["user"], "total": sums})


def totals(df: DataFrame, output_mode: str = "update", timeout_conf: str = "NoTimeout") -> Any:
    return groupBy(df, "user").mapInArrowWithState(
        total, "user string, total long", "total long", output_mode, timeout_conf
    )


def state_of(checkpoint: Path) -> dict[str, int]:
    rows = Checkpoint(checkpoint / "hdfsstore").read_state().to_pylist()
    return {row["key"]["user"]: row["value"]["groupState"]["total"] for row in rows}


def finished(query: StreamingQuery) -> StatefulQuery:
    assert query.awaitTermination(WAIT_SECONDS)
    assert isinstance(query, StatefulQuery)
    return query


def run_again(checkpoint: Path, batch_id: int) -> None:
    """Leaves a checkpoint as a driver does that is killed after its sink has returned and before that is noted."""
    for log in ("commits", "hdfsstore/commits"):
        for name in (f"{batch_id}", f".{batch_id}.crc"):
            (checkpoint / log / name).unlink(missing_ok=True)
