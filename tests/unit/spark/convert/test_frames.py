"""Frames that are cut out of a large one."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from hdfsstore.spark.convert import frames as module
from hdfsstore.spark.convert.frames import Frames
from hdfsstore.spark.convert.pandas_types import IS_4_1, PandasConf, ToPandas

BERLIN = PandasConf(timezone="Europe/Berlin")
STARTS = np.array([0, 2, 3, 6], np.int32)
ROWS = pa.table(
    {
        "k": pa.array([1, 1, 2, 3, 3, 3]),
        "i": pa.array([1, None, 3, 4, 5, 6], pa.int32()),
        "b": pa.array([True, False, None, True, True, None]),
        "f": pa.array([0.5, None, 1.5, 2.5, 3.5, 4.5]),
        "s": ["a", None, "b", "c", "d", "e"],
        "t": pa.array(range(6), pa.timestamp("us", "UTC")),
    }
)


@pytest.fixture(params=["blocks", "rows"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of pandas releases whose blocks are known, and of others."""
    if request.param == "rows":
        monkeypatch.setattr(module, "KNOWN_BLOCKS", False)
    else:
        assert module.KNOWN_BLOCKS


def frames_of(rows: pa.Table, starts: Any = STARTS, conf: PandasConf = BERLIN) -> list[pd.DataFrame]:
    return [frame for (frame,) in Frames(rows, np.array(starts, np.int32), ToPandas(conf))]


@pytest.mark.usefixtures("way")
def test_a_group_s_frame_is_that_of_its_rows_alone() -> None:
    for i, frame in enumerate(frames_of(ROWS)):
        alone = ToPandas(BERLIN).frame(ROWS.slice(STARTS[i], STARTS[i + 1] - STARTS[i]))
        pd.testing.assert_frame_equal(frame, alone, check_index_type=True, check_column_type=True)
        assert type(frame.index) is pd.RangeIndex
        assert frame.index.equals(pd.RangeIndex(len(alone)))


@pytest.mark.usefixtures("way")
def test_groups_may_be_passed_over() -> None:
    rows = pa.table({"k": range(200), "s": [str(i) for i in range(200)]})
    for group, frames in enumerate(Frames(rows, np.arange(0, 201, 2, np.int32), ToPandas(BERLIN))):
        if group in (0, 1, 3, 40, 41, 99):
            frame = next(iter(frames))
            assert frame["k"].tolist() == [2 * group, 2 * group + 1]
            assert frame["s"].tolist() == [str(2 * group), str(2 * group + 1)]


def test_a_frame_has_all_that_pandas_gives_its_own() -> None:
    frame = frames_of(ROWS)[0]
    own = pd.DataFrame({"k": [1]}, columns=pd.Index(["k"], dtype=object))
    for cut, made in ((frame, own), (frame.index, own.index), (frame.columns, own.columns), (frame.flags, own.flags)):
        assert type(cut) is type(made)
        assert vars(cut).keys() == vars(made).keys()
    assert frame.flags.allows_duplicate_labels
    frame.attrs["mine"] = 1
    assert frame.copy().attrs == {"mine": 1}


@pytest.mark.parametrize("int_extension", [False, True])
def test_dtypes_go_by_the_nulls_of_each_group(int_extension: bool) -> None:
    chance = random.Random(4)
    types = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.bool_(), pa.float32(), pa.string()]
    starts = [0]
    while starts[-1] < 300:
        starts.append(starts[-1] + chance.randrange(1, 4))

    def column(data_type: pa.DataType) -> pa.Array[Any]:
        values = [None if chance.random() < 0.3 else chance.randrange(2) for _ in range(starts[-1])]
        return pa.array(values, pa.int64()).cast(data_type)

    rows = pa.table({str(i): column(data_type) for i, data_type in enumerate(types)})
    to_pandas = ToPandas(PandasConf(int_extension=int_extension))
    for i, frame in enumerate(frames_of(rows, starts, PandasConf(int_extension=int_extension))):
        alone = to_pandas.frame(rows.slice(starts[i], starts[i + 1] - starts[i]))
        pd.testing.assert_frame_equal(frame, alone, check_index_type=True, check_column_type=True)


