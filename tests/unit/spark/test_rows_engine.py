"""mapWithState's engine on a real store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.state import GroupState
from pyspark.sql.types import StructType

from hdfsstore.spark.engine import Call
from hdfsstore.spark.partition_state import PartitionState
from hdfsstore.spark.rows_engine import RowsEngine
from hdfsstore.spark.value_codec import VALUE_SCHEMA
from tests.unit.spark.partition import Partition, arrow_schema, call, output_of, struct

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


def run(engine: RowsEngine, state: PartitionState, *calls: Call) -> list[tuple[Any, ...]]:
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


@pytest.mark.parametrize("schema", [STATE, ANY])
@pytest.mark.parametrize("is_sorted", [False, True])
def test_counts_and_sums_over_batches(tmp_path: Path, schema: StructType | None, is_sorted: bool) -> None:
    partition = Partition(tmp_path, KEYS, schema or VALUE_SCHEMA)
    engine = engine_of(count_and_sum, state=schema)
    table = events(("a", 1.0), ("b", 2.0), ("a", 3.0), (None, 4.0))
    if is_sorted:
        table = table.sort_by("user")
    for batch in (1, 2):
        with partition.batch() as state:
            output = run(engine, state, call(table, "user", is_sorted=is_sorted))
        assert sorted(output, key=str) == [
            ("a", 2 * batch, 4.0 * batch),
            ("b", batch, 2.0 * batch),
            (None, batch, 4.0 * batch),
        ]
