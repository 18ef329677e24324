"""mapWithState's task without Spark: what each stage costs, and the user's function alone.

A partition of the batch that the streaming benchmarks run: 50,000 rows over 25,000 keys, each of which has a state.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Row
from pytest_benchmark.fixture import BenchmarkFixture

from bench.report import Report
from bench.side_by_side import side_by_side
from hdfsstore.spark.convert.arrow_to_rows import RowReader
from hdfsstore.spark.convert.rows_to_arrow import RowWriter
from hdfsstore.spark.worker.group_state import KeyState, key_state_class
from hdfsstore.spark.worker.key_groups import group
from hdfsstore.spark.worker.key_states import ColumnsCodec, KeyStates
from hdfsstore.spark.worker.partition_state import PartitionState
from hdfsstore.spark.worker.rows_engine import PART_ROWS, RowsEngine
from tests.support.query_partition import QueryPartition, arrow_schema, call, struct
from tests.support.rows_query import count_and_sum

NUM_KEYS = 25_000
ROWS_PER_KEY = 2
GOAL_SECONDS = 0.25

ROWS = struct(user="string", amount="double", time="timestamp")
KEYS = struct(user="string")
OUTPUT = struct(user="string", n="long", total="double")
STATE = struct(n="long", total="double")


def events(num_keys: int) -> pa.Table:
    """Each key's rows anywhere among the others', in batches of 10,000 as Spark gives them."""
    chance = np.random.default_rng(7)
    users = chance.permutation(np.repeat(np.arange(num_keys), ROWS_PER_KEY))
    columns = {
        "user": pa.array([f"user-{user:08d}" for user in users]),
        "amount": pa.array(chance.random(len(users))),
        "time": pa.array(chance.integers(1_600_000_000, 1_700_000_000, len(users)) * 1_000_000).cast(
            pa.timestamp("us", "UTC")
        ),
    }
    return pa.Table.from_batches(pa.table(columns).to_batches(max_chunksize=10_000))


class Stages:
    """The stages of a task, one by one, on one of the parts that it works in."""

    def __init__(self, table: pa.Table, state: PartitionState) -> None:
        self._call = call(table, "user")
        self._state = state
        self._reader, self._key_reader = RowReader(ROWS), RowReader(KEYS)
        self._states = KeyStates(state, ColumnsCodec(STATE, state.state_type, state.shown))
        self._writer = RowWriter(OUTPUT, list(arrow_schema(OUTPUT)), state.shown)
        self.group()
        self.rows()
        self.read()
        self.run()

    def group(self) -> None:
        key_rows = self._state.encode_keys(self._call.keys)
        self._groups = group(key_rows, is_sorted=False)
        self._key_rows = key_rows.take(self._groups.first)

    def rows(self) -> None:
        table = self._groups.rows(self._call.rows.combine_chunks(), 0, self._call.rows.num_rows)
        rows = self._reader.rows(table)
        starts = self._groups.starts.tolist()
        self._rows = [rows[start:end] for start, end in pairwise(starts)]
        self._keys = list(self._key_reader.tuples(self._call.keys.take(self._groups.first)))

    def read(self) -> None:
        self._of_keys = [state for part in self._state.read(self._key_rows) for state in self._states.read(*part)]

    def run(self) -> None:
        self._given = [
            row
            for key, rows, state in zip(self._keys, self._rows, self._of_keys, strict=True)
            for row in count_and_sum(key, iter(rows), state)
        ]

    def write(self) -> None:
        for index, state in enumerate(self._of_keys):
            self._states.keep(index, state)
        self._states.write()

    def output(self) -> None:
        self._writer.arrays([self._writer.accept(row) for row in self._given])


def prototype(table: pa.Table, held: dict[Any, tuple[Any, ...]], state_of: type[KeyState]) -> pa.Table:
    """The function with a dict as state, and nothing else."""
    groups: dict[Any, list[Row]] = {}
    for user, amount, time in zip(*(column.to_pylist() for column in table.columns), strict=True):
        groups.setdefault((user,), []).append(Row(user=user, amount=amount, time=time))
    given: list[tuple[Any, ...]] = []
    for key, rows in groups.items():
        state = state_of(held.get(key))
        given += count_and_sum(key, iter(rows), state)
        held[key] = state.get
    return pa.table([pa.array(column) for column in zip(*given, strict=True)], schema=arrow_schema(OUTPUT))


def test_what_a_task_of_map_with_state_costs(
    benchmark: BenchmarkFixture, report: Report, smoke: bool, rounds: int, tmp_path: Path
) -> None:
    num_keys = NUM_KEYS // 100 if smoke else NUM_KEYS
    table = events(num_keys)
    engine = RowsEngine(count_and_sum, ROWS, KEYS, OUTPUT, arrow_schema(OUTPUT), STATE)
    partition = QueryPartition(tmp_path, KEYS, STATE)
    with partition.batch() as state:
        assert sum(batch.num_rows for batch in engine.data(iter([call(table, "user")]), state)) == num_keys
    held: dict[Any, tuple[Any, ...]] = {}
    state_of = key_state_class("NoTimeout", 0, -1)
    with partition.batch() as state:
        stages = Stages(events(PART_ROWS // ROWS_PER_KEY), state)
        parts = range(max(table.num_rows // PART_ROWS, 1))
        task = "mapWithState's task"
        work: dict[str, Callable[[], object]] = {
            task: lambda: list(engine.data(iter([call(table, "user")]), state)),
            "with a dict as state": lambda: prototype(table, held, state_of),
            "keys encoded and grouped": lambda: [stages.group() for _ in parts],
            "Rows and keys made": lambda: [stages.rows() for _ in parts],
            "states looked up and decoded": lambda: [stages.read() for _ in parts],
            "the function": lambda: [stages.run() for _ in parts],
            "states encoded and put": lambda: [stages.write() for _ in parts],
            "output to Arrow": lambda: [stages.output() for _ in parts],
        }
        seconds = side_by_side(work, rounds)
        benchmark.pedantic(work[task], rounds=rounds)
    what = f"{num_keys * ROWS_PER_KEY:,} rows over {num_keys:,} keys: "
    for name, taken in seconds.items():
        goal = f"goal: {GOAL_SECONDS} s" if name == task else ""
        report.add(f"{what}{name}", f"{taken * 1e3:.1f} ms, {taken / num_keys * 1e6:.2f} us a key", goal)
