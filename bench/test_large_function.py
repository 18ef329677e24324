"""A function of 100 MB over 50 batches: what it leaves on the driver's disk and in memory."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from bench.cache import work_folder
from bench.report import Report
from bench.workers import memory_of_driver, memory_of_workers
from hdfsstore.spark import groupBy

MB = 1_000_000
# The batch after which the function has arrived wherever it goes.
SETTLED = 5


def local_folders(spark: SparkSession) -> list[Path]:
    """Spark's: the driver's, which are the executors' too."""
    context = spark.sparkContext
    told = context.parallelize([0], 1).map(lambda _: os.environ["SPARK_LOCAL_DIRS"]).first()
    return [Path(context._temp_dir), *map(Path, told.split(","))]


def disk(folders: list[Path]) -> int:
    """The bytes of the files there."""
    return sum(file.stat().st_size for folder in folders for file in folder.rglob("*") if file.is_file())


def heap(spark: SparkSession) -> int:
    """The bytes that are reachable in the JVM."""
    runtime = spark._jvm.java.lang.Runtime.getRuntime()  # type: ignore[union-attr]
    spark._jvm.java.lang.System.gc()  # type: ignore[union-attr]
    return int(runtime.totalMemory() - runtime.freeMemory())


def with_ballast(size: int) -> Callable[..., Any]:
    """A function for mapWithState that carries so many bytes."""
    model = random.Random(1).randbytes(size)

    def count(key: tuple[Any, ...], rows: Iterator[Any], state: Any) -> Iterator[tuple[int, int, int]]:
        n = (state.get if state.exists else 0) + sum(1 for _ in rows)
        state.update(n)
        yield key[0], n, model[n % len(model)]

    return count


def test_large_function(spark: SparkSession, report: Report, smoke: bool) -> None:
    size, batches = (MB, SETTLED + 3) if smoke else (100 * MB, 50)
    folders = local_folders(spark)
    found: list[dict[str, int]] = []

    def look(_: object = None) -> None:
        memory = memory_of_driver(), memory_of_workers()
        found.append({"disk": disk(folders), "Python": memory[0], "workers": memory[1], "heap": heap(spark)})

    def sink(output: DataFrame, batch_id: int) -> None:
        output.write.format("noop").mode("overwrite").save()
        if batch_id in (SETTLED, batches - 1):
            look()

    look()
    with work_folder() as folder:
        (folder / "source").mkdir()
        for batch in range(batches):
            pq.write_table(pa.table({"user": list(range(1000))}), folder / "source" / f"{batch}.parquet")
        rows = spark.readStream.schema("user long").option("maxFilesPerTrigger", 1).parquet(str(folder / "source"))
        counts = groupBy(rows, "user").mapWithState(with_ballast(size), "user long, n long, weight long")
        writer = counts.writeStream.option("checkpointLocation", str(folder / "checkpoint"))
        query = writer.trigger(availableNow=True).foreachBatch(sink).start()
        query.awaitTermination()
    names = ("before the query", f"after batch {SETTLED}", f"after batch {batches - 1}")
    for name, sizes in zip(names, found, strict=True):
        shown = ", ".join(f"{what} {each / MB:,.0f}" for what, each in sizes.items())
        report.add(f"a function of {size // MB} MB, {batches} batches, MB {name}", shown, "")
    grown = {what: (found[2][what] - found[1][what]) / MB for what in found[0]}
    goal = "goal: flat"
    report.add("it has grown by, in MB", ", ".join(f"{what} {each:,.0f}" for what, each in grown.items()), goal)
