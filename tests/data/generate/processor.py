"""The stateful processor of the transformWithState cases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

OUTPUT = "k STRING, total BIGINT"


class Totals(StatefulProcessor):
    """Keeps a total, all values, and how often each value was seen."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.total = handle.getValueState("total", "total BIGINT")
        self.seen = handle.getListState("seen", "n INT")
        self.times = handle.getMapState("times", "n INT", "times BIGINT")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: ARG002
        values = [int(n) for frame in rows for n in frame["n"] if not pd.isna(n)]
        total = (self.total.get()[0] if self.total.exists() else 0) + sum(values)
        self.total.update((total,))
        for value in values:
            self.seen.appendValue((value,))
            times = self.times.getValue((value,))[0] if self.times.containsKey((value,)) else 0
            self.times.updateValue((value,), (times + 1,))
        yield pd.DataFrame({"k": [key[0]], "total": [total]})

    def close(self) -> None:
        pass
