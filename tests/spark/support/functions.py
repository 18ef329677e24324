"""Stateful functions as users write them, for PySpark's API and ours alike; what they give out tells what they saw."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pandas as pd
from pyspark.sql import Row

Frames = Iterator[pd.DataFrame]
SEEN = "k STRING, seen STRING"
NAN = float("nan")


def at(seconds: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(seconds, dt.UTC)


def told(key: tuple[Any, ...], *seen: Any) -> pd.DataFrame:
    return pd.DataFrame({"k": [repr(key)], "seen": [repr(seen)]})


def count(key: tuple[Any, ...], frames: Frames, state: Any) -> Iterator[pd.DataFrame]:
    """Counts and sums; the sum is null until there is a number."""
    rows, total = state.getOption or (0, None)
    for frame in frames:
        rows += len(frame)
        if frame["n"].notna().any():
            total = (total or 0) + int(frame["n"].sum())
    state.update((rows, total))
    yield pd.DataFrame({"k": [repr(key)], "rows": [rows], "total": [total]})


def tell_key(key: tuple[Any, ...], frames: Frames, state: Any) -> Iterator[pd.DataFrame]:
    """The key and how many rows it has had, whatever columns there are."""
    rows = (state.get[0] if state.exists else 0) + sum(len(frame) for frame in frames)
    state.update((rows,))
    yield told(key, rows)


def sessions(key: tuple[Any, ...], frames: Frames, state: Any) -> Iterator[pd.DataFrame]:
    """Closes a session of a user 10 seconds after its last click, and gives it out then."""
    if state.hasTimedOut:
        start, end, clicks = state.get
        state.remove()
        yield pd.DataFrame({"k": [key[0]], "start": [start], "stop": [end], "clicks": [clicks]})
        return
    times = [moment for frame in frames for moment in frame["t"].astype("datetime64[ms]").astype("int64")]
    start, end, clicks = state.getOption or (min(times), 0, 0)
    end = max(end, *times)
    state.update((min(start, *times), end, clicks + len(times)))
    state.setTimeoutTimestamp(max(end + 10_000, state.getCurrentWatermarkMs()))


def deduplicate(key: tuple[Any, ...], frames: Frames, state: Any) -> Iterator[pd.DataFrame]:
    """Gives out a key once, and nothing when it comes again."""
    if state.exists:
        return
    first = next(iter(frames))
    state.update((len(first) > 0,))
    yield told(key)


def toggle(key: tuple[Any, ...], frames: Frames, state: Any) -> list[pd.DataFrame]:
    """Removes a state that is there and sets one that is not; two keys have a mind of their own."""
    before = state.getOption
    if key[0] == "both":
        state.remove()
        state.update((9, "again"))
    elif key[0] == "neither":
        state.update((9, "gone"))
        state.remove()
    elif state.exists:
        state.remove()
    else:
        state.update((sum(len(frame) for frame in frames), None))
    return [told(key, before, state.exists, state.getOption)]


def largest(key: tuple[Any, ...], frames: Frames, state: Any) -> Iterator[pd.DataFrame]:
    """All rows of a key, however many frames they come in; gives out one frame for each that is empty or not."""
    numbers = [number for frame in frames for number in frame["n"]]
    state.update((max(numbers), len(numbers)))
    yield pd.DataFrame({"k": [key[0]] * len(numbers), "n": sorted(numbers)})
    yield pd.DataFrame({"k": [], "n": []})
    yield pd.DataFrame()


def tell_rows(key: tuple[Any, ...], frames: Frames, state: Any) -> Iterator[pd.DataFrame]:
    """What func got: the types of keys and columns, and the rows."""
    rows, dtypes = [], []
    for frame in frames:
        dtypes.append([(name, str(kind)) for name, kind in frame.dtypes.items()])
        rows += [[repr(value) for value in row] for row in frame.astype(object).values.tolist()]
    state.update((len(rows) + (state.get[0] if state.exists else 0),))
    kinds = [type(part).__name__ for part in key]
    yield told(key, kinds, dtypes, sorted(rows))


TYPES = (
    "b BOOLEAN, y TINYINT, h SMALLINT, i INT, l BIGINT, f FLOAT, d DOUBLE, c DECIMAL(10,2), "
    "c2 DECIMAL(30,5), s STRING, x BINARY, e DATE, t TIMESTAMP, u TIMESTAMP_NTZ, v INTERVAL DAY TO SECOND"
)
NAMES = TYPES.replace("INTERVAL DAY TO SECOND", "INTERVAL").split(", ")
TYPE_NAMES = [name.split()[0] for name in NAMES]
# PySpark 4.3.0 cannot have arrays or maps in the state: its worker gets the schema in lower case.
NESTED = "st STRUCT<p: LONG, q: STRUCT<r: STRING, w: STRUCT<z: INT>>>"
ONE_OF_EACH: tuple[Any, ...] = (
    *(True, 1, 2, 3, 4, 1.5, 2.5, Decimal("1.25"), Decimal("3.00001"), "s", b"x"),
    *(dt.date(2020, 1, 2), at(1.5), dt.datetime(2020, 1, 1), dt.timedelta(seconds=3)),
)
EXTREMES: tuple[Any, ...] = (
    *(False, -(2**7), -(2**15), -(2**31), -(2**63), NAN, float("-inf"), Decimal("-99999999.99")),
    *(Decimal("-9999999999999999999999999.99999"), "ü€𝄞 long enough to be no short string", b""),
    *(dt.date(1680, 1, 2), at(-5e9), dt.datetime(1680, 1, 1, 0, 0, 0, 1), dt.timedelta(-1)),
)
NOTHING = (None,) * len(TYPE_NAMES)
VALUES = {
    "one": (*ONE_OF_EACH[:12], dt.datetime(2021, 1, 2, 3, 4, 5, 678), *ONE_OF_EACH[13:], (5, ("r", (1,)))),
    "extremes": (*EXTREMES[:12], at(-5e9), *EXTREMES[13:], Row(p=5, q=Row(r=None, w=None))),
    "nothing": (*NOTHING, None),
    "pandas": (
        *pd.Series([True]),
        *(pd.Series([1], dtype=kind)[0] for kind in ("int8", "int16", "int32", "int64", "float32", "float64")),
        *(Decimal("1.2"), Decimal(3), "s", bytearray(b"x"), dt.date(2020, 1, 2)),
        *(
            pd.Timestamp(1, unit="s"),
            pd.Timestamp(2, unit="s"),
            pd.Timedelta(5, "s"),
            {"p": 5, "q": {"r": "r", "w": None}},
        ),
    ),
}


def keep_values(key: tuple[Any, ...], _: Frames, state: Any) -> Iterator[pd.DataFrame]:
    """Puts the values of VALUES into the state, and tells how they come back."""
    before = state.getOption
    if not state.exists:
        state.update(VALUES[key[0]])
    yield told(key, before)


def spread(key: tuple[Any, ...], frames: Frames, state: Any) -> Iterator[pd.DataFrame]:
    """A state of 70 columns, so that its row has two words of null bits; every seventh is null."""
    before = state.getOption or (0,) * 70
    rows = sum(len(frame) for frame in frames)
    state.update(tuple(None if (i + rows) % 7 == 0 else (before[i] or 0) + i for i in range(70)))
    yield told(key, before)


def every_type(_: tuple[Any, ...], frames: Frames, state: Any) -> Iterator[pd.DataFrame]:
    """Gives out what it gets."""
    state.update((1,))
    yield from frames


def cast_output(key: tuple[Any, ...], frames: Frames, state: Any) -> list[pd.DataFrame]:
    """Columns in another order than the schema's, and numbers that have to be cast."""
    state.update((True,))
    return [pd.DataFrame({"name": [None, key[0]], "rows": [float(len(frame)), None]}) for frame in frames]


COLLECTIONS = {
    "full": ([1, None, 3], {"a": 1.5, "b": None}, [(1,), None], {"x": [1, None], "y": []}),
    "empty": ([], {}, [], {}),
    "nothing": (None,) * 4,
}


def keep_collections(key: tuple[Any, ...], _: Frames, state: Any) -> Iterator[pd.DataFrame]:
    """As keep_values."""
    before = state.getOption
    if not state.exists:
        state.update(COLLECTIONS[key[0]])
    yield told(key, before)
