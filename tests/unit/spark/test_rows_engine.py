"""mapWithState's engine on a real store."""

from __future__ import annotations

import datetime
import random
import sys
import traceback
from collections.abc import Callable, Iterator
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.state import GroupState
from pyspark.sql.types import (
    ArrayType,
    DecimalType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from hdfsstore.errors import SchemaMismatchError, StateStoreError, UserFunctionError
from hdfsstore.spark.engine import Call
from hdfsstore.spark.key_calls import PART_ROWS
from hdfsstore.spark.partition_state import PartitionState
from hdfsstore.spark.rows_engine import WINDOW_ROWS, RowsEngine
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


def test_rows_and_keys_as_the_function_gets_them(tmp_path: Path) -> None:
    seen = []

    def look(key: tuple[Any, ...], rows: Iterator[Row], state: GroupState) -> None:
        seen.append((key, [(row.asDict(), row.amount, row["user"]) for row in rows], state.exists, state.hasTimedOut))

    partition = Partition(tmp_path, KEYS, STATE)
    with partition.batch() as state:
        assert run(engine_of(look), state, call(events(("b", 1.0), ("a", 2.0), ("b", 3.0)), "user")) == []
    assert seen == [
        (("b",), [({"user": "b", "amount": a}, a, "b") for a in (1.0, 3.0)], False, False),
        (("a",), [({"user": "a", "amount": 2.0}, 2.0, "a")], False, False),
    ]
    assert partition.rows() == {}


@pytest.mark.parametrize(
    "result",
    [
        [("a", 1, 0.5)],
        (("a", 1, 0.5),),
        [Row("a", 1, 0.5)],
        [Row(user="a", n=1, total=0.5)],
        [["a", 1, 0.5]],
        [{"total": 0.5, "n": 1, "user": "a"}],
        iter([("a", 1, 0.5)]),
    ],
)
def test_rows_may_be_given_in_many_ways(tmp_path: Path, result: Any) -> None:
    with Partition(tmp_path, KEYS, STATE).batch() as state:
        engine = engine_of(lambda *_: result)
        assert run(engine, state, call(events(("a", 1.0)), "user")) == [("a", 1, 0.5)]


@pytest.mark.parametrize("result", [None, [], (), iter(())])
def test_no_rows_may_be_given(tmp_path: Path, result: Any) -> None:
    with Partition(tmp_path, KEYS, STATE).batch() as state:
        assert run(engine_of(lambda *_: result), state, call(events(("a", 1.0)), "user")) == []


def test_what_is_filled_anew_for_the_next_row_is_kept_as_it_was_given(tmp_path: Path) -> None:
    lists = StructType([StructField("items", ArrayType(LongType())), StructField("raw", StringType())])
    items: list[int] = []
    row: list[Any] = [items, "x"]

    def one_list(key: tuple[Any, ...], _rows: Iterator[Row], state: GroupState) -> Iterator[list[Any]]:
        for _ in range(3):
            items.append(len(items))
            state.update((items, key[0]))
            yield row
        if key[0] == "b":
            items.clear()

    partition = Partition(tmp_path, KEYS, lists)
    with partition.batch() as state:
        engine = engine_of(one_list, output=lists, state=lists)
        output = run(engine, state, call(events(("a", 1.0), ("b", 1.0)), "user"))
    assert output == [(list(range(n)), "x") for n in range(1, 7)]
    assert [value["groupState"]["items"] for value in partition.rows().values()] == [[0, 1, 2], []]


def test_composite_and_null_and_nested_keys(tmp_path: Path) -> None:
    place = struct(city="string", zip="integer")
    rows = struct(place=place, day="date", n="long")
    table = pa.table(
        {
            "place": pa.array(
                [{"city": "x", "zip": 1}, None, {"city": "x", "zip": 1}, {"city": None, "zip": 1}],
                pa.struct([("city", pa.string()), ("zip", pa.int32())]),
            ),
            "day": pa.array([datetime.date(2024, 2, 29), None, datetime.date(2024, 2, 29), None], pa.date32()),
            "n": pa.array([1, 2, 3, 4], pa.int64()),
        }
    )
    seen = {}

    def look(key: tuple[Any, ...], rows: Iterator[Row], _state: GroupState) -> None:
        seen[key] = [row.n for row in rows]

    keys = StructType([rows["place"], rows["day"]])
    with Partition(tmp_path, keys, STATE).batch() as state:
        run(engine_of(look, rows=rows, keys=keys), state, call(table, "place", "day"))
    day = datetime.date(2024, 2, 29)
    assert seen == {(Row(city="x", zip=1), day): [1, 3], (None, None): [2], (Row(city=None, zip=1), None): [4]}
    assert next(iter(seen))[0].city == "x"


def test_without_key_columns_there_is_one_key(tmp_path: Path) -> None:
    no_keys = StructType()
    table = events(("a", 1.0), ("b", 2.0))
    keys = pa.Array.from_buffers(pa.struct([]), 2, [None])
    with Partition(tmp_path, no_keys, STATE).batch() as state:
        engine = engine_of(lambda key, rows, _: [(str(key), len(list(rows)), 0.0)], keys=no_keys)
        assert run(engine, state, Call(table, keys, False)) == [("()", 2, 0.0)]


def test_timeouts_as_spark_has_them(tmp_path: Path) -> None:
    """Removed, kept, set anew, or left alone, in which case they come again."""
    partition = Partition(tmp_path, KEYS, STATE, "ProcessingTimeTimeout")
    seen: list[tuple[Any, ...]] = []

    def timed(key: tuple[Any, ...], rows: Iterator[Row], state: GroupState) -> None:
        seen.append((key[0], [row.amount for row in rows], state.getOption, state.hasTimedOut))
        if not state.hasTimedOut:
            if key[0] != "stateless":
                state.update((1, 2.0))
            state.setTimeoutDuration(500)
        elif key[0] == "removed":
            state.remove()
        elif key[0] == "kept":
            state.update((2, 3.0))
        elif key[0] == "again":
            state.setTimeoutDuration(1_000)
        elif key[0] == "removed, with a timeout":
            state.remove()
            state.setTimeoutDuration(1_000)

    names = ["removed", "kept", "again", "removed, with a timeout", "left alone", "stateless"]
    engine = engine_of(timed)
    with partition.batch(processing_time_ms=1_000) as state:
        run(engine, state, call(events(*((name, 1.0) for name in names)), "user"))
    first = {"groupState": {"n": 1, "total": 2.0}, "timeoutTimestamp": 1_500}
    assert partition.rows() == dict.fromkeys(names, first) | {"stateless": {**first, "groupState": None}}
    seen.clear()

    with partition.batch(processing_time_ms=1_500) as state:
        run(engine, state)
    assert seen == []  # a timeout is over after its time

    with partition.batch(processing_time_ms=1_501) as state:
        run(engine, state)
    assert sorted(seen) == sorted((name, [], None if name == "stateless" else (1, 2.0), True) for name in names)
    assert partition.rows() == {
        "kept": {"groupState": {"n": 2, "total": 3.0}, "timeoutTimestamp": -1},
        "again": {**first, "timeoutTimestamp": 2_501},
        "removed, with a timeout": {"groupState": None, "timeoutTimestamp": 2_501},
        "left alone": first,
        "stateless": {**first, "groupState": None},
    }
    seen.clear()

    with partition.batch(processing_time_ms=2_000) as state:
        run(engine, state, call(events(("left alone", 7.0)), "user"))
    assert sorted(seen) == [("left alone", [7.0], (1, 2.0), False), ("stateless", [], None, True)]
    assert partition.rows()["left alone"] == {**first, "timeoutTimestamp": 2_500}


def test_event_time_timeouts(tmp_path: Path) -> None:
    partition = Partition(tmp_path, KEYS, STATE, "EventTimeTimeout")

    def timed(key: tuple[Any, ...], _rows: Iterator[Row], state: GroupState) -> Iterator[tuple[Any, ...]]:
        if state.hasTimedOut:
            yield key[0], -1, 0.0
            state.remove()
        else:
            yield key[0], state.getCurrentWatermarkMs(), 0.0
            with pytest.raises(ValueError, match="watermark"):
                state.setTimeoutTimestamp(4_999)
            state.setTimeoutTimestamp(datetime.datetime(1970, 1, 1, 0, 0, 6, 999_999, datetime.UTC))  # type: ignore[arg-type]

    with partition.batch(watermark_ms=5_000) as state:
        assert run(engine_of(timed), state, call(events(("a", 1.0)), "user")) == [("a", 5_000, 0.0)]
    assert partition.rows()["a"]["timeoutTimestamp"] == 6_999
    with partition.batch(watermark_ms=7_000) as state:
        assert run(engine_of(timed), state) == [("a", -1, 0.0)]
    assert partition.rows() == {}


def test_a_key_with_many_rows_is_read_and_answered_bit_by_bit(tmp_path: Path) -> None:
    num_rows = 12 * PART_ROWS + 5
    order = pa.array([i % 3 for i in range(3 * num_rows)], pa.int8())
    table = pa.table(
        {"user": pa.array(["a", "b", "c"]).take(order), "amount": pa.array(range(3 * num_rows), pa.float64())}
    )
    given = []

    def echo(key: tuple[Any, ...], rows: Iterator[Row], _state: GroupState) -> Iterator[tuple[Any, ...]]:
        if key[0] == "b":  # of the other keys nothing is read, or a part
            for row in rows:
                given.append(row.amount)
                yield key[0], None, row.amount
        elif key[0] == "c":
            yield from ((key[0], None, row.amount) for row in islice(rows, 2))

    with Partition(tmp_path, KEYS, STATE).batch() as state:
        alive = 0
        output = []
        for batch in engine_of(echo).data(iter([call(table, "user")]), state):
            output += batch["total"].to_pylist()
            alive = max(alive, len(given) - len(output))
    assert output == [*map(float, range(1, 3 * num_rows, 3)), 2.0, 5.0]
    assert alive <= 2 * PART_ROWS


def test_many_keys_in_several_windows_and_calls(tmp_path: Path) -> None:
    num_keys = WINDOW_ROWS + 2_345
    users = [f"user-{i}" for i in range(num_keys)]
    tables = [events(*((user, 1.0) for user in part)) for part in (users[:-3], users[-3:])]
    partition = Partition(tmp_path, KEYS, STATE)
    for batch in (1, 2):
        with partition.batch() as state:
            engine = engine_of(count_and_sum)
            batches = list(engine.data(iter([call(table, "user") for table in tables]), state))
        assert [batch.num_rows for batch in batches] == [WINDOW_ROWS, 2_345]
        assert output_of(batches) == [(user, batch, float(batch)) for user in users]
    assert len(partition.rows()) == num_keys


def failure_of(tmp_path: Path, func: Callable[..., Any], error: type[Exception], **schemas: StructType | None) -> str:
    """What the engine says of a function that fails for one of many keys, in the second of two batches."""
    state_schema = schemas.get("state", STATE)
    partition = Partition(tmp_path, KEYS, state_schema or VALUE_SCHEMA)
    table = events(*((f"user-{i}", float(i)) for i in range(3 * PART_ROWS)))
    with partition.batch() as state:
        run(engine_of(lambda *_: None, **schemas), state, call(table, "user"))

    def fails_once(key: tuple[Any, ...], _rows: Iterator[Row], state: GroupState) -> Any:
        return func(state) if key[0] == "user-1234" else [("fine", 1, 1.0)]

    with pytest.raises(error) as caught, partition.batch() as state:
        run(engine_of(fails_once, **schemas), state, call(table, "user"))
    assert partition.rows() == {}
    return "".join(traceback.format_exception(caught.value))


def test_an_error_of_the_function_names_key_and_batch_and_shows_its_traceback(tmp_path: Path) -> None:
    def at_once(_state: GroupState) -> Any:
        return 1 / 0

    def later(_state: GroupState) -> Any:
        yield "a", 1, 1.0
        raise KeyError("so late")

    said = failure_of(tmp_path / "1", at_once, UserFunctionError)
    assert "for the key (user='user-1234') in batch 1: ZeroDivisionError: division by zero" in said
    assert "return 1 / 0" in said
    said = failure_of(tmp_path / "2", later, UserFunctionError)
    assert "(user='user-1234') in batch 1: KeyError: 'so late'" in said
    assert 'raise KeyError("so late")' in said


def test_an_exit_is_an_error_of_the_function_and_an_interrupt_is_none(tmp_path: Path) -> None:
    def leaves(_state: GroupState) -> Any:
        yield "a", 1, 1.0
        sys.exit("that is all")

    said = failure_of(tmp_path / "1", leaves, UserFunctionError)
    assert "for the key (user='user-1234') in batch 1: SystemExit: that is all" in said
    with pytest.raises(KeyboardInterrupt), Partition(tmp_path / "2", KEYS, STATE).batch() as state:
        run(engine_of(interrupted), state, call(events(("a", 1.0)), "user"))


def interrupted(*_: Any) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("result", "part"),
    [
        ([("a", "many", 1.0)], "'n' is of type bigint, which 'many' (str) does not fit: an integer is needed"),
        ([("a", float("nan"), 1.0)], "'n' is of type bigint, which nan (float) does not fit: an integer is needed"),
        ([("a", 1.5, 1.0)], "'n' is of type bigint, which 1.5 (float) does not fit"),
        ([("a", 2**63, 1.0)], "'n' is of type bigint"),
        ([("a", 1)], "it has 2 values, and the schema has 3 columns (user, n, total): ('a', 1)"),
        ([{"user": "a", "many": 1}], "it has keys that are no columns of the schema: 'many'"),
        (("a", 1, 1.0), "a row is a Row, tuple, list or dict, not str: 'a'"),
        (Row(1, 2, 3), "a row is a Row, tuple, list or dict, not int: 1"),
    ],
)
def test_a_row_that_does_not_fit_names_key_and_column(tmp_path: Path, result: Any, part: str) -> None:
    said = failure_of(tmp_path, lambda _: result, SchemaMismatchError)
    assert "for the key (user='user-1234') in batch 1 that does not fit" in said
    assert part in said


