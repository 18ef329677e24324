"""States without a schema: a value that `update` accepts comes back equal, and others fail at once."""

from __future__ import annotations

import datetime
import enum
import math
import zoneinfo
from collections import Counter, OrderedDict, defaultdict, namedtuple
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import Row
from pyspark.sql.streaming.state import GroupState

from hdfsstore._cext.packable import DEPTH, packable
from hdfsstore.errors import SchemaMismatchError, SizeLimitError, UserFunctionError
from hdfsstore.spark.convert.rows_to_arrow import RowWriter
from hdfsstore.spark.redaction import Shown
from hdfsstore.spark.worker.group_state import KeyValue, key_state_class
from hdfsstore.spark.worker.value_codec import VALUE_SCHEMA, ValueCodec
from tests.support.query_partition import QueryPartition, call
from tests.support.rows_query import ANY, KEYS, engine_of, events, run

BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
UTC = datetime.UTC


def back(value: Any) -> Any:
    """Updates, packs and unpacks a value."""
    state = key_state_class("NoTimeout", 1, -1, base=KeyValue)(None)
    state.update(value)
    codec = ValueCodec(Shown())
    columns = codec.encode([codec.accept(state.get)], [True])
    (read,) = codec.decode(pa.StructArray.from_arrays(columns, ["value"]))
    return read


def same(value: Any, read: Any) -> bool:
    """Returns whether a value came back: a tuple as a list, a time as the same moment, NaN as NaN, a bool as a bool."""
    if isinstance(value, list | tuple) and not isinstance(value, msgpack.ExtType):
        return type(read) is list and len(read) == len(value) and all(map(same, value, read))
    if isinstance(value, dict):
        pairs = zip(value.items(), read.items(), strict=True)
        return type(read) is dict and all(same(k, k2) and same(v, v2) for (k, v), (k2, v2) in pairs)
    if isinstance(value, datetime.datetime):
        return bool(read.tzinfo is UTC and value.astimezone(UTC) == read)
    if isinstance(value, bool | np.bool_) != isinstance(read, bool):
        return False
    return bool(value == read) or (value != value and math.isnan(read))


class Color(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 2**40


class Loud(str):
    """A string with an equality of its own."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Loud)

    def __hash__(self) -> int:
        return 1


class Endless(list[int]):
    """A list that gives more than it has."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(1_000))


Point = namedtuple("Point", "x y")

zones = st.sampled_from(
    [UTC, BERLIN, datetime.timezone(datetime.timedelta(hours=-14)), zoneinfo.ZoneInfo("Asia/Tokyo")]
)
times = st.builds(lambda time, fold: time.replace(fold=fold), st.datetimes(timezones=zones), st.sampled_from([0, 1]))
any_time = st.one_of(times, st.datetimes(), st.datetimes(timezones=zones, min_value=datetime.datetime(9999, 12, 31)))
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(2**63 - 2, 2**64 + 1),
    st.floats(),
    st.text(st.characters(), max_size=5),
    st.text(st.sampled_from("a\ud800\udfff\U0001f600"), max_size=2),
    st.binary(max_size=5),
    any_time,
    st.dates(),
    st.timedeltas(),
    st.decimals(),
    st.complex_numbers(),
    st.integers(-(2**63), 2**63 - 1).map(np.int64),
    st.integers(0, 2**64 - 1).map(np.uint64),
    st.floats().map(np.float64),
    st.floats(width=32).map(np.float32),
    st.booleans().map(np.bool_),
    st.integers(0, 2**60).map(lambda ns: np.datetime64(ns, "ns")),
    st.integers(0, 2**60).map(lambda ns: np.timedelta64(ns, "ns")),
    st.integers(0, 2**60).map(lambda ns: pd.Timestamp(ns, tz="UTC")),
    st.integers(0, 2**50).map(lambda us: pd.Timestamp(us * 1_000, tz="Europe/Berlin")),
    st.sampled_from([pd.NaT, pd.NA, Color.RED, Level.HIGH, Loud("a"), object(), np.str_("s"), np.bytes_(b"s")]),
    st.builds(msgpack.ExtType, st.integers(0, 127), st.binary(max_size=4)),
    st.builds(msgpack.Timestamp, st.integers(0, 100)),
    st.binary(max_size=4).map(bytearray),
    st.binary(max_size=4).map(memoryview),
    st.frozensets(st.integers(), max_size=2),
)
# No dict has memoryviews beside NumPy's times: comparing the two gives an array, which is neither true nor false.
keys = st.one_of(
    scalars.filter(lambda value: value.__hash__ is not None and not isinstance(value, memoryview)),
    st.tuples(st.integers()),
)


