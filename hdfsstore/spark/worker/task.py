"""Run one task of a batch: make the next version of a partition from its rows, and report it.

The rows tell the store's partition (partition_input.py): TaskContext.partitionId() is that of the user's plan, which a
coalesce or a union changes. The version is committed after the last row of the output was taken, and then reported. A
task whose output is not read to its end changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import chain
from typing import NoReturn

import pyarrow as pa
from pyspark import Accumulator

from hdfsstore.errors import SchemaMismatchError, StateStoreError, UserFunctionError, remedied
from hdfsstore.spark.redaction import is_call_here, is_raised_here
from hdfsstore.spark.spec import BatchSpec, QuerySpec, Report
from hdfsstore.spark.worker.engine import Engine
from hdfsstore.spark.worker.partition_input import PartitionInput
from hdfsstore.spark.worker.partition_state import PartitionState
from hdfsstore.spark.worker.providers import providers
from hdfsstore.spark.worker.same_release import SameRelease
from hdfsstore.spark.worker.shipped_engine import ShippedEngine

_PUT_BACK = (
    "Put the file back; or set the query back to a batch from before it was written (delete Spark's offsets and "
    "commits from there on)"
)


class StatefulTask:
    """The function that mapInArrow runs; a batch has one, for all its partitions.

    Args:
        query: the same for all batches.
        engine: the same for all batches.
        reports: the accumulator that the report goes into, as a list of one.
    """

    def __init__(
        self, query: QuerySpec, engine: ShippedEngine, batch: BatchSpec, reports: Accumulator[list[Report]]
    ) -> None:
        self._release = SameRelease()  # the first: attributes are unpickled in this order
        self._query = query
        self._engine = engine
        self._batch = batch
        self._reports = reports

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        keyed_rows = PartitionInput(self._query, self._batch, batches)
        partition_id = keyed_rows.partition_id
        if partition_id is None:  # a job for some partitions has tasks for the others too
            return
        begun = time.perf_counter()
        provider = providers.get(self._query, partition_id, self._batch.batch_id)
        base_id = self._batch.base_ids[partition_id]
        with remedied(_PUT_BACK):
            store = provider.get_store(self._batch.batch_id, base_id)
        loaded = time.perf_counter()
        with store:
            state = PartitionState(self._query, self._batch, partition_id, store, keyed_rows.no_rows)
            row_bytes = 0.0
            try:
                engine = self._load(state)
                for output in chain(engine.data(iter(keyed_rows), state), engine.expired(state)):
                    row_bytes = max(row_bytes, output.nbytes / max(output.num_rows, 1))
                    yield output
            except Exception as error:  # noqa: BLE001 - whatever libraries raise for the rows
                pass_on(error, state)
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
            max(row_bytes, keyed_rows.row_bytes),
            {
                **providers.unreported(self._query, partition_id, store.metrics),
                "numInputRows": keyed_rows.num_rows,
                "numRowsDroppedByWatermark": keyed_rows.num_late,
                "inputBytes": keyed_rows.nbytes,
                "loadMs": 1e3 * (loaded - begun),
                "allUpdatesTimeMs": 1e3 * (updated - loaded),
            },
        )
        self._reports.add([report])

    def _load(self, state: PartitionState) -> Engine:
        """Unpickles the engine. UserFunctionError: code of the user's raised meanwhile."""
        try:
            return self._engine.load()
        except BaseException as error:
            if isinstance(error, StateStoreError) and is_raised_here(error):
                raise
            raise UserFunctionError(
                f"the function cannot be unpickled in partition {state.partition_id} of batch {state.batch_id}: "
                f"{state.shown.error(error)}",
                remedy="Modules that it imports have to be on the executors too",
            ) from error


def pass_on(error: Exception, state: PartitionState) -> NoReturn:
    """Raises an error for the worker, with its causes only if they may be shown: PySpark prints all of them."""
    if isinstance(error, UserFunctionError):
        raise UserFunctionError(f"{error}\n{_trace(error.__cause__ or error, state)}") from None
    if isinstance(error, SchemaMismatchError) or (isinstance(error, StateStoreError) and state.shown.redacted):
        raise error from None
    if isinstance(error, StateStoreError) or not state.shown.redacted:
        raise error
    # An error of a library that cannot convert a row.
    raise StateStoreError(
        f"partition {state.partition_id} of batch {state.batch_id} cannot be worked on: {state.shown.error(error)}\n"
        f"{_trace(error, state)}"
    ) from None


def _trace(error: BaseException, state: PartitionState) -> str:
    """The traceback without its first frames, which are this package's."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next and is_call_here(trace):
        trace = trace.tb_next
    return state.shown.trace(error, trace)
