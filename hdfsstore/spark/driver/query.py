"""The running query: PySpark's StreamingQuery, and how its state does."""

from __future__ import annotations

import copy
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from hdfsstore.spark.metrics import Progress, ProgressLog


class StateProgress:
    """What the batches of a query did to its state, in the names of Spark's progress."""

    def __init__(self, query: StreamingQuery, progress: ProgressLog) -> None:
        self._query = query
        self._progress = progress

    @property
    def recentProgress(self) -> list[Progress]:
        """The last batches, newest last; spark.sql.streaming.numRecentProgressUpdates says how many."""
        recent = self._progress.recent
        if not recent:
            return []
        query = {"id": self._query.id, "runId": self._query.runId, "name": self._query.name}
        return [{**query, **copy.deepcopy(progress)} for progress in recent]

    @property
    def lastProgress(self) -> Progress | None:
        """The newest of them; None before the first batch is done."""
        recent = self.recentProgress
        return recent[-1] if recent else None


class StatefulQuery(StreamingQuery):
    """A query that keeps its state with this package. All that PySpark's StreamingQuery offers, and `hdfsstore`.

    A batch that fails ends the query: exception() and awaitTermination() say why, as with any query.

    Attributes:
        hdfsstore: what its batches did to the state.
    """

    def __init__(self, jsq: Any, progress: ProgressLog) -> None:
        super().__init__(jsq)
        self.hdfsstore = StateProgress(self, progress)