def hashable(key: Any) -> bool:
    try:
        hash(key)
    except (TypeError, ValueError):
        return False
    return True


values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.tuples(inner, inner).map(lambda pair: Point(*pair)),
        st.dictionaries(keys.filter(hashable), inner, max_size=3),
        st.dictionaries(keys.filter(hashable), inner, max_size=2).map(OrderedDict),
    ),
    max_leaves=8,
)


@pytest.mark.thorough
@given(values)
@settings(max_examples=1_500, deadline=None)
def test_what_update_takes_comes_back_equal(value: Any) -> None:
    try:
        read = back(value)
    except (TypeError, ValueError) as error:
        assert value is None or "a state without stateStructType has no place for" in str(error)  # noqa: PT017
    else:
        assert same(value, read)


@pytest.mark.parametrize(
    "value",
    [
        {"a": [1, 2.5, None, True], 5: {None: b"\xff"}, b"k": {2.5: "x"}, False: 2**64 - 1},
        [datetime.datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=BERLIN), datetime.datetime(1, 1, 1, tzinfo=UTC)],
        {datetime.datetime(2024, 2, 29, tzinfo=UTC): 1},
        (1, (2, Point(3, 4)), Row(a=5)),
        [Color.RED, Level.HIGH, OrderedDict(a=1), Counter("abca"), np.float64(0.1), np.int8(-1), np.str_("x")],
        [float("nan"), float("-inf"), -0.0, bytearray(b"a"), memoryview(b"b"), msgpack.ExtType(7, b"x")],
        "\U0001f600" * 100_000,
        b"\0" * 1_000_000,
        list(range(100_000)),
    ],
)
def test_these_come_back(value: Any) -> None:
    assert same(value, back(value))


def test_what_is_plain_is_not_copied() -> None:
    value = {"a": [1, (2, 3)], "b": {"c": datetime.datetime.now(UTC)}}
    assert packable(value) is value


def nested(levels: int, in_dicts: bool) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {1: value} if in_dicts else [value]
    return value


@pytest.mark.parametrize("in_dicts", [False, True])
def test_as_deep_as_every_release_of_msgpack_goes(in_dicts: bool) -> None:
    assert back(nested(DEPTH, in_dicts)) == nested(DEPTH, in_dicts)
    for levels in (DEPTH + 1, 1_030, 100_000):
        with pytest.raises(ValueError, match=f"lists and dicts that are more than {DEPTH} deep"):
            back(nested(levels, in_dicts))


@pytest.mark.parametrize("wrap", [lambda v: [v], lambda v: defaultdict(int, a=v), lambda v: {1: "x", Level.HIGH: v}])
def test_what_is_converted_is_gone_through_once_a_level(wrap: Callable[[Any], Any]) -> None:
    """With two passes at each level this would not finish."""
    value: Any = np.int64(5)
    for _ in range(DEPTH):
        value = wrap(value)
    assert back(value) == value


def test_what_comes_before_and_after_what_is_converted_is_kept() -> None:
    one = np.int64(7)
    assert packable([1, one, 2, one, "a"]) == [1, 7, 2, 7, "a"]
    assert packable((one, (1, one), ("b",))) == [7, [1, 7], ("b",)]
    value = {"a": 1, "b": one, Color.RED: 2, "c": [one], "d": None}
    assert packable(value) == {"a": 1, "b": 7, "red": 2, "c": [7], "d": None}
    assert list(packable(value)) == list(value)