def test_a_null_in_a_column_without_nulls_names_key_and_column(tmp_path: Path) -> None:
    output = StructType([StructField("user", StringType()), StructField("n", LongType(), False), TOTALS["total"]])
    said = failure_of(tmp_path, lambda _: [("a", None, 1.0)], SchemaMismatchError, output=output)
    assert "for the key (user='user-1234') in batch 1" in said
    assert "the column 'n' is not nullable, and its value is None" in said


def test_a_result_that_is_no_iterable_is_the_functions_error(tmp_path: Path) -> None:
    assert "TypeError: 'int' object is not iterable" in failure_of(tmp_path, lambda _: 5, UserFunctionError)


@pytest.mark.parametrize(
    ("value", "part"),
    [
        (("many", 1.0), "'n' is of type bigint, which 'many' (str) does not fit"),
        ((1,), "it has 1 values, and the schema has 2 columns (n, total): (1,)"),
    ],
)
def test_a_state_that_does_not_fit_names_key_and_column(tmp_path: Path, value: Any, part: str) -> None:
    said = failure_of(tmp_path, lambda state: state.update(value), SchemaMismatchError)
    assert "the state of the key (user='user-1234') in batch 1 cannot be kept: " in said
    assert part in said


def test_a_value_that_msgpack_cannot_keep_names_the_key(tmp_path: Path) -> None:
    said = failure_of(tmp_path, lambda state: state.update({1: Decimal(1)}), SchemaMismatchError, state=ANY)
    assert "the state of the key (user='user-1234') in batch 1 cannot be kept: msgpack cannot keep" in said


