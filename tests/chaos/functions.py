"""One stateful function in the three forms that users write, and what it does in plain Python.

It counts and sums v by user, and forgets a user whose sum is divisible by 5. Under a timeout each call with rows sets
one; when it is over, the count comes out negative, and the user is forgotten if it is odd, else kept without timeout.
The result does not depend on the order of the rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Row

from hdfsstore.spark import groupBy
from tests.chaos.faults import strike

OUTPUT = "user long, n long, total long"
STATE = "n long, total long"
METHODS = ("mapInArrowWithState", "mapWithState", "applyInPandasWithState")
TIMEOUTS = ("NoTimeout", "ProcessingTimeTimeout", "EventTimeTimeout")
# Milliseconds: how long a timeout is, and the watermark's delay.
GAP = {"ProcessingTimeTimeout": 1, "EventTimeTimeout": 7000}
DELAY = 2000

Totals = dict[int, tuple[int, int]]


def in_arrow(folder: str, timeouts: str, rows: pa.Table, state: Any) -> pa.Table:
    strike(folder, "function")
    expired = state.expired()
    if expired.num_rows:
        before = state.get(expired)
        odd = pc.equal(pc.bit_wise_and(before["n"], 1), 1)
        state.remove(expired.filter(odd))
        state.put(expired.filter(pc.invert(odd)), before.filter(pc.invert(odd)))
        return pa.table({"user": expired["user"], "n": pc.negate(before["n"]), "total": before["total"]})
    new = rows.group_by("user").aggregate([("v", "sum"), ("v", "count"), ("ms", "max")])
    before = state.get(new.select(["user"]))
    n = pc.add(new["v_count"], pc.fill_null(before["n"], 0))
    total = pc.add(new["v_sum"], pc.fill_null(before["total"], 0))
    output = pa.table({"user": new["user"], "n": n, "total": total, "ms": new["ms_max"]})
    forgotten = pc.equal(total, pc.multiply(pc.divide(total, 5), 5))
    state.remove(output.filter(forgotten).select(["user"]))
    kept = output.filter(pc.invert(forgotten))
    timeout = {
        "NoTimeout": lambda: None,
        "ProcessingTimeTimeout": lambda: GAP[timeouts],
        "EventTimeTimeout": lambda: pc.add(pc.max_element_wise(kept["ms"], state.watermark_ms), GAP[timeouts]),
    }[timeouts]()
    if kept.num_rows:
        state.put(kept.select(["user"]), kept.select(["n", "total"]), timeout)
    return output.select(["user", "n", "total"])


def in_rows(folder: str, timeouts: str, key: tuple[int], rows: Iterable[Row], state: Any) -> Iterator[Row]:
    strike(folder, "function")
    yield from (Row(*row) for row in _one_key(timeouts, key[0], [(row.v, row.ms) for row in rows], state))


def in_pandas(
    folder: str, timeouts: str, key: tuple[int], frames: Iterable[pd.DataFrame], state: Any
) -> Iterator[pd.DataFrame]:
    strike(folder, "function")
    rows = [(int(v), int(ms)) for it in frames for v, ms in zip(it.get("v", ()), it.get("ms", ()), strict=True)]
    yield pd.DataFrame(_one_key(timeouts, int(key[0]), rows, state), columns=["user", "n", "total"])


def _one_key(timeouts: str, user: int, rows: list[tuple[int, int]], state: Any) -> list[tuple[int, int, int]]:
    n, total = state.get if state.exists else (0, 0)
    if state.hasTimedOut:
        if n % 2:
            state.remove()
        else:
            state.update((n, total))
        return [(user, -n, total)]
    n, total = n + len(rows), total + sum(v for v, _ in rows)
    if total % 5 == 0:
        state.remove()
        return [(user, n, total)]
    state.update((n, total))
    if timeouts == "ProcessingTimeTimeout":
        state.setTimeoutDuration(GAP[timeouts])
    elif timeouts == "EventTimeTimeout":
        newest = max(ms for _, ms in rows)
        state.setTimeoutTimestamp(max(newest, state.getCurrentWatermarkMs()) + GAP[timeouts])
    return [(user, n, total)]


def stateful(rows: DataFrame, method: str, timeouts: str, folder: str) -> Any:
    """The stream that the function makes of rows (user, v, ms, and t with a watermark under EventTimeTimeout)."""
    function = {
        "mapInArrowWithState": in_arrow,
        "mapWithState": in_rows,
        "applyInPandasWithState": in_pandas,
    }[method]
    apply = getattr(groupBy(rows, "user"), method)
    return apply(partial(function, folder, timeouts), OUTPUT, STATE, "update", timeouts)


class Model:
    """What the function does, batch by batch.

    Attributes:
        state: user -> (n, total).
    """

    def __init__(self, timeouts: str) -> None:
        self._timeouts = timeouts
        self.state: Totals = {}
        self._due: dict[int, int] = {}

    def batch(
        self, rows: Iterable[tuple[int, int, int]], late_watermark: int, watermark: int, now: int
    ) -> list[tuple[int, int, int]]:
        """The output of a batch of rows (user, v, ms), sorted."""
        is_event = self._timeouts == "EventTimeTimeout"
        new = defaultdict(list)
        for user, v, ms in rows:
            if not is_event or ms > late_watermark:
                new[user].append((v, ms))
        output = []
        for user, its in new.items():
            n, total = self.state.get(user, (0, 0))
            n, total = n + len(its), total + sum(v for v, _ in its)
            output.append((user, n, total))
            self._forget(user)
            if total % 5:
                self.state[user] = n, total
                if is_event:
                    self._due[user] = max(watermark, *(ms for _, ms in its)) + GAP[self._timeouts]
                elif self._timeouts != "NoTimeout":
                    self._due[user] = now + GAP[self._timeouts]
        over = watermark if is_event else now
        for user in [user for user, due in self._due.items() if due < over]:
            n, total = self.state[user]
            output.append((user, -n, total))
            del self._due[user]
            if n % 2:
                self._forget(user)
        return sorted(output)

    def rows(self) -> dict[int, tuple[int, int, int]]:
        """The state's rows: user -> (n, total, timeout; -1: none)."""
        return {user: (n, total, self._due.get(user, -1)) for user, (n, total) in self.state.items()}

    def _forget(self, user: int) -> None:
        self.state.pop(user, None)
        self._due.pop(user, None)
