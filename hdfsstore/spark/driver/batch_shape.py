"""What is known of the batches before, by which the next one is planned. It stands in the driver's log with each batch:

    "batches":{"partitionBytes":[1048576,...],"partitionRows":250,"rowBytes":24.5}

    partitionBytes   of each of the last ten batches with rows, newest last: what the largest partition took in Arrow
    partitionRows    of the newest one: how many rows the smallest partition had
    rowBytes         of the newest one: the most that a row took, on average of the rows beside it, in or out

Where it says nothing, or nothing that makes sense, the batch is planned with care: it may be all that there is since
long. What larger batches or wider rows than expected bring about is said in docs/stateful-protocol.md.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from hdfsstore.spark.spec import Report

_BATCHES = 10
# A batch that is so many times as large as the largest of them is expected.
_GROWTH = 4
# A batch that has as many rows in each partition is not expected to have a partition without rows in the next one.
_DENSE_ROWS = 16


@dataclass(frozen=True, slots=True)
class BatchShapes:
    """What the batches before were like.

    Attributes:
        partition_bytes: of the largest partition of each, newest last.
        partition_rows: of the smallest partition of the newest.
        row_bytes: the most that a row of the newest took; None: it may be anything.
    """

    partition_bytes: tuple[int, ...] = ()
    partition_rows: int = 0
    row_bytes: float | None = None

    @classmethod
    def parse(cls, logged: Any) -> BatchShapes:
        """What the log says; nothing where it is damaged or of another release."""
        try:
            sizes, rows, row_bytes = (logged[name] for name in ("partitionBytes", "partitionRows", "rowBytes"))
            if type(rows) is int and type(row_bytes) in (int, float) and all(type(size) is int for size in sizes):
                return cls(tuple(sizes), rows, row_bytes)
        except (KeyError, TypeError):
            return cls()
        return cls()

    @property
    def logged(self) -> dict[str, Any]:
        """What the log is to say."""
        names = ("partitionBytes", "partitionRows", "rowBytes")
        return dict(zip(names, (list(self.partition_bytes), self.partition_rows, self.row_bytes), strict=True))

    def after(self, reports: Collection[Report]) -> BatchShapes:
        """What is known after a batch, by what its tasks reported."""
        if not any(report.metrics["numInputRows"] for report in reports):
            return self
        largest = max(int(report.metrics["inputBytes"]) for report in reports)
        return BatchShapes(
            (*self.partition_bytes, largest)[-_BATCHES:],
            min(int(report.metrics["numInputRows"]) for report in reports),
            max(report.row_bytes for report in reports),
        )

    def may_exceed(self, num_bytes: int) -> bool:
        """Whether a partition of the next batch may have more rows than so many bytes."""
        return not self.partition_bytes or _GROWTH * max(self.partition_bytes) > num_bytes

    @property
    def is_dense(self) -> bool:
        """Whether each partition of the next batch is expected to have rows."""
        return self.partition_rows >= _DENSE_ROWS
