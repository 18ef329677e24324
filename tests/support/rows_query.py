"""A query of mapWithState on a partition, for tests of its engine: counts and sums by user."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.state import GroupState
from pyspark.sql.types import StructType

from hdfsstore.spark.worker.engine import KeyedRows
from hdfsstore.spark.worker.partition_state import PartitionState
from hdfsstore.spark.worker.rows_engine import RowsEngine
from tests.support.query_partition import arrow_schema, output_of, struct

ROWS = struct(user="string", amount="double")
KEYS = struct(user="string")
TOTALS = struct(user="string", n="long", total="double")
STATE = struct(n="long", total="double")
ANY = None


def engine_of(
    func: Any,
    rows: StructType = ROWS,
    keys: StructType = KEYS,
    output: StructType = TOTALS,
    state: StructType | None = STATE,
) -> RowsEngine:
    return RowsEngine(func, rows, keys, output, arrow_schema(output), state)


def run(engine: RowsEngine, state: PartitionState, *calls: KeyedRows) -> list[tuple[Any, ...]]:
    return [*output_of(engine.data(iter(calls), state)), *output_of(engine.expired(state))]


def events(*rows: tuple[str | None, float]) -> pa.Table:
    users, amounts = zip(*rows, strict=True)
    return pa.table({"user": pa.array(users, pa.string()), "amount": pa.array(amounts, pa.float64())})


def count_and_sum(key: tuple[Any, ...], rows: Iterator[Row], state: GroupState) -> Iterator[tuple[Any, ...]]:
    n, total = state.getOption or (0, 0.0)
    for row in rows:
        n += 1
        total += row.amount
    state.update((n, total))
    yield key[0], n, total