@pytest.mark.parametrize(
    ("value", "part"),
    [
        ({(1, 2): 3}, "a dict's key of type tuple, which would come back as a list"),
        ([{"a": {Point(1, 2): 3}}], "a dict's key of type Point"),
        (datetime.datetime(1, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=1))), "years 1 to 9999"),
        (datetime.datetime(9999, 12, 31, 23, tzinfo=datetime.timezone(-datetime.timedelta(hours=2))), "years 1 to"),
        (datetime.datetime(2024, 1, 1), "a datetime without a time zone"),
        (pd.Timestamp(1, tz="UTC"), "a value of type Timestamp that would come back as another one"),
        (pd.Timestamp("2024-01-01"), "a datetime without a time zone"),
        (np.datetime64(1, "ns"), "a value of type datetime64"),
        (np.timedelta64(1, "ns"), "a value of type timedelta64"),
        (np.longdouble(1), "a value of type longdouble"),
        (msgpack.Timestamp(1), "a value of type Timestamp"),
        (Decimal(1), "a value of type Decimal"),
        ({1, 2}, "a value of type set"),
        (2**64, "an int of more than 64 bits"),
        (-(2**63) - 1, "an int of more than 64 bits"),
        ("\ud800", "a string with surrogates"),
        ({Loud("a"): 1}, "a value of type Loud that would come back as another one"),
        (memoryview(np.arange(3)), "a value of type memoryview that would come back as another one"),
        (
            {
                datetime.datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN): 1,
                datetime.datetime(2024, 10, 27, 0, 30, tzinfo=UTC): 2,
            },
            "two keys of a dict that would come back as one",
        ),
    ],
)
def test_what_would_not_come_back_is_refused_by_update(value: Any, part: str) -> None:
    state = key_state_class("NoTimeout", 1, -1, base=KeyValue)(5)
    with pytest.raises((TypeError, ValueError), match=part):
        state.update(value)
    assert state.get == 5


class TwoGiB(list[bytes]):
    """A list that pyarrow converts to chunks, as it does with 2 GiB of bytes."""

    def __arrow_array__(self, type: Any = None) -> pa.ChunkedArray:
        return pa.chunked_array([[b"a"], [b"b"]], type)


def test_states_that_one_array_has_no_room_for() -> None:
    fields = [pa.field("value", pa.binary())]
    for encode in (ValueCodec(Shown()).encode, RowWriter(VALUE_SCHEMA, fields, Shown()).columns):
        with pytest.raises(SizeLimitError, match="the column 'value' of 2 rows takes 2 GiB or more"):
            encode([TwoGiB([b"a", b"b"])], [True, True])


def test_a_list_that_lies_is_kept_as_what_it_holds() -> None:
    assert back([Endless([1, 2])]) == [[1, 2]]


def failing(tmp_path: Path, func: Callable[[GroupState], None], error: type[Exception]) -> str:
    """Returns the error for a function that fails for the key b, after a batch in which it did not."""
    partition = QueryPartition(tmp_path, KEYS, VALUE_SCHEMA)

    def of_key(key: tuple[Any, ...], _rows: Iterator[Row], state: GroupState) -> None:
        if key == ("b",):
            func(state)
        else:
            state.update([1])

    table = events(("a", 1.0), ("b", 1.0))
    with pytest.raises(error) as caught, partition.batch() as state:
        run(engine_of(of_key, state=ANY), state, call(table, "user"))
    assert partition.rows() == {}
    return str(caught.value)


def test_an_error_at_update_names_key_and_batch(tmp_path: Path) -> None:
    said = failing(tmp_path, lambda state: state.update({(1, 2): 3}), UserFunctionError)
    assert "for the key (user='b') in batch 0: TypeError: a state without stateStructType has no place for" in said


def test_a_state_that_is_changed_after_update_is_looked_at_again(tmp_path: Path) -> None:
    def late(state: GroupState) -> None:
        value: dict[Any, Any] = {}
        state.update(value)
        value[1, 2] = 3

    said = failing(tmp_path, late, SchemaMismatchError)
    assert "the state of the key (user='b') in batch 0 cannot be kept: {(1, 2): 3} (dict): a state without" in said
    assert "a dict's key of type tuple, which would come back as a list. Give state.update() None" in said


@pytest.mark.parametrize("times_out", [False, True])
def test_an_error_while_a_state_is_read_names_its_key(tmp_path: Path, times_out: bool) -> None:
    """Earlier releases may have written such states."""
    partition = QueryPartition(tmp_path, KEYS, VALUE_SCHEMA, "ProcessingTimeTimeout")
    packed = [msgpack.packb(1), msgpack.packb({(1, 2): 3}), msgpack.packb(2)]
    users = pa.array(["a", "b", "c"])
    with partition.batch() as state:
        keys = state.encode_keys(pa.StructArray.from_arrays([users], ["user"]))
        states = pa.StructArray.from_arrays([pa.array(packed)], ["value"])
        state.put(keys, states, pa.array([5, 5, 5]))
    engine = engine_of(lambda *_: None, state=ANY)
    said = r"the state of the key \(user='b'\), from before batch 1, cannot be read: TypeError: unhashable type: 'list'"
    with pytest.raises(SchemaMismatchError, match=said), partition.batch(processing_time_ms=10) as state:
        run(engine, state, *([] if times_out else [call(events(("a", 1.0), ("b", 1.0), ("c", 1.0)), "user")]))