def test_states_of_every_shape_without_a_schema(tmp_path: Path) -> None:
    """Values come back as they were, but for tuples, which are lists then."""
    zoned = datetime.datetime(2024, 2, 29, 12, 30, 1, 234_567, datetime.UTC)
    values = [0, "", b"\xff", [], {}, 1.5, False, {1: [None, {"a": b"x"}]}, [2**64 - 1, -(2**63)], zoned, (1, (2,))]
    seen = []

    def remember(_key: tuple[Any, ...], rows: Iterator[Row], state: GroupState) -> None:
        if state.exists:
            seen.append((state.get, state.getOption))
        else:
            state.update(values[int(next(rows).amount)])

    partition = Partition(tmp_path, KEYS, VALUE_SCHEMA)
    table = events(*((f"user-{i}", float(i)) for i in range(len(values))))
    for _ in range(2):
        with partition.batch() as state:
            run(engine_of(remember, state=ANY), state, call(table, "user"))
    expected = [*values[:-1], [1, [2]]]
    assert seen == [(value, value) for value in expected]


def test_states_of_columns_that_are_nested(tmp_path: Path) -> None:
    inner = struct(day="date", price=DecimalType(10, 2))
    schema = struct(items=ArrayType(inner), counts=MapType(StringType(), LongType()), at="timestamp", raw="binary")
    day = datetime.date(2024, 2, 29)
    value = (
        [Row(day=day, price=Decimal("1.25")), None],
        {"a": 1, "b": None},
        datetime.datetime(2024, 2, 29, 1, 2, 3, 4),
        b"\x00\xff",
    )
    seen = []

    def remember(key: tuple[Any, ...], _rows: Iterator[Row], state: GroupState) -> None:
        seen.append(state.getOption)
        state.update(value if key[0] == "a" else (None, None, None, None))

    partition = Partition(tmp_path, KEYS, schema)
    for _ in range(2):
        with partition.batch() as state:
            run(engine_of(remember, state=schema), state, call(events(("a", 1.0), ("b", 1.0)), "user"))
    assert seen == [None, None, value, (None, None, None, None)]
    assert seen[2][0][0].price == Decimal("1.25")


