"""Adds the progress of the state to PySpark's StreamingQuery."""

from __future__ import annotations

import copy
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from hdfsstore.checkpoint.notebook import html_table
from hdfsstore.spark.metrics import Progress, ProgressLog


class StateProgress:
    """Reports what the batches of a query did to its state, under the names of Spark's progress."""

    def __init__(self, query: StreamingQuery, progress: ProgressLog) -> None:
        self._query = query
        self._progress = progress

    def __repr__(self) -> str:
        recent = self._progress.recent
        if not recent:
            return "StateProgress(no batch is done)"
        rows = recent[-1]["stateOperators"][0]["numRowsTotal"]
        return f"StateProgress(batch {recent[-1]['batchId']}, {rows:,} rows of state)"

    def _repr_html_(self) -> str:
        rows = [
            (batch["batchId"], batch["timestamp"], f"{batch['batchDuration']:,} ms", f"{operator['numRowsTotal']:,}")
            for batch in self._progress.recent
            for operator in batch["stateOperators"]
        ]
        return html_table("Batches of this run", ("batch", "time", "took", "rows of state"), rows)

    @property
    def recentProgress(self) -> list[Progress]:
        """The last batches, newest last. spark.sql.streaming.numRecentProgressUpdates limits their number."""
        recent = self._progress.recent
        if not recent:
            return []
        query = {"id": self._query.id, "runId": self._query.runId, "name": self._query.name}
        return [{**query, **copy.deepcopy(progress)} for progress in recent]

    @property
    def lastProgress(self) -> Progress | None:
        """The newest batch; None before the first one is done."""
        recent = self.recentProgress
        return recent[-1] if recent else None


class StatefulQuery(StreamingQuery):
    """A query that keeps its state with this package. It adds the attribute `hdfsstore` to PySpark's StreamingQuery.

    A batch that fails ends the query: exception() and awaitTermination() say why, as with any query.

    Attributes:
        hdfsstore: the progress of its state.
    """

    def __init__(self, jsq: Any, progress: ProgressLog) -> None:
        super().__init__(jsq)
        self.hdfsstore = StateProgress(self, progress)
