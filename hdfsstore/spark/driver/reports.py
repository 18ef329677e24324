"""Collects what the tasks report of their commits, in one accumulator per run of a query.

PySpark keeps every accumulator for the life of the process, so a run has only one, and each batch empties it. Spark
adds the report of each task that succeeded. A partition may have several of them: a sink evaluates the output twice, a
stage runs again, or a speculative task also succeeds. The last report counts.
"""

from __future__ import annotations

from collections.abc import Collection

from pyspark import Accumulator, AccumulatorParam, SparkContext

from hdfsstore.spark.spec import Report


class _Gathered(AccumulatorParam[list[Report]]):
    def zero(self, value: list[Report]) -> list[Report]:  # noqa: ARG002
        return []

    def addInPlace(self, value1: list[Report], value2: list[Report]) -> list[Report]:
        # In place, and atomic for other threads: Spark's thread adds while the driver's thread empties it.
        value1.extend(value2)
        return value1


class Reports:
    """The reports of one run of a query. Spark's thread adds them, and one thread reads them.

    Attributes:
        accumulator: a task adds a list of reports to it.
    """

    def __init__(self, context: SparkContext, run_id: str) -> None:
        self.accumulator: Accumulator[list[Report]] = context.accumulator([], _Gathered())
        self._run_id = run_id

    def clear(self) -> None:
        """Drops all reports, before and after a batch."""
        self.accumulator.value.clear()

    def chosen(self, batch_id: int) -> dict[int, Report]:
        """The last report of each partition on the batch. Reports of other runs do not count."""
        reports = list(self.accumulator.value)
        return {
            report.partition_id: report
            for report in reports
            if report.run_id == self._run_id and report.batch_id == batch_id
        }

    def missing(self, batch_id: int, num_partitions: int) -> Collection[int]:
        """The partitions without a report on the batch."""
        return sorted(set(range(num_partitions)) - set(self.chosen(batch_id)))
