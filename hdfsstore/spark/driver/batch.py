"""A batch on the driver: what foreachBatch calls.

begin in the log -> plan -> the user's sink -> what the sink left out, in a job of our own -> commit in the log.
docs/stateful-protocol.md has the argument why nothing is lost or done twice.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from hdfsstore.errors import StateStoreError
from hdfsstore.spark.base_ids import BaseIds
from hdfsstore.spark.driver.active_run import stop_in_few_words
from hdfsstore.spark.driver.arrow_limit import ArrowLimit
from hdfsstore.spark.driver.batch_shape import BatchShapes
from hdfsstore.spark.driver.plan import batch_plan
from hdfsstore.spark.driver.reports import Reports
from hdfsstore.spark.driver.timeout_source import TimeoutSource
from hdfsstore.spark.metrics import ProgressLog
from hdfsstore.spark.querylog.driver_log import DriverLog
from hdfsstore.spark.sinks.formats import Sink
from hdfsstore.spark.spec import NO_WATERMARK, BatchSpec, QuerySpec
from hdfsstore.spark.worker.shipped_engine import ShippedEngine
from hdfsstore.spark.worker.task import StatefulTask

log = logging.getLogger("hdfsstore.spark.batch")


class BatchRunner:
    """Runs the batches of one run of a query, one after the other.

    Args:
        engine: calls the user's function.
        output: the schema of what the user's function gives.
        sink: the user's function of foreachBatch, or that of a format.
        progress, timeout_source: are told of each batch that is committed; timeout_source: None under NoTimeout.
        arrow_limit: of this run.
        has_watermark: whether a column of the rows has one.
        upstream_is_stateful: whether Spark's own operators keep state for the rows.
        late_by_batch_before: whether rows are late by the watermark of the batch before, not by their batch's own.
        is_deterministic: whether the rows of a batch are the same each time that they are read.
        may_spill: whether tasks may write rows to the local disk.
    """

    def __init__(
        self,
        query: QuerySpec,
        engine: ShippedEngine,
        output: StructType,
        driver_log: DriverLog,
        reports: Reports,
        sink: Sink,
        progress: ProgressLog,
        timeout_source: TimeoutSource | None,
        arrow_limit: ArrowLimit,
        *,
        has_watermark: bool,
        upstream_is_stateful: bool,
        late_by_batch_before: bool,
        is_deterministic: bool,
        may_spill: bool,
    ) -> None:
        self._query = query
        self._engine = engine
        self._output = output
        self._has_watermark = has_watermark
        self._upstream_is_stateful = upstream_is_stateful
        self._late_by_batch_before = late_by_batch_before
        # Whether partitions that were found to be without rows may read theirs again.
        self._is_repeatable = is_deterministic and not upstream_is_stateful
        self._log = driver_log
        self._reports = reports
        self._sink = sink
        self._progress = progress
        self._timeout_source = timeout_source
        self._arrow_limit = arrow_limit
        self._may_spill = may_spill

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        """Runs one batch; returns at once where it was committed before."""
        with stop_in_few_words(rows.sparkSession):
            self._run_batch(rows, batch_id)

    def _run_batch(self, rows: DataFrame, batch_id: int) -> None:
        begun = time.perf_counter()
        start = self._log.begin(batch_id)
        if start.already_done:
            log.info("batch %d was committed before: its sink had finished, and nothing is run", batch_id)
            if self._upstream_is_stateful or self._has_watermark:
                # The rows alone, without the function: Spark's operators commit theirs, and the watermark is that of
                # all rows so far.
                rows.write.format("noop").mode("overwrite").save()
            return
        before = BatchShapes.parse(start.shapes)
        # A batch that did not end is run again with care: it may have been other than expected.
        expected = BatchShapes() if start.is_repeated else before
        batch = BatchSpec(
            batch_id,
            BaseIds(start.base_ids),
            start.watermark_ms if self._has_watermark else NO_WATERMARK,
            start.processing_time_ms,
            start.late_watermark_ms if self._late_by_batch_before else start.watermark_ms,
            is_sorted=not self._may_spill or expected.may_exceed(self._query.max_bytes_per_call),
            has_markers=True,
        )
        # A partition that has keys to expire gives output without rows, too: then the sink's job must run it.
        may_expire = start.next_timeout_ms is not None and start.next_timeout_ms < batch.expiry_ms(
            self._query.timeout_conf
        )
        if self._is_repeatable and expected.is_dense and not may_expire and not _is_empty(rows):
            batch = replace(batch, has_markers=False)
        self._reports.clear()
        logged = time.perf_counter()
        self._run(rows, batch, expected)
        ran = time.perf_counter()
        reports = self._reports.chosen(batch_id)
        timeouts = [report.next_timeout_ms for report in reports.values() if report.next_timeout_ms is not None]
        next_timeout_ms = min(timeouts, default=None)
        self._log.finish(batch_id, reports, next_timeout_ms, before.after(reports.values()).logged)
        if self._timeout_source is not None:
            self._timeout_source.note(batch_id, start.watermark_ms, next_timeout_ms)
        durations = {"beginMs": logged - begun, "runMs": ran - logged, "finishMs": time.perf_counter() - ran}
        self._progress.batch_done(
            batch,
            [reports[partition_id] for partition_id in sorted(reports)],
            {name: 1e3 * seconds for name, seconds in durations.items()},
        )
        self._reports.clear()  # PySpark keeps what is in an accumulator for ever

    def _run(self, rows: DataFrame, batch: BatchSpec, expected: BatchShapes) -> None:
        """Gives the output to the sink, and runs what it has not read."""
        with self._arrow_limit.lifted(rows.sparkSession, expected.row_bytes):
            self._sink(self._plan(rows, batch), batch.batch_id)
        missing = self._reports.missing(batch.batch_id, self._query.num_partitions)
        if missing:
            why = "the sink has not read them" if batch.has_markers else "without rows, or not read by the sink"
            log.info("%d partitions of batch %d are run by themselves: %s", len(missing), batch.batch_id, why)
            rest = self._plan(rows, replace(batch, is_sorted=True, has_markers=True), missing)
            rest.write.format("noop").mode("overwrite").save()
            missing = self._reports.missing(batch.batch_id, self._query.num_partitions)
        if missing:
            raise StateStoreError(
                f"the partitions {missing} of batch {batch.batch_id} have not reported what they committed",
                remedy="Restart the query: the batch is run again",
            )

    def _plan(self, rows: DataFrame, batch: BatchSpec, partitions: Collection[int] | None = None) -> DataFrame:
        task = StatefulTask(self._query, self._engine, batch, self._reports.accumulator)
        return batch_plan(rows, self._query, batch, task, self._output, partitions)


def _is_empty(rows: DataFrame) -> bool:
    """Whether Spark knows that there are no rows: it runs the batch for a timeout or a watermark."""
    return bool(rows._jdf.queryExecution().toRdd().getNumPartitions() == 0)
