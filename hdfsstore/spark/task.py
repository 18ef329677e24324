"""One task of a batch: from the rows of a partition to its next version and a report.

The store's partition is the one that the rows tell (calls.py): TaskContext.partitionId() is that of the user's plan,
which a coalesce or a union changes. The version is committed after the last row of the output was taken, and reported
after that; a task whose output is not read to its end changes nothing.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator
from itertools import chain

import pyarrow as pa
from pyspark import Accumulator

from hdfsstore.errors import UserFunctionError, remedied
from hdfsstore.spark.calls import Calls
from hdfsstore.spark.partition_state import PartitionState
from hdfsstore.spark.providers import providers
from hdfsstore.spark.shipped import ShippedEngine
from hdfsstore.spark.spec import BatchSpec, QuerySpec, Report

_PUT_BACK = (
    "Put the file back; or set the query back to a batch from before it was written (delete Spark's offsets and "
    "commits from there on)"
)


class StatefulTask:
    """The function that mapInArrow runs; a batch has one, for all its partitions.

    Args:
        query: what stays the same.
        engine: the same for all batches.
        reports: the accumulator that the report goes into, as a list of one.
    """

    def __init__(
        self, query: QuerySpec, engine: ShippedEngine, batch: BatchSpec, reports: Accumulator[list[Report]]
    ) -> None:
        self._query = query
        self._engine = engine
        self._batch = batch
        self._reports = reports

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        calls = Calls(self._query, self._batch, batches)
        partition_id = calls.partition_id
        if partition_id is None:  # a job for some partitions only has tasks for the others too
            return
        begun = time.perf_counter()
        provider = providers.get(self._query, partition_id, self._batch.batch_id)
        base_id = self._batch.base_ids[partition_id]
        with remedied(_PUT_BACK):
            store = provider.get_store(self._batch.batch_id, base_id)
        loaded = time.perf_counter()
        with store:
            state = PartitionState(self._query, self._batch, partition_id, store, calls.no_rows)
            engine = self._engine.load()
            row_bytes = 0.0
            try:
                for output in chain(engine.data(iter(calls), state), engine.expired(state)):
                    row_bytes = max(row_bytes, output.nbytes / max(output.num_rows, 1))
                    yield output
            except UserFunctionError as error:
                raise _with_traceback(error) from None
            updated = time.perf_counter()
            next_timeout_ms = state.next_timeout_ms
            info = store.commit()
        report = Report(
            self._query.run_id,
            self._batch.batch_id,
            partition_id,
            info.base_checkpoint_unique_id,
            info.checkpoint_unique_id,
            next_timeout_ms,
            max(row_bytes, calls.row_bytes),
            {
                **providers.unreported(self._query, partition_id, store.metrics),
                "numInputRows": calls.num_rows,
                "numRowsDroppedByWatermark": calls.num_late,
                "inputBytes": calls.nbytes,
                "loadMs": 1e3 * (loaded - begun),
                "allUpdatesTimeMs": 1e3 * (updated - loaded),
            },
        )
        self._reports.add([report])


def _with_traceback(error: UserFunctionError) -> UserFunctionError:
    """The error with the traceback of its cause in the message: PySpark drops the causes of what a worker raises."""
    cause = error.__cause__
    if cause is None:
        return error
    trace = cause.__traceback__
    while trace is not None and trace.tb_next and trace.tb_frame.f_globals.get("__name__", "").startswith("hdfsstore."):
        trace = trace.tb_next
    return UserFunctionError(f"{error}\n{''.join(traceback.format_exception(type(cause), cause, trace))}")
