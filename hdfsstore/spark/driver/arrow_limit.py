"""Spares Spark the size of an Arrow batch after each row that it adds to one.

The rows that go to a Python worker are written to batches of at most `maxRecordsPerBatch` rows and `maxBytesPerBatch`
bytes. For the second limit Spark (4.3, BatchedPythonArrowInput) adds up the buffers of all columns with every row,
which takes longer than writing the row, unless the limit is the largest there is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession

_MAX_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_MAX_RECORDS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_NO_LIMIT = str((1 << 31) - 1)
# What a batch may take by the rows seen so far, for the limit to be lifted: a sixteenth of Spark's own limit, as the
# next rows may be wider.
_SMALL_BATCH = 4 << 20


class ArrowLimit:
    """The limit of one run of a query.

    Args:
        rows: the query's stream. Where Spark calls Python to make its rows nothing is known of what it sends there, and
            the limit stays; so it does where the user has set it.
    """

    def __init__(self, rows: DataFrame) -> None:
        conf = rows.sparkSession.conf
        self._max_records = int(conf.get(_MAX_RECORDS) or 0)
        is_ours = conf.get(_MAX_BYTES, _NO_LIMIT) == _NO_LIMIT and not _calls_python(rows)
        self._may_lift = is_ours and self._max_records > 0

    @contextmanager
    def lifted(self, spark: SparkSession, row_bytes: float | None) -> Iterator[None]:
        """Lifts the limit within, where batches stay far below it: for whatever the session runs there.

        Args:
            spark: the session of the batch, which is the query's own.
            row_bytes: what a row takes at most; None: that is not known.
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
