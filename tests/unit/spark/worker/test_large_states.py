"""States that take 2 GiB together, more than one Arrow array holds, though none of them is large."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from hdfsstore.spark.base_ids import BaseIds
from hdfsstore.spark.convert.pandas_types import PandasConf
from hdfsstore.spark.spec import BatchSpec, Columns
from hdfsstore.spark.worker import partition_state
from hdfsstore.spark.worker.arrow_engine import ArrowEngine
from hdfsstore.spark.worker.engine import Engine
from hdfsstore.spark.worker.pandas_engine import PandasEngine
from hdfsstore.spark.worker.partition_state import PartitionState
from hdfsstore.state.rows import BinaryRows
from tests.support.query_partition import QueryPartition, arrow_schema, call, output_of, struct
from tests.support.rows_query import engine_of

ROWS = KEYS = struct(k="long")
STATE = struct(data="binary")
OUTPUT = struct(k="long", size="long")
MIB = 1 << 20
NUM_KEYS = 2_050


class SparseStore:
    """A store with a state of one MiB for each key. Only pages that are not all zeros take memory."""

    def __init__(self, partition: PartitionState) -> None:
        [row] = encoded(partition, [bytes(MIB)]).to_pylist()
        content = mmap.mmap(-1, NUM_KEYS * len(row))
        for i in range(NUM_KEYS):
            content[i * len(row) : i * len(row) + 64] = row[:64]
        assert not any(row[64:])
        offsets = pa.py_buffer(np.arange(NUM_KEYS + 1, dtype=np.int64) * len(row))
        self._values = pa.Array.from_buffers(pa.large_binary(), NUM_KEYS, [None, offsets, pa.py_buffer(content)])
        self._keys = partition.encode_keys(keys_of(range(NUM_KEYS)))

    def get_many(self, keys: BinaryRows) -> BinaryRows:
        return self._values.slice(0, len(keys))

    def expired(self, end: int, max_rows: int) -> Iterator[tuple[BinaryRows, BinaryRows]]:
        assert (end, len(self._keys) <= max_rows) == (1_001, True)
        yield self._keys, self._values


def keys_of(numbers: Any) -> Any:
    return pa.StructArray.from_arrays([pa.array(numbers, pa.int64())], ["k"])


def encoded(state: PartitionState, values: list[bytes]) -> Any:
    """The value rows of such states, without a timeout."""
    states = pa.StructArray.from_arrays([pa.array(values, pa.binary())], fields=list(state.state_type))
    rows = pa.StructArray.from_arrays(
        [states, pa.array([-1] * len(values), pa.int64())], ["groupState", "timeoutTimestamp"]
    )
    return state._values.encode_structs(rows)


def size_of(state: Any) -> int:
    return len(state.get[0]) if state.exists else -1


def rows_func(key: tuple[Any, ...], _: Any, state: Any) -> Iterator[tuple[int, int]]:
    yield key[0], size_of(state)


def pandas_func(key: tuple[Any, ...], _: Any, state: Any) -> Iterator[pd.DataFrame]:
    yield pd.DataFrame({"k": [key[0]], "size": [size_of(state)]})


def arrow_func(_: pa.Table, state: Any) -> pa.Table:
    return state.expired().append_column("size", pa.array([MIB] * state.expired().num_rows, pa.int64()))


def rows_engine() -> Engine:
    return engine_of(rows_func, ROWS, KEYS, OUTPUT, STATE)


def pandas_engine() -> Engine:
    return PandasEngine(pandas_func, OUTPUT, arrow_schema(OUTPUT), STATE, PandasConf())


def arrow_engine() -> Engine:
    return ArrowEngine(arrow_func, Columns(("k",), ("k",), (0,)), arrow_schema(OUTPUT))


def output_of_data(engine: Engine, state: PartitionState) -> list[tuple[Any, ...]]:
    rows = pa.table({"k": pa.array(range(NUM_KEYS), pa.int64())})
    return output_of(engine.data(iter([call(rows, "k")]), state))


def output_of_expired(engine: Engine, state: PartitionState) -> list[tuple[Any, ...]]:
    state.no_rows = pa.table({"k": pa.array([], pa.int64())})
    return output_of(engine.expired(state))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("engine", "output"),
    [
        (rows_engine, output_of_data),
        (rows_engine, output_of_expired),
        (pandas_engine, output_of_data),
        (arrow_engine, output_of_expired),
    ],
)
def test_states_of_2_gib_together_are_read(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    engine: Callable[[], Engine],
    output: Callable[[Engine, PartitionState], list[tuple[Any, ...]]],
) -> None:
    monkeypatch.setattr(partition_state, "PART_BYTES", 16 * MIB)  # takes less memory
    query = QueryPartition(tmp_path, KEYS, STATE, "ProcessingTimeTimeout").query
    batch = BatchSpec(0, BaseIds((None,)), -1, 1_001, -1, is_sorted=False, has_markers=True)
    of_row: Any = None
    store = SparseStore(PartitionState(query, batch, 0, of_row, pa.table({})))
    state = PartitionState(query, batch, 0, store, pa.table({}))  # type: ignore[arg-type]
    assert output(engine(), state) == [(key, MIB) for key in range(NUM_KEYS)]


def test_states_are_read_in_parts_of_so_many_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    partition = QueryPartition(tmp_path, KEYS, STATE)
    sizes = [10, 0, 5_000, 10, 10, 800, 900]
    keys = keys_of(range(len(sizes) + 1))  # the last one has no state
    with partition.batch() as state:
        states = pa.array([{"data": bytes(size)} for size in sizes], state.state_type)
        state.put(state.encode_keys(keys[:-1]), states)
    with partition.batch() as state:
        key_rows = state.encode_keys(keys)
        [(all_keys, whole)] = state.read(key_rows)
        assert all_keys is key_rows  # the store recognizes keys that it has read by the array
        monkeypatch.setattr(partition_state, "PART_BYTES", 1_000)
        parts = list(state.read(key_rows))
        assert [len(part) for part, _ in parts] == [2, 1, 3, 2]
        assert pa.concat_arrays([part for part, _ in parts]) == key_rows
        assert pa.concat_arrays([of_part for _, of_part in parts]) == whole
        assert list(state.read(key_rows[:0])) == []


@pytest.mark.parametrize("engine", [rows_engine, pandas_engine])
def test_functions_are_given_each_key_with_its_state_in_whatever_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: Callable[[], Engine]
) -> None:
    monkeypatch.setattr(partition_state, "PART_BYTES", 1_000)
    partition = QueryPartition(tmp_path, KEYS, STATE)
    with partition.batch() as state:
        numbers = range(0, 100, 2)
        states = pa.array([{"data": bytes(10 * i)} for i in numbers], state.state_type)
        state.put(state.encode_keys(keys_of(numbers)), states)
    rows = pa.table({"k": pa.array([*range(100), *range(100)], pa.int64())})
    with partition.batch() as state:
        output = output_of(engine().data(iter([call(rows, "k")]), state))
    assert output == [(i, -1 if i % 2 else 10 * i) for i in range(100)]
