"""mapWithState's engine on a real store: the arguments of its function, the output, and errors."""

from __future__ import annotations

import datetime
import traceback
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.state import GroupState
from pyspark.sql.types import (
    ArrayType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from hdfsstore.errors import SchemaMismatchError, UserFunctionError
from hdfsstore.spark.worker.engine import KeyedRows
from hdfsstore.spark.worker.rows_engine import CHUNK_ROWS, PART_ROWS
from hdfsstore.spark.worker.value_codec import VALUE_SCHEMA
from tests.support.query_partition import QueryPartition, call, output_of, struct
from tests.support.rows_query import ANY, KEYS, STATE, TOTALS, count_and_sum, engine_of, events, run


@pytest.mark.parametrize("schema", [STATE, ANY])
@pytest.mark.parametrize("is_sorted", [False, True])
def test_counts_and_sums_over_batches(tmp_path: Path, schema: StructType | None, is_sorted: bool) -> None:
    partition = QueryPartition(tmp_path, KEYS, schema or VALUE_SCHEMA)
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

    partition = QueryPartition(tmp_path, KEYS, STATE)
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
    with QueryPartition(tmp_path, KEYS, STATE).batch() as state:
        engine = engine_of(lambda *_: result)
        assert run(engine, state, call(events(("a", 1.0)), "user")) == [("a", 1, 0.5)]


@pytest.mark.parametrize("result", [None, [], (), iter(())])
def test_no_rows_may_be_given(tmp_path: Path, result: Any) -> None:
    with QueryPartition(tmp_path, KEYS, STATE).batch() as state:
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

    partition = QueryPartition(tmp_path, KEYS, lists)
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
    with QueryPartition(tmp_path, keys, STATE).batch() as state:
        run(engine_of(look, rows=rows, keys=keys), state, call(table, "place", "day"))
    day = datetime.date(2024, 2, 29)
    assert seen == {(Row(city="x", zip=1), day): [1, 3], (None, None): [2], (Row(city=None, zip=1), None): [4]}
    assert next(iter(seen))[0].city == "x"


def test_without_key_columns_there_is_one_key(tmp_path: Path) -> None:
    no_keys = StructType()
    table = events(("a", 1.0), ("b", 2.0))
    keys = pa.Array.from_buffers(pa.struct([]), 2, [None])
    with QueryPartition(tmp_path, no_keys, STATE).batch() as state:
        engine = engine_of(lambda key, rows, _: [(str(key), len(list(rows)), 0.0)], keys=no_keys)
        assert run(engine, state, KeyedRows(table, keys, False)) == [("()", 2, 0.0)]


def test_a_key_with_many_rows_is_read_and_answered_bit_by_bit(tmp_path: Path) -> None:
    num_rows = 12 * PART_ROWS + 5
    order = pa.array([i % 3 for i in range(3 * num_rows)], pa.int8())
    table = pa.table(
        {"user": pa.array(["a", "b", "c"]).take(order), "amount": pa.array(range(3 * num_rows), pa.float64())}
    )
    given = []

    def echo(key: tuple[Any, ...], rows: Iterator[Row], _state: GroupState) -> Iterator[tuple[Any, ...]]:
        if key[0] == "b":  # of the other keys nothing or only a part is read
            for row in rows:
                given.append(row.amount)
                yield key[0], None, row.amount
        elif key[0] == "c":
            yield from ((key[0], None, row.amount) for row in islice(rows, 2))

    with QueryPartition(tmp_path, KEYS, STATE).batch() as state:
        alive = 0
        output = []
        for batch in engine_of(echo).data(iter([call(table, "user")]), state):
            output += batch["total"].to_pylist()
            alive = max(alive, len(given) - len(output))
    assert output == [*map(float, range(1, 3 * num_rows, 3)), 2.0, 5.0]
    assert alive <= 2 * PART_ROWS


def test_many_keys_in_several_slices_and_calls(tmp_path: Path) -> None:
    num_keys = CHUNK_ROWS + 2_345
    users = [f"user-{i}" for i in range(num_keys)]
    tables = [events(*((user, 1.0) for user in part)) for part in (users[:-3], users[-3:])]
    partition = QueryPartition(tmp_path, KEYS, STATE)
    for batch in (1, 2):
        with partition.batch() as state:
            engine = engine_of(count_and_sum)
            batches = list(engine.data(iter([call(table, "user") for table in tables]), state))
        assert [batch.num_rows for batch in batches] == [CHUNK_ROWS, 2_345]
        assert output_of(batches) == [(user, batch, float(batch)) for user in users]
    assert len(partition.rows()) == num_keys


def test_an_error_names_its_key_after_keys_without_output(tmp_path: Path) -> None:
    table = events(*((f"user-{i}", float(i)) for i in range(2 * PART_ROWS)))

    def returns_one(key: tuple[Any, ...], _rows: Iterator[Row], _state: GroupState) -> Any:
        return [(key[0], "no number", 1.0)] if key[0] == "user-1234" else None

    with (
        QueryPartition(tmp_path, KEYS, STATE).batch() as state,
        pytest.raises(SchemaMismatchError, match=r"gave a row for the key .*user-1234"),
    ):
        run(engine_of(returns_one), state, call(table, "user"))


def failure_of(tmp_path: Path, func: Callable[..., Any], error: type[Exception], **schemas: StructType | None) -> str:
    """Returns the engine's error for a function that fails for one of many keys, in the second of two batches."""
    state_schema = schemas.get("state", STATE)
    partition = QueryPartition(tmp_path, KEYS, state_schema or VALUE_SCHEMA)
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


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_what_ends_a_process_is_an_error_of_the_function(tmp_path: Path, error: type[BaseException]) -> None:
    def raises(_state: GroupState) -> Any:
        raise error("that is all")

    def raises_later(_state: GroupState) -> Any:
        yield "a", 1, 1.0
        raise error("that is all")

    for func in (raises, raises_later):
        said = failure_of(tmp_path / func.__name__, func, UserFunctionError)
        assert f"for the key (user='user-1234') in batch 1: {error.__name__}: that is all" in said


def test_whoever_reads_the_output_may_stop(tmp_path: Path) -> None:
    def many(key: tuple[Any, ...], _rows: Any, _state: GroupState) -> Any:
        for i in range(30_000):
            yield key[0], i, 1.0

    with QueryPartition(tmp_path, KEYS, STATE).batch() as state:
        output = engine_of(many).data(iter([call(events(("a", 1.0)), "user")]), state)
        assert next(output).num_rows
        output.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("result", "part"),
    [
        ([("a", "many", 1.0)], "'n' is of type bigint, which 'many' (str) does not fit: an integer is needed"),
        ([("a", float("nan"), 1.0)], "'n' is of type bigint, which nan (float) does not fit: an integer is needed"),
        ([("a", 1.5, 1.0)], "'n' is of type bigint, which 1.5 (float) does not fit"),
        ([("a", 2**63, 1.0)], "'n' is of type bigint"),
        ([("a", 1)], "it has 2 values, and the schema has 3 columns (user, n, total): ('a', 1)"),
        ([{"user": "a", "many": 1}], "it has keys that are no columns of the schema: ['many']"),
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
