"""What the next batch is like, going by the last one that had rows: how it is best planned.

Rows that are too many, where few were expected, are run again, sorted; a partition without rows, where none was
expected, is run in a job of its own. What wider rows than expected bring about is said in docs/stateful-protocol.md.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from hdfsstore.spark.spec import Report

# A batch that has as many rows in each partition is not expected to have a partition without rows in the next one.
_DENSE_ROWS = 16


@dataclass(frozen=True, slots=True)
class BatchShape:
    """What a run's first batch is taken for, of which nothing is known: it may be all that there is since long.

    Attributes:
        is_large: whether a partition may have more rows than are held at a time.
        is_dense: whether each partition has rows.
        row_bytes: the most that a row may take, on average of the rows beside it; None: it may be anything.
    """

    is_large: bool = True
    is_dense: bool = False
    row_bytes: float | None = None

    @classmethod
    def of(cls, reports: Collection[Report], max_bytes_per_call: int) -> BatchShape:
        """That of a batch by what its tasks reported."""
        return cls(
            is_large=max(report.metrics["inputBytes"] for report in reports) > max_bytes_per_call / 2,
            is_dense=min(report.metrics["numInputRows"] for report in reports) >= _DENSE_ROWS,
            row_bytes=max(report.row_bytes for report in reports),
        )
