"""Runs a stateful job on Spark's API or on ours, and says what came out of each batch and what state it left."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

import hdfsstore
from tests.data.generate.case import FIRST_FILE_TIME
from tests.support.rows import plain
from tests.support.waiting import WAIT_SECONDS

GroupBy = Callable[..., Any]


@dataclass(frozen=True)
class Job:
    """A stateful function and what it runs on.

    Attributes:
        func: for applyInPandasWithState.
        columns, output, state: of the input, of func's output, of its state, as DDL.
        keys: names of columns, or what makes a Column.
        batches: the rows of one input file each; the query takes one a batch. Spark runs batches without rows beside
            them, where a timeout may have expired.
        timeout, mode: of func.
        watermark: the event-time column and its delay.
        prepare: what is done to the input before groupBy.
        pace: availableNow, all files are there at first, so that no batch without rows comes between; step, a file is
            added when all batches of the one before have run; once, each file is taken by a query of its own, which
            ends after its batch, as it must where Spark would run batch after batch without rows.
        confs: of the session.
    """

    name: str
    func: Callable[..., Any]
    columns: str
    keys: Sequence[Any]
    output: str
    state: str
    batches: Sequence[Sequence[tuple[Any, ...]]]
    timeout: str = "NoTimeout"
    mode: str = "update"
    watermark: tuple[str, str] | None = None
    prepare: Callable[[DataFrame], DataFrame] | None = None
    pace: Literal["availableNow", "step", "once"] = "availableNow"
    confs: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name.replace(" ", "-")


@dataclass(frozen=True)
class Batch:
    """What one batch did.

    Attributes:
        output: its rows as text, sorted.
        state: after it: (key, value, partition) in the plain values of tests.support.rows, sorted by their text.
    """

    output: list[str]
    state: list[tuple[Any, Any, int]]
    watermark_ms: int
    timestamp_ms: int


def run(
    spark: SparkSession,
    job: Job,
    group_by: GroupBy,
    folder: Path,
    api: str = "applyInPandasWithState",
    func: Callable[..., Any] | None = None,
    options: dict[str, Any] | None = None,
    look: Callable[[Path], None] = lambda _: None,
) -> list[Batch]:
    """Runs all batches of a job, and those that Spark puts between them.

    Args:
        group_by: makes of a DataFrame and keys what has the method `api`.
        func: in the place of the job's.
        options: of the writer.
        look: is called with the checkpoint after each file's batches, while the query runs.
    """
    spark = spark.newSession()
    for name, value in job.confs.items():
        spark.conf.set(name, value)
    files, checkpoint = folder / "input", folder / "checkpoint"
    files.mkdir(parents=True)
    outputs: dict[int, list[str]] = {}

    def sink(rows: DataFrame, batch_id: int) -> None:
        outputs[batch_id] = sorted(map(repr, rows.collect()))

    def start() -> Any:
        rows = spark.readStream.schema(job.columns).option("maxFilesPerTrigger", 1).parquet(str(files))
        if job.watermark:
            rows = rows.withWatermark(*job.watermark)
        if job.prepare:
            rows = job.prepare(rows)
        keys = [key() if callable(key) else key for key in job.keys]
        method = getattr(group_by(rows, *keys), api)
        out = method(func or job.func, job.output, job.state, job.mode, job.timeout)
        writer = out.writeStream.outputMode(job.mode).option("checkpointLocation", str(checkpoint))
        writer = writer.options(**options or {})
        if job.pace != "step":
            writer = writer.trigger(**{job.pace: True})
        return writer.foreachBatch(sink).start()

    query = None
    try:
        for number, rows in enumerate(job.batches):
            write_input(files, number, rows, StructType.fromDDL(job.columns))
            if job.pace == "availableNow" and number + 1 < len(job.batches):
                continue
            if query is None or job.pace != "step":
                query = start()
            if job.pace == "step":
                query.processAllAvailable()
            else:
                assert query.awaitTermination(WAIT_SECONDS)
            look(checkpoint)
    finally:
        if query is not None:
            query.stop()
    ours = checkpoint / "hdfsstore"
    return read_batches(ours if ours.exists() else checkpoint, outputs)


def write_input(files: Path, number: int, rows: Sequence[tuple[Any, ...]], schema: StructType) -> None:
    """One more file, later than those before: the source reads them in the order of their times."""
    kind = to_arrow_schema(schema, timezone="UTC")
    columns = [pa.array([row[i] for row in rows], kind.field(i).type) for i in range(len(kind))]
    hidden, path = files / f"_{number}", files / f"{number}.parquet"
    pq.write_table(pa.Table.from_arrays(columns, schema=kind), hidden)
    os.utime(hidden, (FIRST_FILE_TIME + number,) * 2)
    hidden.rename(path)


def read_batches(root: Path, outputs: dict[int, list[str]]) -> list[Batch]:
    """The batches of a checkpoint, with what a sink got of each."""
    checkpoint = hdfsstore.Checkpoint(root)
    batches = []
    for batch in checkpoint.batches:
        state = checkpoint.read_state(batch_id=batch.batch_id)
        rows = sorted(zip(*(plain(column) for column in state.columns), strict=True), key=repr)
        batches.append(Batch(outputs.get(batch.batch_id, []), rows, batch.watermark_ms, batch.timestamp_ms))
    return batches
