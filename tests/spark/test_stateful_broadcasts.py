"""What a function brings along: broadcast variables, accumulators, and megabytes of its own."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from hdfsstore.spark import groupBy
from tests.spark.support.counts import write_batches
from tests.support.waiting import WAIT_SECONDS, wait_until

OUTPUT = "user long, name string"
STATE = "n long"
BATCHES = [pa.table({"user": [1, 2, 2]}), pa.table({"user": [2, 3]}), pa.table({"user": [1]})]
METHODS = ["applyInPandasWithState", "mapWithState", "mapInArrowWithState"]


def naming(method: str, name_of: Callable[[int], str], note: Callable[[int], None]) -> Callable[..., Any]:
    """A function for a method, that gives each user's name once a batch, and notes how many users it had."""

    def per_key(key: tuple[Any, ...], _: object, state: Any) -> Iterator[Any]:
        note(1)
        state.update((1,))
        name = name_of(key[0])
        yield pd.DataFrame({"user": [key[0]], "name": [name]}) if method == METHODS[0] else (key[0], name)

    def per_partition(rows: pa.Table, state: Any) -> pa.Table:
        users = rows.group_by("user").aggregate([])
        note(users.num_rows)
        state.put(users, pa.table({"n": [1] * users.num_rows}))
        return users.append_column("name", pa.array([name_of(user) for user in users["user"].to_pylist()]))

    return per_partition if method == METHODS[2] else per_key


def start(
    spark: SparkSession, folder: Path, method: str, func: Callable[..., Any], sink: Callable[[DataFrame, int], None]
) -> Any:
    folder.mkdir(exist_ok=True)
    source = write_batches(folder / "in", BATCHES)
    rows = spark.readStream.schema("user long").option("maxFilesPerTrigger", 1).parquet(str(source))
    named = getattr(groupBy(rows, "user"), method)(func, OUTPUT, STATE, "update", "NoTimeout")
    writer = named.writeStream.option("checkpointLocation", str(folder / "cp")).trigger(availableNow=True)
    return writer.foreachBatch(sink).start()


@pytest.mark.parametrize("method", METHODS)
def test_a_function_uses_broadcast_variables_and_accumulators(spark: SparkSession, tmp_path: Path, method: str) -> None:
    context = spark.sparkContext
    names = context.broadcast({1: "ann", 2: "bob", 3: "cat"})
    other = context.broadcast("unused until the last batch")
    users = context.accumulator(0)
    found: list[list[tuple[Any, ...]]] = []

    def sink(output: DataFrame, batch_id: int) -> None:
        # A variable of the sink's own is not mixed up with those of the function.
        suffix = context.broadcast("!")
        rows = output.rdd.map(lambda row: (row.user, row.name + suffix.value)).collect()
        found.append(sorted(rows))
        if batch_id == 0:
            names.unpersist(blocking=True)  # Spark sends it again

    def name_of(user: int) -> str:
        return names.value[user] if user != 1 else f"{names.value[user]}, {other.value.split()[0]}"

    query = start(spark, tmp_path, method, naming(method, name_of, users.add), sink)
    assert query.awaitTermination(WAIT_SECONDS)
    assert found == [[(1, "ann, unused!"), (2, "bob!")], [(2, "bob!"), (3, "cat!")], [(1, "ann, unused!")]]
    assert users.value == 5
    assert not list(context._pickled_broadcast_vars), "of this thread: its next job would take them along"


def large(fail: bool = False) -> Callable[..., Any]:
    """A function of two megabytes."""
    ballast = random.Random(1).randbytes(2 << 20)

    def name_of(user: int) -> str:
        if fail and user == 3:
            raise ValueError("no such user")
        return str(len(ballast))

    return naming(METHODS[1], name_of, lambda _: None)


def files_of(spark: SparkSession) -> set[Path]:
    """The files of Python's broadcast variables on the driver."""
    return set(Path(spark.sparkContext._temp_dir).iterdir())


def test_a_large_function_travels_once_and_is_freed_with_the_end_of_its_query(
    spark: SparkSession, tmp_path: Path
) -> None:
    before = files_of(spark)
    during: list[set[Path]] = []

    def sink(output: DataFrame, _: int) -> None:
        assert {row.name for row in output.collect()} == {str(2 << 20)}
        during.append(files_of(spark) - before)

    query = start(spark, tmp_path, METHODS[1], large(), sink)
    assert query.awaitTermination(WAIT_SECONDS)
    assert len(during) == 3
    assert [len(files) for files in during] == [1, 1, 1]
    assert during[0] == during[2]
    wait_until(lambda: files_of(spark) <= before)  # those of other tests go whenever Java collects them


def test_a_large_function_is_freed_when_its_query_fails_is_stopped_or_does_not_start(
    spark: SparkSession, tmp_path: Path
) -> None:
    before = files_of(spark)
    query = start(spark, tmp_path / "failing", METHODS[1], large(fail=True), lambda output, _: output.count())
    with pytest.raises(StreamingQueryException, match="no such user"):
        query.awaitTermination(WAIT_SECONDS)
    wait_until(lambda: files_of(spark) <= before)

    rows = spark.readStream.schema("user long").parquet(str(tmp_path / "failing/in"))

    def begin(checkpoint: str) -> Any:
        named = groupBy(rows, "user").mapWithState(large(), OUTPUT, STATE)
        writer = named.writeStream.format("noop").queryName("large").option("checkpointLocation", checkpoint)
        return writer.start()

    running = begin(str(tmp_path / "running"))
    try:
        running.processAllAvailable()
        assert len(files_of(spark) - before) == 1
        with pytest.raises(Exception, match=r"name large .*already"):
            begin(str(tmp_path / "refused"))
        assert len(files_of(spark) - before) == 1
    finally:
        running.stop()
    wait_until(lambda: files_of(spark) <= before)


def memory_in_blocks(spark: SparkSession) -> int:
    """The bytes of Spark's blocks in memory: of broadcast variables and of what is cached."""
    status = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().values().mkString(" ")
    most, left = re.fullmatch(r"\((\d+),(\d+)\)", status).groups()  # type: ignore[union-attr]
    return int(most) - int(left)


def collect_garbage(spark: SparkSession) -> None:
    """Frees what the variables of other tests have in memory, so that it is not freed later."""
    assert spark._jvm is not None
    before = -1
    while (now := memory_in_blocks(spark)) != before:
        before = now
        spark._jvm.System.gc()
        time.sleep(0.5)


def test_output_that_is_cached_is_used_after_its_query_and_nothing_else_of_a_large_function_is_left(
    spark: SparkSession, tmp_path: Path
) -> None:
    collect_garbage(spark)
    files, memory = files_of(spark), memory_in_blocks(spark)
    outputs: list[DataFrame] = []

    def sink(output: DataFrame, _: int) -> None:
        assert output.persist().count()
        assert memory_in_blocks(spark) - memory > 2 << 20
        outputs.append(output)

    for turn in range(3):
        query = start(spark, tmp_path / str(turn), METHODS[1], large(), sink)
        assert query.awaitTermination(WAIT_SECONDS)
        wait_until(lambda: files_of(spark) <= files and memory_in_blocks(spark) - memory < 1 << 20)
    for i, output in enumerate(outputs):
        assert sorted(row.user for row in output.collect()) == [[1, 2], [2, 3], [1]][i % 3]
    outputs[0].unpersist(blocking=True)
    with pytest.raises(Exception, match="its query has ended, and the function was deleted with it"):
        outputs[0].collect()
    for output in outputs:
        output.unpersist()