def test_a_state_without_columns_is_kept_and_removed(tmp_path: Path) -> None:
    """It says that a key was seen, and is no state without a schema."""
    seen = []

    def toggle(key: tuple[Any, ...], _rows: Iterator[Row], state: GroupState) -> None:
        seen.append((key[0], state.exists, state.getOption))
        if state.exists:
            state.remove()
        else:
            state.update(())

    partition = Partition(tmp_path, KEYS, StructType())
    engine = engine_of(toggle, state=StructType())
    for users in (("a", "b"), ("b",)):
        with partition.batch() as state:
            run(engine, state, call(events(*((user, 1.0) for user in users)), "user"))
    assert seen == [("a", False, None), ("b", False, None), ("b", True, ())]
    assert partition.rows() == {"a": {"groupState": {}}}


def test_times_of_pandas_are_kept_in_columns_as_local_ones(tmp_path: Path) -> None:
    schema = struct(at="timestamp", days=ArrayType(TimestampType()), zoned="timestamp")
    naive, zoned = pd.Timestamp("2024-02-29 12:30:00.123456"), pd.Timestamp("2024-02-29 12:30", tz="Asia/Tokyo")
    seen = []

    def remember(key: tuple[Any, ...], _rows: Iterator[Row], state: GroupState) -> None:
        seen.append(state.getOption)
        state.update((naive, [naive, None], zoned if key[0] == "a" else pd.NaT))

    partition = Partition(tmp_path, KEYS, schema)
    for _ in range(2):
        with partition.batch() as state:
            run(engine_of(remember, state=schema), state, call(events(("a", 1.0)), "user"))
    local = datetime.datetime(2024, 2, 29, 12, 30, 0, 123456)
    assert seen == [None, (local, [local, None], zoned.to_pydatetime().astimezone().replace(tzinfo=None))]
    wrong = "'zoned' is of type timestamp, .*NaT is no time"
    with pytest.raises(SchemaMismatchError, match=wrong), partition.batch() as state:
        run(engine_of(remember, state=schema), state, call(events(("b", 1.0)), "user"))


