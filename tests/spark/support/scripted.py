"""A stateful function whose rows tell it what to do: one function for every order of calls on a GroupState."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.state import GroupState

SCRIPT_COLUMNS = "k STRING, t TIMESTAMP, i INT, ops STRING"
SCRIPT_STATE = "n LONG, later STRING"
SCRIPT_OUTPUT = "k STRING, seen STRING, columns STRING"


def play(rows: Iterable[tuple[int, str]], state: Any) -> str:
    """Runs the ops of each row (number, ops) in order of its number; on a time-out those that the state keeps.

    An op is `verb:argument`; `later` keeps ops for the time-out, written `verb,argument.verb,argument`.

    Returns:
        all that state said before, between and after, as text without absolute times.
    """
    said = [
        ("timed out" if state.hasTimedOut else "rows"),
        state.exists,
        state.getOption,
        tried(state.getCurrentWatermarkMs),
    ]
    if state.hasTimedOut:
        script = (state.getOption or (0, None))[1] or ""
        ops = [op.replace(",", ":") for op in script.split(".") if op]
    else:
        ops = [op for _, script in sorted(rows) for op in script.split()]
    for op in ops:
        verb, _, argument = op.partition(":")
        said.append((verb, VERBS[verb](state, argument)))
    said += [state.exists, state.getOption]
    return repr(said)


def tried(call: Callable[[], Any]) -> Any:
    """What a call returns, or the built-in error that it raises: errors need not be PySpark's, but of their kind."""
    try:
        return call()
    except (TypeError, ValueError, RuntimeError) as error:
        return next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins")


def _add(state: Any, number: str) -> None:
    n, later = state.getOption or (0, None)
    state.update(((n or 0) + int(number), later))


def _later(state: Any, ops: str) -> None:
    state.update(((state.getOption or (0, None))[0], ops))


def _watermark(state: Any, seconds: str) -> Any:
    return tried(lambda: state.setTimeoutTimestamp(state.getCurrentWatermarkMs() + int(float(seconds) * 1000)))


VERBS: dict[str, Callable[[Any, str], Any]] = {
    "add": _add,
    "later": _later,
    "rm": lambda state, _: state.remove(),
    "get": lambda state, _: tried(lambda: state.get),
    "none": lambda state, _: tried(lambda: state.update(None)),
    "short": lambda state, _: tried(lambda: state.update(5)),
    "wm": _watermark,
    "at": lambda state, seconds: tried(lambda: state.setTimeoutTimestamp(int(float(seconds) * 1000))),
    "dt": lambda state, s: tried(lambda: state.setTimeoutTimestamp(dt.datetime.fromtimestamp(float(s), dt.UTC))),
    "for": lambda state, ms: tried(lambda: state.setTimeoutDuration(float(ms) if "." in ms else int(ms))),
    "words": lambda state, _: tried(lambda: state.setTimeoutDuration("1 hour")),
}


def play_pandas(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    """`play` for applyInPandasWithState; also tells the frames' columns."""
    got = list(frames)
    rows = [pair for frame in got for pair in zip(frame["i"], frame["ops"], strict=True)]
    columns = [[(name, str(kind)) for name, kind in frame.dtypes.items()] for frame in got]
    yield pd.DataFrame({"k": [key[0]], "seen": [play(rows, state)], "columns": [repr(columns)]})


def play_rows(key: tuple[Any, ...], rows: Iterator[Row], state: Any) -> Iterator[Row]:
    """`play` for mapWithState."""
    yield Row(k=key[0], seen=play([(row.i, row.ops) for row in rows], state), columns=None)


def play_arrow(timeout: str, has_watermark: bool, rows: pa.Table, state: Any) -> pa.Table:
    """`play` for mapInArrowWithState: PySpark's GroupState for each key, written back by Spark's rules."""
    expired = state.expired()
    keys = (expired if expired.num_rows else rows).group_by("k").aggregate([]).select(["k"])
    values = state.get(keys)
    made: list[dict[str, Any]] = []
    states: list[GroupState] = []
    for key, value in zip(keys["k"].to_pylist(), values.to_pylist(), strict=True):
        exists = value["n"] is not None
        one = GroupState(
            *(
                Row(**value),
                state.processing_time_ms,
                state.watermark_ms,
                timeout,
                bool(expired.num_rows),
                has_watermark,
            ),
            *(exists, False, False, GroupState.NO_TIMESTAMP, b"", None),
        )
        got = [
            (i, ops)
            for k, i, ops in zip(*map(pa.ChunkedArray.to_pylist, rows.select(["k", "i", "ops"])), strict=True)
            if k == key
        ]
        made.append({"k": key, "seen": play(got, one), "columns": None})
        states.append(one)
    for row, one in zip(made, states, strict=True):
        _write(row["k"], one, state, timeout)
    return pa.Table.from_pylist(made, pa.schema({"k": pa.string(), "seen": pa.string(), "columns": pa.string()}))


def _write(key: str | None, one: Any, state: Any, timeout: str) -> None:
    keys, expires = pa.array([key], pa.string()), one._timeout_timestamp
    if one._removed and expires == GroupState.NO_TIMESTAMP:
        state.remove(keys)
    elif one._updated or expires != GroupState.NO_TIMESTAMP:
        n, later = one.getOption or (None, None)
        value = pa.table({"n": pa.array([n], pa.int64()), "later": pa.array([later], pa.string())})
        since = state.processing_time_ms if timeout == "ProcessingTimeTimeout" else 0
        state.put(keys, value, None if expires == GroupState.NO_TIMESTAMP else int(expires) - since)
