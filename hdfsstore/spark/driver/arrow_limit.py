"""Lifts a limit on Arrow batches, so that Spark need not compute the size of a batch after each row.

The rows that go to a Python worker are written to batches of at most `maxRecordsPerBatch` rows and `maxBytesPerBatch`
bytes. For the second limit Spark (4.3, BatchedPythonArrowInput) adds up the buffers of all columns after every row,
unless the limit is the largest possible number. That takes longer than writing the row.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession

_MAX_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_MAX_RECORDS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_NO_LIMIT = str((1 << 31) - 1)
# The limit is lifted if batches of rows like those so far stay below this size. It is a sixteenth of Spark's own limit,
# because the next rows may be wider.
_SMALL_BATCH = 4 << 20


class ArrowLimit:
    """The limit of one run of a query.

    Args:
        rows: the query's stream. The limit stays if Spark calls Python to make these rows, because the size of what it
            sends there is not known. It also stays if the user has set it.
    """

    def __init__(self, rows: DataFrame) -> None:
        conf = rows.sparkSession.conf
        self._max_records = int(conf.get(_MAX_RECORDS) or 0)
        is_ours = conf.get(_MAX_BYTES, _NO_LIMIT) == _NO_LIMIT and not _calls_python(rows)
        self._may_lift = is_ours and self._max_records > 0

    @contextmanager
    def lifted(self, spark: SparkSession, row_bytes: float | None) -> Iterator[None]:
        """Lifts the limit within the context, if batches stay far below it. It applies to all that the session runs.

        Args:
            spark: the session of the batch, which belongs to the query alone.
            row_bytes: the most bytes that a row takes; None: not known.
        """
        if not self._may_lift or row_bytes is None or row_bytes * self._max_records > _SMALL_BATCH:
            yield
            return
        spark.conf.set(_MAX_BYTES, _NO_LIMIT)
        try:
            yield
        finally:
            spark.conf.unset(_MAX_BYTES)


def _calls_python(df: DataFrame) -> bool:
    assert df.sparkSession._jvm is not None
    patterns = df.sparkSession._jvm.org.apache.spark.sql.catalyst.trees.TreePattern
    return bool(df._jdf.queryExecution().analyzed().containsPattern(patterns.PYTHON_UDF()))
