"""What of the user's keys and values gets into errors: little, and nothing where hdfsstore.redactErrors is on."""

from __future__ import annotations

import dataclasses
import datetime
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from hdfsstore.errors import SchemaMismatchError, StateStoreError, UserFunctionError
from hdfsstore.spark.convert.pandas_types import PandasConf
from hdfsstore.spark.redaction import LEFT_OUT, Shown
from hdfsstore.spark.spec import Columns
from hdfsstore.spark.worker.arrow_engine import ArrowEngine
from hdfsstore.spark.worker.engine import Engine
from hdfsstore.spark.worker.pandas_engine import PandasEngine
from hdfsstore.spark.worker.task import pass_on
from hdfsstore.spark.worker.value_codec import VALUE_SCHEMA
from tests.support.query_partition import QueryPartition, arrow_schema, call, output_of
from tests.support.rows_query import ANY, KEYS, STATE, TOTALS, engine_of, events

SECRET = "4929-1234"
LARGE = {"user": SECRET, "all": ["x" * 100_000] * 1_000}


class Rude:
    def __repr__(self) -> str:
        raise RuntimeError("no")


class Telling(str):
    """A string that says what it is when it is compared."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        raise ValueError(SECRET)

    __hash__ = None  # type: ignore[assignment]


class Exit(BaseException):
    """As pytest's own."""


class Exiting(Exception):
    def __str__(self) -> str:
        raise Exit

    __repr__ = __str__


@dataclasses.dataclass
class Account:
    user: str
    rows: Any
    password: str = dataclasses.field(default="", repr=False)


@dataclasses.dataclass
class Closed(Account):
    def __repr__(self) -> str:
        return "closed"


class Counted:
    """Counts how often one is shown or compared."""

    calls = 0

    def __repr__(self) -> str:
        Counted.calls += 1
        return "counted"

    def __lt__(self, other: object) -> bool:
        Counted.calls += 1
        return id(self) < id(other)


def deep() -> Any:
    value: Any = 1
    for _ in range(5_000):
        value = [{"a": value}]
    return value


