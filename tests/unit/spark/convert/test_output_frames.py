"""Frames that a function gives, on their way to record batches."""

from __future__ import annotations

import datetime
import decimal
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.errors import PySparkRuntimeError, PySparkTypeError, PySparkValueError
from pyspark.sql import types as s

from hdfsstore.spark.convert import output_frames as module
from hdfsstore.spark.convert.output_frames import OutputFrames
from hdfsstore.spark.convert.pandas_types import IS_4_1, PandasConf
from tests.support.query_partition import arrow_schema, struct

BERLIN = PandasConf(timezone="Europe/Berlin")
PAIR = struct(k="long", n="double")


class BadFrameError(Exception):
    pass


def bad(key: int, _: Exception) -> Exception:
    return BadFrameError(key)


def gather(frames: list[Any], schema: Any = PAIR, conf: PandasConf = BERLIN) -> list[dict[str, Any]]:
    output = OutputFrames(schema, arrow_schema(schema), conf)
    for key, frame in enumerate(frames):
        output.add(key, frame)
    batch = output.batch(bad)
    assert output.num_rows == 0
    assert batch.schema.equals(arrow_schema(schema))
    return batch.to_pylist()


@pytest.fixture(params=["blocks", "columns"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of pandas releases whose blocks are known, and of others."""
    if request.param == "columns":
        monkeypatch.setattr(module, "KNOWN_BLOCKS", False)


def test_rows_come_in_the_order_of_the_frames() -> None:
    frames = [pd.DataFrame({"k": [i, i], "n": [0.5, i]}) for i in range(5)]
    frames.insert(2, pd.DataFrame())
    frames.insert(2, pd.DataFrame({"k": [], "n": []}))
    frames.insert(2, pd.DataFrame({"other": [], "names": []}))
    assert [(row["k"], row["n"]) for row in gather(frames)] == [(i, n) for i in range(5) for n in (0.5, float(i))]


@pytest.mark.filterwarnings("ignore:The behavior of DataFrame concatenation:FutureWarning")
@pytest.mark.parametrize(
    ("by_name", "frame", "row"),
    [
        (True, pd.DataFrame({"n": [1.5], "k": [2]}), {"k": 2, "n": 1.5}),
        (True, pd.DataFrame([[2, 1.5]]), {"k": 2, "n": 1.5}),
        (False, pd.DataFrame({"n": [2], "k": [1.5]}), {"k": 2, "n": 1.5}),
        (False, pd.DataFrame([[2, 1.5]], columns=["x", "x"]), {"k": 2, "n": 1.5}),
        (True, pd.DataFrame(index=[0]), {"k": None, "n": None}),
    ],
)
def test_columns_are_matched_by_name_where_labels_are_strings(
    by_name: bool, frame: pd.DataFrame, row: dict[str, Any]
) -> None:
    named = pd.DataFrame({"k": [1], "n": [1.0]})
    conf = PandasConf(columns_by_name=by_name)
    assert gather([named, frame, named], conf=conf)[1] == row


since_4_2 = pytest.mark.skipif(IS_4_1, reason="PySpark has no such conversion before 4.2")
DAY = datetime.date(2024, 3, 31)
TIME = pd.Timestamp("2024-03-31 03:00:00")


@since_4_2
@pytest.mark.parametrize(
    ("spark_type", "columns"),
    [
        ("long", [[1], [2.0], [None], [np.nan], [True], pd.array([3, None], "Int64"), [decimal.Decimal(4)]]),
        ("double", [[1], [None], [2.5], ["7.5"]]),
        ("string", [["a"], [None], pd.Categorical(["b"]), [5], [True]]),
        ("byte", [[1], [300], [None]]),
        ("timestamp", [[TIME], [None], [pd.NaT], [TIME.tz_localize("UTC")], [TIME.to_pydatetime()]]),
        ("timestamp", [[TIME], [TIME + pd.Timedelta("1h")]]),
        ("timestamp_ntz", [[TIME], [None]]),
        ("date", [[DAY], [None], [TIME]]),
        ("boolean", [[True], [None], [False]]),
        ("decimal(10,2)", [[decimal.Decimal("1.25")], [None], [7], [1.5]]),
        ("binary", [[b"x"], [None]]),
        (s.ArrayType(s.IntegerType()), [[[1, 2]], [None], [np.array([3])]]),
        (s.MapType(s.StringType(), s.IntegerType()), [[{"a": 1}], [None]]),
        (struct(x="integer", y="string"), [[{"x": 1, "y": "a"}], [None], [(2, "b")]]),
        ("interval day to second", [[pd.Timedelta("1h")], [None]]),
    ],
)
@pytest.mark.filterwarnings("ignore:The behavior of DataFrame concatenation:FutureWarning")
def test_mixed_dtypes_give_what_pyspark_gives(spark_type: Any, columns: list[Any]) -> None:
    schema = struct(c=spark_type)
    frames = [pd.DataFrame({"c": column}) for column in columns]
    alone = ([frame] for frame in frames)
    for some in (frames, frames[::-1], frames[:1] * 3, *alone, *map(list, itertools.pairwise(frames))):
        joined = pd.concat([*some, pd.DataFrame({"c": None}, index=[])], ignore_index=True)
        assert outcome(gather, some, schema) == outcome(pyspark_s, joined, schema)


def pyspark_s(joined: pd.DataFrame, schema: Any) -> list[dict[str, Any]]:
    from pyspark.sql.conversion import PandasToArrowConversion

    batch = PandasToArrowConversion.convert(joined, schema, timezone="Europe/Berlin", arrow_cast=True)
    return batch.cast(arrow_schema(schema)).to_pylist()


def outcome(of: Callable[..., list[dict[str, Any]]], *arguments: Any) -> Any:
    """What it gives, or the type of its error."""
    try:
        return of(*arguments)
    except BadFrameError as error:
        return type(error.__cause__)
    except (PySparkTypeError, PySparkValueError, pa.ArrowException, AssertionError) as error:
        return type(error)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (5, "iterator of pandas.DataFrame, but is iterator of int"),
        ([1], "iterator of pandas.DataFrame, but is iterator of list"),
    ],
)
def test_what_is_no_frame_is_refused(frame: Any, message: str) -> None:
    with pytest.raises(PySparkTypeError, match=message):
        gather([frame])


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pd.DataFrame({"k": [1]}), "Expected: 2 Actual: 1"),
        (pd.DataFrame({"k": []}), "Expected: 2 Actual: 1"),
        (pd.DataFrame({"k": [1], "m": [1]}), "Missing: n.*Unexpected: m"),
        (pd.DataFrame([[1, 2]], columns=["k", "k"]), "Missing: n"),
    ],
)
def test_other_columns_are_refused(frame: pd.DataFrame, message: str) -> None:
    with pytest.raises(PySparkRuntimeError, match=message):
        gather([frame])


def test_the_key_of_a_value_that_does_not_fit_is_told() -> None:
    good = pd.DataFrame({"k": [1], "n": [1.0]})
    with pytest.raises(BadFrameError) as raised:
        gather([good, good, pd.DataFrame({"k": ["x"], "n": [1.0]}), good])
    assert raised.value.args == (2,)
    assert "'k' with type 'object' to Arrow type 'int64'" in str(raised.value.__cause__)


def test_the_key_is_told_among_hundreds_of_frames_of_several_rows() -> None:
    frames = [pd.DataFrame({"k": [i] * (i % 3), "n": [1.0] * (i % 3)}) for i in range(350)]
    frames[301] = pd.DataFrame({"k": [1, 2], "n": ["1.5", "x"]})
    with pytest.raises(BadFrameError) as raised:
        gather(frames)
    assert raised.value.args == (301,)


KINDS = struct(i="long", j="long", d="double", t="timestamp", u="timestamp_ntz", s="string", c="string", m="long")


def kinds(i: int, num_rows: int) -> pd.DataFrame:
    """A frame with blocks of every sort: several columns in one, apart from each other, times, extension arrays."""
    rows = range(i, i + num_rows)
    columns = {
        "i": list(rows),
        "d": [row / 2 for row in rows],
        "j": [-row for row in rows],
        "t": [TIME + pd.Timedelta(row, "h") for row in rows],
        "s": [str(row) for row in rows],
        "u": [TIME - pd.Timedelta(row, "h") for row in rows],
        "c": pd.Categorical([("a", "b")[row % 2] for row in rows], ["a", "b"]),
        "m": pd.array([None if row % 3 else row for row in rows], "Int64"),
    }
    return pd.DataFrame(columns)


@pytest.mark.parametrize("zoned", [False, True])
def test_frames_of_all_sorts_of_blocks(zoned: bool) -> None:
    frames = [kinds(i, 1 + i % 3) for i in range(250)]
    if zoned:
        for frame in frames:
            frame["t"] = frame["t"].dt.tz_localize("Europe/Berlin")
    together = pd.concat(frames, ignore_index=True)
    assert gather(frames, KINDS) == gather([together], KINDS)


@pytest.mark.filterwarnings("ignore:The behavior of DataFrame concatenation:FutureWarning")
def test_frames_whose_columns_lie_otherwise_now_and_then() -> None:
    frames = []
    for i in range(300):
        frame = kinds(i, 1 + i % 2)
        if i % 7 == 0:
            frame = frame[["m", "c", "u", "t", "d", "j", "i", "s"]]
        if i % 11 == 0:
            frame = frame.copy()  # in which pandas has put blocks together
        if i % 13 == 0:
            frame["c"] = frame["c"].astype(object)
        if i % 17 == 0:
            frame["d"] = frame["d"].astype("float32")
        if i % 19 == 0:
            frame.insert(0, "j", frame.pop("j"))
        frames.append(frame)
    assert gather(frames, KINDS) == [row for frame in frames for row in gather([frame], KINDS)]


def test_columns_may_be_put_into_a_frame_that_was_given() -> None:
    output = OutputFrames(PAIR, arrow_schema(PAIR), BERLIN)
    for key in range(150):
        frame = pd.DataFrame({"k": [key], "n": [0.5]})
        output.add(key, frame)
        frame.insert(0, "front", -1)
        frame["n"] = -1.0
    assert output.batch(bad).to_pylist() == [{"k": key, "n": 0.5} for key in range(150)]


def test_a_loss_is_an_error_or_not_as_the_session_says() -> None:
    frame = pd.DataFrame({"k": [1.5], "n": [1.0]})
    with pytest.raises(BadFrameError):
        gather([frame])
    assert gather([frame], conf=PandasConf(safe_cast=False)) == [{"k": 1, "n": 1.0}]
