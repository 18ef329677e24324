"""applyInPandasWithState's engine on a real store."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql.streaming.state import GroupState

from hdfsstore.errors import UserFunctionError
from hdfsstore.spark.convert.pandas_types import PandasConf
from hdfsstore.spark.worker.engine import KeyedRows
from hdfsstore.spark.worker.pandas_engine import PandasEngine
from hdfsstore.spark.worker.partition_state import PartitionState
from tests.support.query_partition import QueryPartition, arrow_schema, call, output_of, struct

KEYS = struct(user="string")
STATE = struct(n="long", total="double")
TOTALS = struct(user="string", n="long", total="double")


def engine_of(func: Any, max_records: int = 10_000) -> PandasEngine:
    return PandasEngine(func, TOTALS, arrow_schema(TOTALS), STATE, PandasConf(max_records=max_records))


def run(engine: PandasEngine, state: PartitionState, *calls: KeyedRows) -> list[tuple[Any, ...]]:
    return [*output_of(engine.data(iter(calls), state)), *output_of(engine.expired(state))]


def events(*rows: tuple[str | None, float]) -> pa.Table:
    users, amounts = zip(*rows, strict=True)
    return pa.table({"user": pa.array(users, pa.string()), "amount": pa.array(amounts, pa.float64())})


def count_and_sum(key: tuple[Any, ...], frames: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    n, total = state.getOption or (0, 0.0)
    for frame in frames:
        n += len(frame)
        total += frame["amount"].sum()
    state.update((n, total))
    yield pd.DataFrame({"user": [key[0]], "n": [n], "total": [total]})


@pytest.mark.parametrize("is_sorted", [False, True])
@pytest.mark.parametrize("max_records", [1, 10_000])
def test_counts_and_sums_over_batches(tmp_path: Path, is_sorted: bool, max_records: int) -> None:
    partition = QueryPartition(tmp_path, KEYS, STATE)
    engine = engine_of(count_and_sum, max_records)
    table = events(("a", 1.0), ("b", 2.0), ("a", 3.0), (None, 4.0))
    table = pa.concat_tables([table, table])
    if is_sorted:
        table = table.sort_by("user")
    for batch in (1, 2):
        with partition.batch() as state:
            output = run(engine, state, call(table, "user", is_sorted=is_sorted))
        assert sorted(output, key=str) == [
            ("a", 4 * batch, 8.0 * batch),
            ("b", 2 * batch, 4.0 * batch),
            (None, 2 * batch, 8.0 * batch),
        ]
    assert partition.rows()["a"] == {"groupState": {"n": 8, "total": 16.0}}


@pytest.mark.thorough
def test_many_keys_take_several_slices(tmp_path: Path) -> None:
    partition = QueryPartition(tmp_path, KEYS, STATE)
    users = np.arange(36_000) % 12_000
    rows = pa.table({"user": pa.array(users).cast(pa.string()), "amount": np.ones(36_000)})
    for n in (3, 6):
        with partition.batch() as state:
            batches = list(engine_of(count_and_sum).data(iter([call(rows, "user")]), state))
        assert len(batches) == 4
        assert sorted(output_of(batches)) == sorted((str(user), n, float(n)) for user in range(12_000))


def test_rows_of_a_key_come_in_their_order_and_in_frames_of_a_limited_size(tmp_path: Path) -> None:
    seen: list[list[float]] = []

    def func(key: tuple[Any, ...], frames: Iterable[pd.DataFrame], _: GroupState) -> Iterator[pd.DataFrame]:
        for frame in frames:
            assert frame.index.equals(pd.RangeIndex(len(frame)))
            if key == ("a",):
                seen.append(frame["amount"].tolist())
        yield pd.DataFrame()

    rows = events(*((("a", "b")[i % 2], float(i)) for i in range(22)))
    partition = QueryPartition(tmp_path, KEYS, STATE)
    with partition.batch() as state:
        assert run(engine_of(func, 4), state, call(rows, "user")) == []
    assert seen == [[0, 2, 4, 6], [8, 10, 12, 14], [16, 18, 20]]


def test_a_large_key_streams(tmp_path: Path) -> None:
    taken = 0

    def func(key: tuple[Any, ...], frames: Iterable[pd.DataFrame], _: GroupState) -> Iterator[pd.DataFrame]:
        nonlocal taken
        for frame in frames:
            taken += len(frame)
            yield pd.DataFrame({"user": key[0], "n": 1, "total": frame["amount"]})

    rows = pa.table({"user": ["a"] * 100_000, "amount": np.arange(100_000.0)})
    partition = QueryPartition(tmp_path, KEYS, STATE)
    with partition.batch() as state:
        output = engine_of(func).data(iter([call(rows, "user")]), state)
        for i, batch in enumerate(output):
            assert batch.num_rows == 10_000
            assert taken == 10_000 * (i + 1)


def test_a_function_may_leave_its_frames_alone_and_give_a_list(tmp_path: Path) -> None:
    def func(key: tuple[Any, ...], *_: Any) -> list[pd.DataFrame]:
        if key[0] == "b":
            return []
        return [pd.DataFrame({"user": key, "n": i, "total": 0.0}) for i in range(2)]

    partition = QueryPartition(tmp_path, KEYS, STATE)
    with partition.batch() as state:
        output = run(engine_of(func), state, call(events(("a", 1.0), ("b", 1.0)), "user"))
    assert output == [("a", 0, 0.0), ("a", 1, 0.0)]
    assert partition.rows() == {}


def test_an_expired_key_comes_with_an_empty_frame_after_the_data(tmp_path: Path) -> None:
    def func(key: tuple[Any, ...], frames: Any, state: GroupState) -> Iterator[pd.DataFrame]:
        if state.hasTimedOut:
            (frame,) = frames
            assert len(frames) == 1
            assert frame.columns.tolist() == ["user", "amount"]
            assert set(frame.dtypes) == {np.dtype(object)}
            assert len(frame) == 0
            n, total = state.get
            state.remove()
            yield pd.DataFrame({"user": [f"{key[0]} is over"], "n": [n], "total": [total]})
        else:
            yield from count_and_sum(key, frames, state)
            state.setTimeoutDuration(1_000)

    partition = QueryPartition(tmp_path, KEYS, STATE, "ProcessingTimeTimeout")
    with partition.batch(processing_time_ms=1_000) as state:
        run(engine_of(func), state, call(events(("a", 1.0), ("b", 1.0), (None, 2.0)), "user"))
    with partition.batch(processing_time_ms=2_001) as state:
        state.no_rows = events(("a", 1.0)).slice(0, 0)
        output = run(engine_of(func), state, call(events(("b", 3.0)), "user"))
    assert output[0] == ("b", 2, 4.0)
    assert sorted(output[1:]) == [("None is over", 1, 2.0), ("a is over", 1, 1.0)]
    assert list(partition.rows()) == ["b"]


def raises(*_: Any) -> Iterator[pd.DataFrame]:
    raise KeyError("mine")


def raises_later(key: tuple[Any, ...], *_: Any) -> Iterator[pd.DataFrame]:
    yield pd.DataFrame({"user": key, "n": 1, "total": 1.0})
    raise KeyError("mine")


@pytest.mark.parametrize(
    ("func", "message"),
    [
        (raises, "KeyError: 'mine'"),
        (raises_later, "KeyError: 'mine'"),
        (lambda *_: pd.DataFrame(), "PySparkTypeError: .*iterable of pandas.DataFrame, but is DataFrame"),
        (lambda *_: None, "PySparkTypeError: .*iterable, but is NoneType"),
        (lambda *_: [5], "PySparkTypeError: .*iterator of pandas.DataFrame, but is iterator of int"),
        (lambda *_: [pd.DataFrame({"user": [1]})], "PySparkRuntimeError: .*Expected: 3 Actual: 1"),
        (lambda *_: [pd.DataFrame([["a", "b", 1.0]])], "PySparkValueError: .*'n' with type 'object'"),
        (lambda *_: sys.exit("that is all"), "SystemExit: that is all"),
    ],
)
def test_an_error_names_the_key_and_the_batch_and_leaves_the_state(tmp_path: Path, func: Any, message: str) -> None:
    def of_key(key: tuple[Any, ...], frames: Iterable[pd.DataFrame], state: GroupState) -> Any:
        return func(key, frames, state) if key == ("b",) else count_and_sum(key, frames, state)

    partition = QueryPartition(tmp_path, KEYS, STATE)
    with partition.batch() as state:
        run(engine_of(count_and_sum), state, call(events(("a", 1.0)), "user"))
    before = partition.rows()
    with (
        pytest.raises(UserFunctionError, match=rf"(?s)for the key \(user='b'\) in batch 1: {message}") as raised,
        partition.batch() as state,
    ):
        run(engine_of(of_key), state, call(events(("a", 1.0), ("b", 1.0), ("c", 1.0)), "user"))
    assert raised.value.__cause__ is not None
    assert partition.rows() == before


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_what_ends_a_process_is_an_error_of_the_function(tmp_path: Path, error: type[BaseException]) -> None:
    def raises(*_: Any) -> None:
        raise error("that is all")

    def raises_later(*_: Any) -> Any:
        yield pd.DataFrame({"user": ["a"], "n": [1], "total": [1.0]})
        raise error("that is all")

    said = rf"for the key \(user='a'\) in batch 0: {error.__name__}: that is all"
    for func in (raises, raises_later):
        with pytest.raises(UserFunctionError, match=said), QueryPartition(tmp_path, KEYS, STATE).batch() as state:
            run(engine_of(func), state, call(events(("a", 1.0)), "user"))


def test_whoever_reads_the_output_may_stop(tmp_path: Path) -> None:
    def many(key: tuple[Any, ...], *_: Any) -> Any:
        for _ in range(3):
            yield pd.DataFrame({"user": [key[0]] * 10_000, "n": 1, "total": 1.0})

    with QueryPartition(tmp_path, KEYS, STATE).batch() as state:
        output = engine_of(many).data(iter([call(events(("a", 1.0)), "user")]), state)
        assert next(output).num_rows == 10_000
        output.close()  # type: ignore[attr-defined]
