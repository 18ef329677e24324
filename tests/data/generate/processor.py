"""The stateful processors of the transformWithState cases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

OUTPUT = "k STRING, total BIGINT"
HOUR = 3_600_000


def numbers(rows: Iterator[pd.DataFrame]) -> list[int]:
    return [int(n) for frame in rows for n in frame["n"] if not pd.isna(n)]


def output(key: Any, total: int) -> pd.DataFrame:
    return pd.DataFrame({"k": [key[0]], "total": [total]})


class Totals(StatefulProcessor):
    """Keeps a total, all values, and how often each value was seen."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.total = handle.getValueState("total", "total BIGINT")
        self.seen = handle.getListState("seen", "n INT")
        self.times = handle.getMapState("times", "n INT", "times BIGINT")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: ARG002
        values = numbers(rows)
        total = (self.total.get()[0] if self.total.exists() else 0) + sum(values)
        self.total.update((total,))
        for value in values:
            self.seen.appendValue((value,))
            times = self.times.getValue((value,))[0] if self.times.containsKey((value,)) else 0
            self.times.updateValue((value,), (times + 1,))
        yield output(key, total)

    def close(self) -> None:
        pass


class Structures(Totals):
    """Values of several fields: null, long and short; lists that are replaced and cleared, and keys that go."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.total = handle.getValueState("total", "total BIGINT, word STRING, ratio DOUBLE")
        self.seen = handle.getListState("seen", "n INT, word STRING")
        self.times = handle.getMapState("times", "n INT, word STRING", "times BIGINT, words ARRAY<STRING>")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: ARG002
        values = numbers(rows)
        word = None if key[0] is None else key[0] * 3
        total = (self.total.get()[0] if self.total.exists() else 0) + sum(values)
        self.total.update((total, word, total / 8 if total % 2 else None))
        if total % 5 == 0:
            self.seen.clear()
        if total % 3 == 0:
            self.seen.put([(value, word) for value in (*values, total)])
        elif values:
            self.seen.appendList([(None if value % 4 == 0 else value, "," * value) for value in values])
        for value in values:
            self.times.updateValue((value % 4, word), (value, self.words(word, value)))
        if total % 4 == 1:
            self.times.clear()
        yield output(key, total)

    def words(self, word: str | None, value: int) -> list[str | None]:
        return [word, "x" * value]


class Filled(Structures):
    """The same without null in a list, for which Spark's Avro encoder has no place."""

    def words(self, word: str | None, value: int) -> list[str | None]:
        return [word or "", "x" * value]


class Extended(Totals):
    """Totals after its schemas have changed: wider and new fields, a state that is new, and one that is gone."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.total = handle.getValueState("total", "total BIGINT, last STRING, more INT")
        self.seen = handle.getListState("seen", "n BIGINT, word STRING")
        self.fresh = handle.getMapState("fresh", "n INT", "word STRING")
        handle.deleteIfExists("times")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: ARG002
        values = numbers(rows)
        total = (self.total.get()[0] if self.total.exists() else 0) + sum(values)
        self.total.update((total, key[0], len(values)))
        for value in values:
            self.seen.appendValue((value + 2**40, key[0]))
            self.fresh.updateValue((value,), (key[0],))
        yield output(key, total)


class Expiring(Totals):
    """A value, a list and a map with times to live."""

    lives = (HOUR, HOUR, HOUR)

    def init(self, handle: StatefulProcessorHandle) -> None:
        value, list_, map_ = self.lives
        self.total = handle.getValueState("total", "total BIGINT", value)
        self.seen = handle.getListState("seen", "n INT", list_)
        self.times = handle.getMapState("times", "n INT", "times BIGINT", map_)


class Expired(Expiring):
    """Times to live that end between batches."""

    lives = (1, 1, 1)


class Alarms(StatefulProcessor):
    """Counts rows, registers two timers a key, deletes some, and clears the count when one fires."""

    after = (60_000, 600_000)

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.count = handle.getValueState("count", "count BIGINT")

    def now(self, timers: Any) -> int:
        return timers.getCurrentWatermarkInMs()

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        count = (self.count.get()[0] if self.count.exists() else 0) + sum(len(frame) for frame in rows)
        self.count.update((count,))
        registered = list(self.handle.listTimers())
        if len(registered) > 2:
            self.handle.deleteTimer(registered[-1])
        for after in self.after:
            self.handle.registerTimer(self.now(timerValues) + after)
        yield output(key, count)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:  # noqa: ARG002
        self.count.clear()
        yield output(key, -1)

    def close(self) -> None:
        pass


class ClockAlarms(Alarms):
    """The same in processing time."""

    after = (500, HOUR)

    def now(self, timers: Any) -> int:
        return timers.getCurrentProcessingTimeInMs()
