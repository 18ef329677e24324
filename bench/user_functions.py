"""The functions whose speed is compared: count and sum of a user's amounts, as a user of each API writes it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from bench.events import START_MS

ROWS = "user string, amount bigint"
OUTPUT = "user string, count bigint, sum bigint"
STATE = "count bigint, sum bigint"


def sums(rows: pa.Table) -> pa.Table:
    """Count and sum by user, of these rows alone."""
    grouped = rows.group_by("user").aggregate([("amount", "count"), ("amount", "sum")])
    return grouped.select(["user", "amount_count", "amount_sum"]).rename_columns(["user", "count", "sum"])


def arrow_sums(rows: pa.Table, state: Any) -> pa.Table:
    """For mapInArrowWithState."""
    new = sums(rows)
    keys = new.select(["user"])
    old = state.get(keys)
    columns = [pc.add(new[name], pc.fill_null(old[name], 0)) for name in ("count", "sum")]
    state.put(keys, pa.table(columns, ["count", "sum"]))
    return pa.table([new["user"], *columns], ["user", "count", "sum"])


def row_sums(key: tuple[Any, ...], rows: Iterator[Any], state: Any) -> Iterator[Row]:
    """For mapWithState."""
    count, total = state.get if state.exists else (0, 0)
    for row in rows:
        count += 1
        total += row.amount
    state.update((count, total))
    yield Row(user=key[0], count=count, sum=total)


def pandas_sums(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    """For applyInPandasWithState: one output frame a key."""
    count, total = state.get if state.exists else (0, 0)
    for frame in frames:
        count += len(frame)
        total += int(frame["amount"].sum())
    state.update((count, total))
    yield pd.DataFrame({"user": [key[0]], "count": [count], "sum": [total]})


class RowSums(StatefulProcessor):
    """For transformWithState."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._sums = handle.getValueState("sums", STATE)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: ARG002
        count, total = self._sums.get() if self._sums.exists() else (0, 0)
        for row in rows:
            count += 1
            total += row.amount
        self._sums.update((count, total))
        yield Row(user=key[0], count=count, sum=total)

    def close(self) -> None:
        """Nothing is open."""


class DictState:
    """As much of a GroupState as these functions use, over a dict."""

    __slots__ = ("_key", "_states")

    def __init__(self, states: dict[Any, Any], key: Any) -> None:
        self._states = states
        self._key = key

    @property
    def exists(self) -> bool:
        """Whether the key has a state."""
        return self._key in self._states

    @property
    def get(self) -> Any:
        """The key's state."""
        return self._states[self._key]

    def update(self, value: Any) -> None:
        """Sets the key's state."""
        self._states[self._key] = value


# The same functions with timeouts: 1,000 of a batch's 50,000 users expire two batches later, all others in a month.
EXPIRED_OF = 50
DUE_USERS = ("07", "57")
SOON_MS = 90_000
LATE_MS = 30 * 86_400_000


def arrow_sums_with_timeouts(rows: pa.Table, state: Any) -> pa.Table:
    """For mapInArrowWithState under EventTimeTimeout."""
    expired = state.expired()
    if expired.num_rows:
        state.remove(expired)
        zeros = pa.array(np.zeros(expired.num_rows, np.int64))
        return pa.table([expired["user"], zeros, zeros], ["user", "count", "sum"])
    new = sums(rows)
    keys = new.select(["user"])
    old = state.get(keys)
    columns = [pc.add(new[name], pc.fill_null(old[name], 0)) for name in ("count", "sum")]
    timeouts = np.full(len(keys), max(state.watermark_ms, START_MS) + LATE_MS)
    timeouts[::EXPIRED_OF] -= LATE_MS - SOON_MS
    state.put(keys, pa.table(columns, ["count", "sum"]), pa.array(timeouts))
    return pa.table([new["user"], *columns], ["user", "count", "sum"])


def _timeout_ms(user: str, state: Any) -> int:
    is_due_soon = user.endswith(DUE_USERS)
    return max(state.getCurrentWatermarkMs(), START_MS) + (SOON_MS if is_due_soon else LATE_MS)


def row_sums_with_timeouts(key: tuple[Any, ...], rows: Iterator[Any], state: Any) -> Iterator[Row]:
    """For mapWithState under EventTimeTimeout."""
    if state.hasTimedOut:
        state.remove()
        yield Row(user=key[0], count=0, sum=0)
        return
    yield from row_sums(key, rows, state)
    state.setTimeoutTimestamp(_timeout_ms(key[0], state))


def pandas_sums_with_timeouts(
    key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: Any
) -> Iterator[pd.DataFrame]:
    """For applyInPandasWithState under EventTimeTimeout."""
    if state.hasTimedOut:
        state.remove()
        yield pd.DataFrame({"user": [key[0]], "count": [0], "sum": [0]})
        return
    yield from pandas_sums(key, frames, state)
    state.setTimeoutTimestamp(_timeout_ms(key[0], state))
