"""How tasks tell the driver what they committed: one accumulator a query.

PySpark keeps every accumulator for the life of the process, so there is one, which each batch empties. Spark adds the
reports of each task that ended well, of which there may be several for a partition: a sink evaluates the output twice,
a stage is run again, a speculative copy also gets to its end. The last one counts.
"""

from __future__ import annotations

from collections.abc import Collection

from pyspark import Accumulator, AccumulatorParam, SparkContext

from hdfsstore.spark.spec import Report


class _Gathered(AccumulatorParam[list[Report]]):
    def zero(self, value: list[Report]) -> list[Report]:  # noqa: ARG002
        return []

    def addInPlace(self, value1: list[Report], value2: list[Report]) -> list[Report]:
        # In place, and in one step for other threads: Spark's thread adds while the driver's empties.
        value1.extend(value2)
        return value1


class Reports:
    """The reports of one run of a query. Spark's thread adds to them; one thread takes them.

    Attributes:
        accumulator: what tasks add a list of reports to.
    """

    def __init__(self, context: SparkContext, run_id: str) -> None:
        self.accumulator: Accumulator[list[Report]] = context.accumulator([], _Gathered())
        self._run_id = run_id

    def clear(self) -> None:
        """Forgets all, before a batch."""
        self.accumulator.value.clear()

    def chosen(self, batch_id: int) -> dict[int, Report]:
        """By partition, what its last task reported of the batch; stale reports do not count."""
        reports = list(self.accumulator.value)
        return {
            report.partition_id: report
            for report in reports
            if report.run_id == self._run_id and report.batch_id == batch_id
        }

    def missing(self, batch_id: int, num_partitions: int) -> Collection[int]:
        """The partitions that have not reported on the batch."""
        return sorted(set(range(num_partitions)) - set(self.chosen(batch_id)))
