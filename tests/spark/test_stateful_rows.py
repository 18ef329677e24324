"""mapWithState on a live Spark."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState
from pyspark.sql.types import StructType

from hdfsstore.spark import groupBy
from hdfsstore.spark.api.stateful_stream import StatefulStream

COLUMNS = """
    named_struct('city', 'Bern', 'at', timestamp'2024-02-29 01:02:03.000456', 'none', cast(null as string)) place,
    cast(-128 as byte) b, cast(7 as short) s, 7 i, cast(0.1 as float) f, 0.1d d, -0.0d minus_zero, true yes,
    'Zürich' text, x'00ff' raw, cast(1.5 as decimal(38, 10)) price, date'1582-10-15' day,
    timestamp'1969-12-31 23:59:59.999999' t, timestamp_ntz'2024-02-29 01:02:03' ntz, interval '-1' day gap,
    array(1, null) items, map('a', array(named_struct('x', date'2024-02-29'))) nested, cast(null as long) missing
"""


def batches(spark: SparkSession, folder: Path, parts: list[DataFrame]) -> DataFrame:
    """A stream that reads each part as a batch."""
    for i, part in enumerate(parts):
        part.coalesce(1).write.parquet(str(folder / str(i)))
        for file in (folder / str(i)).glob("*.parquet"):
            os.utime(file, (1_000_000_000 + i,) * 2)
    stream = spark.readStream.schema(parts[0].schema).option("maxFilesPerTrigger", 1)
    return stream.parquet(str(folder / "*"))


def run(stream: StatefulStream, checkpoint: Path) -> list[list[Row]]:
    """The output of each batch."""
    found: list[list[Row]] = []

    def sink(output: DataFrame, _batch_id: int) -> None:
        found.append(output.collect())

    writer = stream.writeStream.outputMode("update").option("checkpointLocation", str(checkpoint)).foreachBatch(sink)
    writer.trigger(availableNow=True).start().awaitTermination()
    return found


def show(key: tuple[Any, ...], rows: Iterator[Row], state: GroupState) -> Iterator[tuple[Any, ...]]:
    seen = list(rows)
    before = state.getOption
    state.update([seen[0].text, *(before or [])])
    yield repr(key), repr(seen), repr(before), *seen[0]


def test_rows_are_those_that_pyspark_collects_and_come_back_as_they_were(spark: SparkSession, tmp_path: Path) -> None:
    data = spark.sql(f"select 1 n, {COLUMNS} union all select 2, {COLUMNS}").repartition(1)
    data = data.withColumn("n", F.col("n").cast("long"))
    stream = batches(spark, tmp_path / "in", [data, data])
    output = f"key string, rows string, state string, {data.schema.simpleString()[len('struct<') : -1]}"
    keys = [F.col("place"), F.col("minus_zero").alias("zero"), F.window("t", "1 day").alias("day")]
    first, second = run(groupBy(stream, *keys).mapWithState(show, output), tmp_path / "cp")
    collected = data.collect()
    window = data.select(F.window("t", "1 day")).first()[0]
    (row,) = first
    assert row.key == repr((collected[0].place, 0.0, window))
    assert row.rows == repr(collected)
    assert row.state == "None"
    assert tuple(row)[3:] == tuple(collected[0])
    assert second[0].state == "['Zürich']"


def count(key: tuple[Any, ...], rows: Iterator[Row], state: GroupState) -> list[dict[str, Any]]:
    if state.hasTimedOut:
        expired = [{"user": key[0], "n": -state.get[0]}]
        state.remove()
        return expired
    n = sum(1 for _ in rows) + (state.get[0] if state.exists else 0)
    state.update((n,))
    state.setTimeoutTimestamp(state.getCurrentWatermarkMs() + 10_000)
    return [{"user": key[0], "n": n}]


def count_once(key: tuple[Any, ...], rows: Iterator[Row], state: GroupState) -> list[dict[str, Any]]:
    counted = count(key, rows, state)
    if counted[0]["n"] > 2:
        raise RuntimeError(f"no more of {key[0]}")
    return counted


def test_an_error_names_the_key_and_leaves_the_state_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    def events(*rows: tuple[str, int]) -> DataFrame:
        return spark.createDataFrame(rows, "user string, second long")

    stream = batches(spark, tmp_path / "in", [events(("ann", 1), ("bob", 3), ("ann", 2)), events(("ann", 60))])
    timed = stream.withColumn("t", F.timestamp_seconds("second")).withWatermark("t", "0 seconds")

    def counts(func: Any) -> StatefulStream:
        return groupBy(timed, "user").mapWithState(
            func, "user string, n long", "n long", timeoutConf="EventTimeTimeout"
        )

    # A schema without columns is one, and not the lack of one.
    for nothing in (StructType(), ""):
        described = groupBy(stream, "user").mapWithState(count, "user string, n long", nothing).description
        assert described.state_schema.fields == ()

    with pytest.raises(StreamingQueryException) as caught:
        run(counts(count_once), tmp_path / "cp")
    said = str(caught.value)
    assert re.search(r"the function of mapWithState failed for the key \(user='ann'\) in batch \d", said)
    assert 'raise RuntimeError(f"no more of {key[0]}")' in said
    outputs = [sorted(map(tuple, output)) for output in run(counts(count), tmp_path / "cp") if output]
    assert outputs == [[("ann", 3)], [("ann", -3), ("bob", -1)]]
