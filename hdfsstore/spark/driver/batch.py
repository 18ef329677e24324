"""Runs a batch on the driver: foreachBatch calls BatchRunner.

begin in the log, and plan meanwhile -> the user's sink -> what the sink left out, in a job of our own -> commit in the
log. docs/stateful-protocol.md has the argument why nothing is lost or done twice.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame

from hdfsstore.errors import StateStoreError
from hdfsstore.spark.driver.active_run import stop_in_few_words
from hdfsstore.spark.driver.arrow_limit import ArrowLimit
from hdfsstore.spark.driver.batch_shape import BatchShapes
from hdfsstore.spark.driver.plan import BatchPlanner
from hdfsstore.spark.driver.reports import Reports
from hdfsstore.spark.driver.timeout_source import TimeoutSource
from hdfsstore.spark.metrics import ProgressLog
from hdfsstore.spark.querylog.driver_log import DriverLog
from hdfsstore.spark.querylog.log_entries import Start
from hdfsstore.spark.sinks.formats import Sink
from hdfsstore.spark.spec import BatchSpec

log = logging.getLogger("hdfsstore.spark.batch")


@dataclass(frozen=True, slots=True)
class BatchRecords:
    """Where one run of a query records its batches.

    Attributes:
        log: the driver's log in the checkpoint.
        reports: what the tasks have committed.
        progress: what the user sees of each batch.
        timeout_source: gets the next timeout after each batch; None under NoTimeout.
    """

    log: DriverLog
    reports: Reports
    progress: ProgressLog
    timeout_source: TimeoutSource | None


@dataclass(frozen=True, slots=True)
class _Planned:
    """A batch that may run.

    Attributes:
        batch: what the tasks are told about it.
        output: of the user's function, not evaluated yet.
        before: the shapes of the batches before.
        expected: what this one is expected to be like.
    """

    batch: BatchSpec
    output: DataFrame
    before: BatchShapes
    expected: BatchShapes


class BatchRunner:
    """Runs the batches of one run of a query, one after the other.

    Args:
        planner: plans each batch.
        records: where each batch is recorded.
        sink: the user's function of foreachBatch, or that of a format.
        arrow_limit: of this run.
    """

    def __init__(self, planner: BatchPlanner, records: BatchRecords, sink: Sink, arrow_limit: ArrowLimit) -> None:
        self._planner = planner
        self._records = records
        self._sink = sink
        self._arrow_limit = arrow_limit

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        """Runs one batch; returns at once if it was committed before."""
        with stop_in_few_words(rows.sparkSession):
            self._run_batch(rows, batch_id)

    def _run_batch(self, rows: DataFrame, batch_id: int) -> None:
        records = self._records
        begun = time.perf_counter()
        self._planner.storage.location()  # the keys of the last batch may have ended since
        planned: list[_Planned] = []
        start = records.log.begin(batch_id, lambda start: planned.append(self._plan(rows, start)))
        if start.already_done:
            log.info("batch %d was committed before: its sink had finished, and nothing is run", batch_id)
            if self._planner.input.must_be_read:
                rows.write.format("noop").mode("overwrite").save()
            return
        batch, before = planned[-1].batch, planned[-1].before
        records.reports.clear()
        logged = time.perf_counter()
        self._run(rows, planned[-1])
        ran = time.perf_counter()
        reports = records.reports.chosen(batch_id)
        timeouts = [report.next_timeout_ms for report in reports.values() if report.next_timeout_ms is not None]
        next_timeout_ms = min(timeouts, default=None)
        self._planner.storage.location()  # the sink may take longer than keys are valid
        records.log.finish(batch_id, reports, next_timeout_ms, before.after(reports.values()).logged)
        if records.timeout_source is not None:
            records.timeout_source.note(batch_id, start.watermark_ms, next_timeout_ms)
        durations = {"beginMs": logged - begun, "runMs": ran - logged, "finishMs": time.perf_counter() - ran}
        records.progress.batch_done(
            batch,
            [reports[partition_id] for partition_id in sorted(reports)],
            {name: 1e3 * seconds for name, seconds in durations.items()},
        )
        records.reports.clear()  # PySpark keeps the content of an accumulator for ever

    def _plan(self, rows: DataFrame, start: Start) -> _Planned:
        before = BatchShapes.parse(start.shapes)
        # A batch that began before and did not end is planned for the worst case. Perhaps the expectation was wrong.
        expected = BatchShapes() if start.is_repeated else before
        batch = self._planner.spec(rows, start, expected)
        output = self._planner.plan(rows, batch, self._records.reports.accumulator)
        return _Planned(batch, output, before, expected)

    def _run(self, rows: DataFrame, planned: _Planned) -> None:
        """Gives the output to the sink, and runs the partitions that the sink has not read."""
        reports, num_partitions, batch = self._records.reports, self._planner.query.num_partitions, planned.batch
        with self._arrow_limit.lifted(rows.sparkSession, planned.expected.row_bytes):
            self._sink(planned.output, batch.batch_id)
        missing = reports.missing(batch.batch_id, num_partitions)
        if missing:
            why = "the sink has not read them" if batch.has_markers else "without rows, or not read by the sink"
            log.info("%d partitions of batch %d are run by themselves: %s", len(missing), batch.batch_id, why)
            again = replace(batch, is_sorted=True, has_markers=True)
            rest = self._planner.plan(rows, again, reports.accumulator, missing)
            rest.write.format("noop").mode("overwrite").save()
            missing = reports.missing(batch.batch_id, num_partitions)
        if missing:
            raise StateStoreError(
                f"the partitions {missing} of batch {batch.batch_id} have not reported what they committed",
                remedy="Restart the query: the batch is run again",
            )