def test_values_of_numpy_and_pandas_are_kept_as_pythons(tmp_path: Path) -> None:
    zoned = pd.Timestamp("2024-02-29 12:30", tz="UTC")
    given = {"a": np.int64(5), "b": [np.float32(0.5), np.bool_(True)], "c": zoned}
    seen = []

    def remember(_key: tuple[Any, ...], _rows: Iterator[Row], state: GroupState) -> None:
        seen.append(state.getOption)
        state.update(given)

    partition = Partition(tmp_path, KEYS, VALUE_SCHEMA)
    for _ in range(2):
        with partition.batch() as state:
            run(engine_of(remember, state=ANY), state, call(events(("a", 1.0)), "user"))
    assert repr(seen[1]) == repr({"a": 5, "b": [0.5, True], "c": zoned.to_pydatetime().astimezone(datetime.UTC)})


def test_without_msgpack_a_schema_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "msgpack", None)
    with pytest.raises(StateStoreError, match=r"kept with msgpack, which is not installed\. pip install"):
        engine_of(count_and_sum, state=ANY)
    engine_of(count_and_sum)


CHANGES = ("update", "remove", "timeout")


@pytest.mark.parametrize("seed", range(20))
def test_random_changes_are_written_as_spark_writes_them(tmp_path: Path, seed: int) -> None:
    """Beside a model: what a key holds is a state and a timeout, and what is called is data first, then what is due."""
    chance = random.Random(seed)
    partition = Partition(tmp_path, KEYS, STATE, "ProcessingTimeTimeout")
    held: dict[str, tuple[tuple[int, float] | None, int]] = {}
    now = 1_000
    for batch in range(8):
        now += chance.randrange(1, 300)
        plans = {
            (f"user-{i}", timed_out): [
                (chance.choice(CHANGES), chance.randrange(1, 500)) for _ in range(chance.randrange(4))
            ]
            for i in range(12)
            for timed_out in (False, True)
        }
        data = [f"user-{i}" for i in range(12) if chance.random() < 0.5]
        seen: list[tuple[str, bool, tuple[Any, ...] | None]] = []

        def change(key: tuple[Any, ...], _rows: Iterator[Row], state: GroupState) -> None:
            seen.append((key[0], state.hasTimedOut, state.getOption))  # noqa: B023 - called within the loop
            for what, number in plans[key[0], state.hasTimedOut]:  # noqa: B023
                if what == "update":
                    state.update((number, float(number)))
                elif what == "remove":
                    state.remove()
                else:
                    state.setTimeoutDuration(number)

        with partition.batch(processing_time_ms=now) as state:
            run(engine_of(change), state, *([call(events(*((user, 0.0) for user in data)), "user")] if data else []))

        expected = []
        for timed_out in (False, True):
            due = [user for user, (_, timeout) in held.items() if -1 != timeout < now]
            for user in due if timed_out else data:
                value, timeout = held.get(user, (None, -1))
                expected.append((user, timed_out, value))
                new, is_written, is_removed, timeout = value, False, False, -1
                for what, number in plans[user, timed_out]:
                    if what == "update":
                        new, is_written, is_removed = (number, float(number)), True, False
                    elif what == "remove":
                        new, is_written, is_removed = None, False, True
                    else:
                        timeout = now + number
                if is_written or timeout != -1:
                    held[user] = new, timeout
                elif is_removed:
                    held.pop(user, None)
        assert sorted(seen, key=repr) == sorted(expected, key=repr), (seed, batch)
        assert partition.rows() == {
            user: {
                "groupState": None if value is None else {"n": value[0], "total": value[1]},
                "timeoutTimestamp": timeout,
            }
            for user, (value, timeout) in held.items()
        }, (seed, batch)
