"""What our stateful functions are measured against: Spark's own, and the plan of a batch of ours without any state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from bench.user_functions import OUTPUT, STATE, DictState, RowSums, pandas_sums, row_sums, sums

PARTITIONS = 2
Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def to_noop(batch: DataFrame, _: int) -> None:
    """The sink of all sides: every row is made, none is kept."""
    batch.write.format("noop").mode("overwrite").save()


def start(out: DataFrame, checkpoint: Path | str) -> StreamingQuery:
    """Starts a query on one of Spark's own operators."""
    writer = out.writeStream.outputMode("update").option("checkpointLocation", str(checkpoint))
    return writer.foreachBatch(to_noop).start()


def sql_aggregation(rows: DataFrame, checkpoint: Path | str, partitions: int = PARTITIONS) -> StreamingQuery:
    """Spark's own aggregation, compiled to Java."""
    rows.sparkSession.conf.set("spark.sql.shuffle.partitions", partitions)
    aggregated = rows.groupBy("user").agg(F.count("amount").alias("count"), F.sum("amount").alias("sum"))
    return start(aggregated, checkpoint)


def in_pandas(rows: DataFrame, checkpoint: Path | str) -> StreamingQuery:
    """Spark's applyInPandasWithState."""
    grouped = rows.select("user", "amount").groupBy("user")
    return start(grouped.applyInPandasWithState(pandas_sums, OUTPUT, STATE, "update", "NoTimeout"), checkpoint)


def transform(rows: DataFrame, checkpoint: Path | str) -> StreamingQuery:
    """Spark's transformWithState with Rows, which it has with RocksDB only."""
    spark = rows.sparkSession
    before = spark.conf.get(_PROVIDER)
    spark.conf.set(_PROVIDER, _ROCKSDB)  # a query keeps what it was started with
    try:
        grouped = rows.select("user", "amount").groupBy("user")
        return start(grouped.transformWithState(RowSums(), OUTPUT, "Update", "None"), checkpoint)
    finally:
        spark.conf.set(_PROVIDER, before)


def without_state(rows: DataFrame, checkpoint: Path | str) -> StreamingQuery:
    """The plan of a batch of ours, with no state anywhere: count and sum of the batch alone."""
    return _start_plan(rows, checkpoint, _sums_of_partition)


def dict_state(rows: DataFrame, checkpoint: Path | str) -> StreamingQuery:
    """The same plan with mapWithState's function on plain Python rows and a dict, which nothing keeps."""
    return _start_plan(rows, checkpoint, _row_sums_of_partition)


def _start_plan(rows: DataFrame, checkpoint: Path | str, task: Task) -> StreamingQuery:
    def run(batch: DataFrame, batch_id: int) -> None:
        batch.sparkSession.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", (1 << 31) - 1)  # as ours has it
        partition = F.pmod(F.hash("user"), F.lit(PARTITIONS))
        to_noop(batch.repartitionById(PARTITIONS, partition).mapInArrow(task, OUTPUT), batch_id)

    writer = rows.select("user", "amount").writeStream.option("checkpointLocation", str(checkpoint))
    return writer.foreachBatch(run).start()


def _sums_of_partition(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from sums(pa.Table.from_batches(batches)).to_batches()


_STATES: dict[str, tuple[int, int]] = {}


def _row_sums_of_partition(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    table = pa.Table.from_batches(batches)
    make = Row("user", "amount")
    by_user: dict[str, list[Row]] = {}
    for user, amount in zip(table["user"].to_pylist(), table["amount"].to_pylist(), strict=True):
        by_user.setdefault(user, []).append(make(user, amount))
    out: list[Row] = []
    for user, rows in by_user.items():
        out.extend(row_sums((user,), iter(rows), DictState(_STATES, user)))
    users, counts, totals = zip(*out, strict=True) if out else ((), (), ())
    yield pa.record_batch(
        [pa.array(users, pa.string()), pa.array(counts, pa.int64()), pa.array(totals, pa.int64())],
        ["user", "count", "sum"],
    )
