"""mapWithState's engine on a real store: states and timeouts, as the function sees them and as they are stored."""

from __future__ import annotations

import datetime
import random
import sys
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.state import GroupState
from pyspark.sql.types import (
    ArrayType,
    DecimalType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from hdfsstore.errors import SchemaMismatchError, StateStoreError
from hdfsstore.spark.worker.value_codec import VALUE_SCHEMA
from tests.support.query_partition import QueryPartition, call, struct
from tests.support.rows_query import ANY, KEYS, STATE, count_and_sum, engine_of, events, run


def test_timeouts_as_spark_has_them(tmp_path: Path) -> None:
    """States are removed, kept, set again, or left alone. Those left alone come again."""
    partition = QueryPartition(tmp_path, KEYS, STATE, "ProcessingTimeTimeout")
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
    partition = QueryPartition(tmp_path, KEYS, STATE, "EventTimeTimeout")

    def timed(key: tuple[Any, ...], _rows: Iterator[Row], state: GroupState) -> Iterator[tuple[Any, ...]]:
        if state.hasTimedOut:
            yield key[0], -1, 0.0
            state.remove()
        else:
            yield key[0], state.getCurrentWatermarkMs(), 0.0
            with pytest.raises(ValueError, match="watermark"):
                state.setTimeoutTimestamp(4_999)
            state.setTimeoutTimestamp(datetime.datetime(1970, 1, 1, 0, 0, 6, 999_999, datetime.UTC))

    with partition.batch(watermark_ms=5_000) as state:
        assert run(engine_of(timed), state, call(events(("a", 1.0)), "user")) == [("a", 5_000, 0.0)]
    assert partition.rows()["a"]["timeoutTimestamp"] == 6_999
    with partition.batch(watermark_ms=7_000) as state:
        assert run(engine_of(timed), state) == [("a", -1, 0.0)]
    assert partition.rows() == {}


def test_states_of_every_shape_without_a_schema(tmp_path: Path) -> None:
    """Values come back as they were, except tuples, which become lists."""
    zoned = datetime.datetime(2024, 2, 29, 12, 30, 1, 234_567, datetime.UTC)
    values = [0, "", b"\xff", [], {}, 1.5, False, {1: [None, {"a": b"x"}]}, [2**64 - 1, -(2**63)], zoned, (1, (2,))]
    seen = []

    def remember(_key: tuple[Any, ...], rows: Iterator[Row], state: GroupState) -> None:
        if state.exists:
            seen.append((state.get, state.getOption))
        else:
            state.update(values[int(next(rows).amount)])

    partition = QueryPartition(tmp_path, KEYS, VALUE_SCHEMA)
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

    partition = QueryPartition(tmp_path, KEYS, schema)
    for _ in range(2):
        with partition.batch() as state:
            run(engine_of(remember, state=schema), state, call(events(("a", 1.0), ("b", 1.0)), "user"))
    assert seen == [None, None, value, (None, None, None, None)]
    assert seen[2][0][0].price == Decimal("1.25")


def test_a_state_without_columns_is_kept_and_removed(tmp_path: Path) -> None:
    """Such a state says that a key was seen. It is not a state without a schema."""
    seen = []

    def toggle(key: tuple[Any, ...], _rows: Iterator[Row], state: GroupState) -> None:
        seen.append((key[0], state.exists, state.getOption))
        if state.exists:
            state.remove()
        else:
            state.update(())

    partition = QueryPartition(tmp_path, KEYS, StructType())
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

    partition = QueryPartition(tmp_path, KEYS, schema)
    for _ in range(2):
        with partition.batch() as state:
            run(engine_of(remember, state=schema), state, call(events(("a", 1.0)), "user"))
    local = datetime.datetime(2024, 2, 29, 12, 30, 0, 123456)
    assert seen == [None, (local, [local, None], zoned.to_pydatetime().astimezone().replace(tzinfo=None))]
    wrong = "'zoned' is of type timestamp, .*NaT is no time"
    with pytest.raises(SchemaMismatchError, match=wrong), partition.batch() as state:
        run(engine_of(remember, state=schema), state, call(events(("b", 1.0)), "user"))


@pytest.fixture(params=["UTC", "EST5", "JST-9"])
def zone(request: pytest.FixtureRequest) -> Iterator[str]:
    """This process's time zone."""
    with pytest.MonkeyPatch.context() as environ:
        environ.setenv("TZ", request.param)
        time.tzset()
        yield request.param
    time.tzset()


@pytest.mark.usefixtures("zone")
@pytest.mark.parametrize("nested", [False, True])
def test_a_timestamp_that_could_not_be_read_again_is_refused(tmp_path: Path, nested: bool) -> None:
    schema = struct(at=ArrayType(TimestampType()) if nested else "timestamp")
    first = datetime.datetime(1, 1, 1, 2, tzinfo=datetime.UTC)
    kept = 0
    for i, hours in enumerate((-23, -5, 0, 5, 23)):
        at = first.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=hours)))
        value = ([at] if nested else at,)
        partition = QueryPartition(tmp_path / str(i), KEYS, schema)
        engine = engine_of(lambda _key, _rows, state, value=value: state.update(value), state=schema)
        try:
            with partition.batch() as state:
                run(engine, state, call(events(("a", 1.0)), "user"))
        except SchemaMismatchError as error:
            assert "the column 'at' is of type" in str(error)  # noqa: PT017
            continue
        kept += 1
        with partition.batch() as state:
            run(engine_of(lambda *_: None, state=schema), state, call(events(("a", 1.0)), "user"))
    assert 0 < kept < 5


def test_values_of_numpy_and_pandas_are_kept_as_pythons(tmp_path: Path) -> None:
    zoned = pd.Timestamp("2024-02-29 12:30", tz="UTC")
    given = {"a": np.int64(5), "b": [np.float32(0.5), np.bool_(True)], "c": zoned}
    seen = []

    def remember(_key: tuple[Any, ...], _rows: Iterator[Row], state: GroupState) -> None:
        seen.append(state.getOption)
        state.update(given)

    partition = QueryPartition(tmp_path, KEYS, VALUE_SCHEMA)
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
    """Compares with a model. A key has a state and a timeout; the function gets the data first, then expired keys."""
    chance = random.Random(seed)
    partition = QueryPartition(tmp_path, KEYS, STATE, "ProcessingTimeTimeout")
    states: dict[str, tuple[tuple[int, float] | None, int]] = {}
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
            expired = [user for user, (_, timeout) in states.items() if -1 != timeout < now]
            for user in expired if timed_out else data:
                value, timeout = states.get(user, (None, -1))
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
                    states[user] = new, timeout
                elif is_removed:
                    states.pop(user, None)
        assert sorted(seen, key=repr) == sorted(expected, key=repr), (seed, batch)
        assert partition.rows() == {
            user: {
                "groupState": None if value is None else {"n": value[0], "total": value[1]},
                "timeoutTimestamp": timeout,
            }
            for user, (value, timeout) in states.items()
        }, (seed, batch)