@pytest.mark.parametrize(
    "value",
    [
        *("x" * 10**8, b"x" * 10**8, bytearray(10**8), list(range(10**6)), dict.fromkeys(range(10**6), "x" * 1_000)),
        *(deep(), tuple(deep()), np.arange(10**6), pd.DataFrame({"a": range(10**5)}), Rude(), 10**5_000, "\ud800"),
        *(
            set(range(10**6)),
            frozenset(map(str, range(10**5))),
            Exiting(),
            Account("\ud800" * 1_000, list(range(10**6))),
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_is_cut_however_large_or_deep_it_is(value: Any) -> None:
    text = Shown().value(value)
    assert 0 < len(text) <= 310
    text.encode()


def test_small_values_are_shown_as_they_are() -> None:
    for value in ("a", 1, None, [1, 2.5], {"b": 1, "a": (2,)}, b"\xff", {3, 1}, frozenset("a"), set(), frozenset()):
        assert Shown().value(value) == repr(value)
    account = Account("a", [1, {"b": Closed("c", 5, "d")}], "e")
    assert Shown().value(account) == repr(account)


@pytest.mark.parametrize("large", [set, frozenset, lambda values: Account("a", list(values))])
def test_only_what_is_shown_is_looked_at(large: Callable[[Any], Any]) -> None:
    value = large([Counted() for _ in range(1_000)])
    Counted.calls = 0
    assert "counted, counted" in Shown().value(value)
    assert Counted.calls == 10


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (pa.array([2**30], pa.date32()), "1073741824"),
        (pa.array([2**62], pa.timestamp("us")), "4611686018427387904"),
        (pa.array([2**58], pa.timestamp("us", "UTC")), "11103"),
        (pa.array([{"day": 2**30}], pa.struct([("day", pa.date32())])), "<struct<day: date32[day]>>"),
        (pa.array([b"\xff"]).view(pa.string()), "<string>"),
        (pa.array([datetime.date(2024, 2, 29)]), "datetime.date(2024, 2, 29)"),
    ],
)
def test_keys_that_python_has_no_value_for_are_shown(column: pa.Array[Any], text: str) -> None:
    said = Shown().key(pa.StructArray.from_arrays([column, pa.array(["a"])], ["k", "user"]))
    assert text in said
    assert said.endswith(", user='a')")


def test_an_error_that_cannot_say_what_it_is() -> None:
    assert Shown().error(Exiting()) == "Exiting"


def test_an_error_is_cut_and_can_be_sent() -> None:
    text = Shown().error(ValueError("\ud800" + "x" * 10**6))
    assert text.startswith(r"ValueError: \ud800xxx")
    assert len(text) < 1_100
    text.encode()


def raising(error: Callable[[], BaseException]) -> Callable[..., Any]:
    def func(*_: Any) -> Any:
        try:
            raise LookupError(SECRET)
        except LookupError:
            raise error()  # noqa: B904 - the other one is its context

    return func


def rows_engine(func: Any, state: StructType | None = STATE) -> Engine:
    return engine_of(func, state=state)


def pandas_engine(func: Any) -> Engine:
    return PandasEngine(func, TOTALS, arrow_schema(TOTALS), STATE, PandasConf())


def arrow_engine(func: Any) -> Engine:
    return ArrowEngine(func, Columns(("user", "amount"), ("user",), (0,)), arrow_schema(TOTALS))


def update(value: Any) -> Callable[..., None]:
    return lambda _key, _rows, state: state.update(value)


def update_late(value: Any) -> Callable[..., None]:
    def func(_key: Any, _rows: Any, state: Any) -> None:
        held: list[Any] = []
        state.update(held)
        held.append(value)

    return func


FAILURES: dict[str, tuple[Engine, type[Exception]]] = {
    "an error of mapWithState": (rows_engine(raising(lambda: KeyError(SECRET))), UserFunctionError),
    "an exit": (rows_engine(raising(lambda: SystemExit(SECRET))), UserFunctionError),
    "a row of too many values": (rows_engine(lambda *_: [(SECRET,)]), SchemaMismatchError),
    "a row that is none": (rows_engine(lambda *_: [SECRET]), SchemaMismatchError),
    "a row of other names": (rows_engine(lambda *_: [{SECRET: 1}]), SchemaMismatchError),
    "a value of a row": (rows_engine(lambda *_: [("a", SECRET, 1.0)]), SchemaMismatchError),
    "a value of the state": (rows_engine(update((SECRET, 1.0))), SchemaMismatchError),
    "a state of one value": (rows_engine(update({(SECRET,): 1}), ANY), UserFunctionError),
    "a state of one value, changed after update": (rows_engine(update_late(Telling("a")), ANY), SchemaMismatchError),
    "a large state": (rows_engine(update((LARGE, 1.0))), SchemaMismatchError),
    "an error of applyInPandasWithState": (pandas_engine(raising(lambda: KeyError(SECRET))), UserFunctionError),
    "a value of a frame": (
        pandas_engine(lambda *_: [pd.DataFrame({"user": ["a"], "n": [SECRET], "total": [1.0]})]),
        UserFunctionError,
    ),
    "an error of mapInArrowWithState": (arrow_engine(raising(lambda: KeyError(SECRET))), UserFunctionError),
    "an error of this package's that the function of mapInArrowWithState raises": (
        arrow_engine(raising(lambda: StateStoreError(SECRET + "x" * 10**6))),
        UserFunctionError,
    ),
    "a value of a table": (
        arrow_engine(lambda *_: pa.table({"user": ["a"], "n": [SECRET], "total": [1.0]})),
        UserFunctionError,
    ),
    "a key of another partition": (
        arrow_engine(lambda _, state: state.remove(pa.array([f"{SECRET}-{i}" for i in range(10)]))),
        StateStoreError,
    ),
}


@pytest.mark.parametrize("redacted", [False, True])
@pytest.mark.parametrize("failure", FAILURES)
def test_what_a_failing_task_says(tmp_path: Path, failure: str, redacted: bool) -> None:
    """All that PySpark may print of it: the error and whatever it came of."""
    engine, wanted = FAILURES[failure]
    partition = QueryPartition(tmp_path, KEYS, VALUE_SCHEMA if "of one value" in failure else STATE, num_partitions=2)
    partition.query = dataclasses.replace(partition.query, shown=Shown(redacted))
    with partition.batch() as state, pytest.raises(StateStoreError) as caught:  # noqa: PT012 - as a task has it
        try:
            output_of(engine.data(iter([call(events((SECRET, 1.0)), "user")]), state))
        except Exception as error:  # noqa: BLE001 - the same
            pass_on(error, state)
    raised = caught.value
    assert type(raised) is wanted
    assert raised.__suppress_context__ or raised.__context__ is None or not redacted
    assert len(str(raised)) < 20_000
    if redacted:
        assert SECRET not in "".join(traceback.format_exception(raised))
        assert LEFT_OUT in str(raised) or "mapInArrowWithState" in str(raised)
    else:
        assert SECRET in str(raised)
    if wanted is UserFunctionError:
        assert "Traceback (most recent call last):" in str(raised)


def test_what_libraries_say_of_rows_is_left_out_too(tmp_path: Path) -> None:
    partition = QueryPartition(tmp_path, KEYS, STATE)
    error = ValueError(f"cannot convert {SECRET}")
    with partition.batch() as state, pytest.raises(ValueError, match=SECRET):
        pass_on(error, state)
    partition.query = dataclasses.replace(partition.query, shown=Shown(True))
    with partition.batch() as state, pytest.raises(StateStoreError) as caught:
        pass_on(error, state)
    said = "".join(traceback.format_exception(caught.value))
    assert "partition 0 of batch 1 cannot be worked on: ValueError\n" in said
    assert SECRET not in said