@pytest.mark.usefixtures("way")
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("copy_on_write", [False, True])
def test_writing_to_a_frame_changes_no_other(copy_on_write: bool) -> None:
    with pd.option_context("mode.copy_on_write", copy_on_write):
        rows = ROWS.select(["k", "f", "s", "t"])
        expected = frames_of(rows)
        first, second, third = frames_of(rows)
        for changed, kept in ((first, second), (third, second)):
            changed["k"] = -1
            changed["new"] = changed["f"] + 1
            changed.loc[0, "f"] = 99.0
            changed.iloc[0, 2] = "changed"
            changed.insert(0, "front", 1)
            changed.sort_values("f", inplace=True)
            changed.columns.name = "of columns"
            changed.index.name = "of rows"
            changed.rename(columns={"s": "renamed"}, inplace=True)
            del changed["t"]
            pd.testing.assert_frame_equal(kept, expected[1])
        assert first["f"].tolist()[0] == 99.0 or first["f"].tolist()[1] == 99.0
        assert second.columns.name is None
        assert second.index.name is None
        second["k"] = second["k"].astype("float64")
        second[["k", "f"]] = 0.0
        assert third["k"].tolist() == [-1, -1, -1]


@pytest.mark.usefixtures("way")
def test_labels_that_a_function_writes_over_are_those_of_one_frame() -> None:
    rows = ROWS.select(["k", "f", "s"])
    numbers = frames_of(rows)[0]["k"].tolist()
    first, second, _ = frames_of(rows)
    first.columns.values[0] = "renamed"
    assert first.columns.tolist() == ["renamed", "f", "s"]
    assert first["renamed"].tolist() == numbers
    assert "k" not in first
    first["renamed"] = -1
    first["k"] = 7
    assert first.columns.tolist() == ["renamed", "f", "s", "k"]
    assert second.columns.tolist() == ["k", "f", "s"]
    assert second["k"].tolist() == [2]
    assert "renamed" not in second


def test_timestamps_are_naive_in_the_session_s_time_zone_whatever_arrow_says() -> None:
    noon = pa.array([1_711_846_800_000_000], pa.timestamp("us", "UTC"))
    nested = pa.StructArray.from_arrays([noon], ["t"])
    rows = pa.table({"t": noon, "s": nested, "a": pa.array([[1_711_846_800_000_000]], pa.list_(noon.type))})
    frame = frames_of(rows, [0, 1])[0]
    local = pd.Timestamp("2024-03-31 03:00:00")
    assert frame["t"].tolist() == [local]
    assert frame["s"].tolist() == [{"t": local}]
    assert frame["a"][0].tolist() == [local]


@pytest.mark.parametrize(
    ("column", "values"),
    [
        (pa.array([1, None], pa.int8()), [np.int8(1), np.float64("nan")]),
        (pa.array([1, 2]), [np.int64(1), np.int64(2)]),
        (pa.array([True, None]), [np.True_, None]),
        (pa.array([1.5, None], pa.float32()), [np.float32(1.5), np.float32("nan")]),
        (pa.array(["a", None]), ["a", None]),
        (pa.array([b"a", None]), [b"a", None]),
        (pa.array([0, None], pa.timestamp("us", "UTC")), [pd.Timestamp("1970-01-01 01:00:00"), pd.NaT]),
        (pa.array([0, None], pa.duration("us")), [pd.Timedelta(0), pd.NaT]),
        (pa.array([{"x": 1}, None], pa.struct({"x": pa.int32()})), [{"x": 1}, None]),
    ],
)
def test_values_of_keys_are_of_numpy_and_pandas(column: pa.Array[Any], values: list[Any]) -> None:
    keys = pa.StructArray.from_arrays([column], ["k"])
    found = [value for (value,) in ToPandas(BERLIN).tuples(keys)]
    assert [(type(value), str(value)) for value in found] == [(type(value), str(value)) for value in values]


def test_many_windows_are_the_dicts_that_each_alone_is() -> None:
    times = pa.array([0, 1_711_846_800_000_000], pa.timestamp("us", "UTC"))
    chunks = pa.StructArray.from_arrays([times, times], ["start", "end"])
    found = [value for (value,) in ToPandas(BERLIN).tuples(pa.StructArray.from_arrays([chunks], ["w"]))]
    one_by_one = [ToPandas(BERLIN).series(chunks.slice(i, 1))[0] for i in range(2)]
    assert found == one_by_one
    for chunk, expected in zip(found, one_by_one, strict=True):
        assert [(type(at), at.unit) for at in chunk.values()] == [(type(at), at.unit) for at in expected.values()]


def test_a_key_without_columns_is_an_empty_tuple() -> None:
    nothing: Any = pa.Array.from_buffers(pa.struct([]), 2, [None])
    assert list(ToPandas(BERLIN).tuples(nothing)) == [(), ()]


@pytest.mark.skipif(IS_4_1, reason="PySpark has no such setting before 4.2")
def test_keys_of_extension_integers() -> None:
    keys = pa.StructArray.from_arrays([pa.array([1, None])], ["k"])
    (one,), (null,) = ToPandas(PandasConf(int_extension=True)).tuples(keys)
    assert type(one) is np.int64
    assert one == 1
    assert null is pd.NA
