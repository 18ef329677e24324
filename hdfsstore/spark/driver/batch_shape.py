"""Predicts the next batch from the batches before it. The driver's log records their shapes with each batch:

    "batches":{"partitionBytes":[1048576,...],"partitionRows":250,"rowBytes":24.5}

    partitionBytes   Arrow bytes of the largest partition, for each of the last ten batches with rows, newest last
    partitionRows    rows of the smallest partition of the newest batch
    rowBytes         the most bytes that a row of the newest batch took, in or out, as an average of rows beside it

If the log has no shapes, or invalid ones, the batch is planned for the worst case: it may hold all rows of a long time.
docs/stateful-protocol.md says what happens if a batch is larger, or its rows are wider, than expected.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from hdfsstore.spark.spec import Report

_BATCHES = 10
# The next batch is expected to be at most this many times as large as the largest of them.
_GROWTH = 4
# If each partition of a batch had this many rows, each partition of the next one is expected to have rows.
_DENSE_ROWS = 16


@dataclass(frozen=True, slots=True)
class BatchShapes:
    """Shapes of the batches so far.

    Attributes:
        partition_bytes: bytes of the largest partition of each batch, newest last.
        partition_rows: rows of the smallest partition of the newest batch.
        row_bytes: the most bytes that a row of the newest batch took; None: not known.
    """

    partition_bytes: tuple[int, ...] = ()
    partition_rows: int = 0
    row_bytes: float | None = None

    @classmethod
    def parse(cls, logged: Any) -> BatchShapes:
        """The shapes that the log has; no shapes if they are damaged or from another release."""
        try:
            sizes, rows, row_bytes = (logged[name] for name in ("partitionBytes", "partitionRows", "rowBytes"))
            if type(rows) is int and type(row_bytes) in (int, float) and all(type(size) is int for size in sizes):
                return cls(tuple(sizes), rows, row_bytes)
        except (KeyError, TypeError):
            return cls()
        return cls()

    @property
    def logged(self) -> dict[str, Any]:
        """The shapes as the log records them."""
        names = ("partitionBytes", "partitionRows", "rowBytes")
        return dict(zip(names, (list(self.partition_bytes), self.partition_rows, self.row_bytes), strict=True))

    def after(self, reports: Collection[Report]) -> BatchShapes:
        """The shapes after one more batch, by the reports of its tasks."""
        if not any(report.metrics["numInputRows"] for report in reports):
            return self
        largest = max(int(report.metrics["inputBytes"]) for report in reports)
        return BatchShapes(
            (*self.partition_bytes, largest)[-_BATCHES:],
            min(int(report.metrics["numInputRows"]) for report in reports),
            max(report.row_bytes for report in reports),
        )

    def may_exceed(self, num_bytes: int) -> bool:
        """Whether the rows of a partition of the next batch may take more than so many bytes."""
        return not self.partition_bytes or _GROWTH * max(self.partition_bytes) > num_bytes

    @property
    def is_dense(self) -> bool:
        """Whether each partition of the next batch is expected to have rows."""
        return self.partition_rows >= _DENSE_ROWS
