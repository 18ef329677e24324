"""What a stateful function makes of a stream, and how a run of it is put together."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from hdfsstore.codecs import types as t
from hdfsstore.spark.api.declared_schemas import check_time_type
from hdfsstore.spark.api.writer import Prepared, Run, StatefulStreamWriter
from hdfsstore.spark.driver.arrow_limit import ArrowLimit
from hdfsstore.spark.driver.batch import BatchRunner
from hdfsstore.spark.driver.reports import Reports
from hdfsstore.spark.driver.timeout_source import UNKNOWN, with_timeout_source
from hdfsstore.spark.driver.upstream_operators import check_supported, stateful_operators
from hdfsstore.spark.querylog.driver_log import DriverLog
from hdfsstore.spark.querylog.migration import check_migration, migrate
from hdfsstore.spark.querylog.state_description import StateDescription, check_state, settle_state
from hdfsstore.spark.redaction import Shown
from hdfsstore.spark.spec import Columns, QuerySpec, TimeoutConf, value_schema
from hdfsstore.spark.worker.engine import Engine
from hdfsstore.spark.worker.shipped_engine import ShippedEngine, ship


@dataclass(frozen=True, slots=True)
class StatefulStream:
    """The output of a stateful function, which is not read but written: see writeStream.

    Attributes:
        method: of StatefulGroups, that made it.
        rows: the data columns and those of the key, by plan.column_name.
        columns: what they are.
        key_schema, state_schema: of the key, and the user's of the state.
        timeout_conf, output_mode: the user's.
        schema: the schema of what the function gives.
        make_engine: makes what runs the function, by the session's settings: to be called when a query starts.
        has_watermark: whether a column of the data has one.
    """

    method: str
    rows: DataFrame
    columns: Columns
    key_schema: t.StructType
    state_schema: t.StructType
    timeout_conf: TimeoutConf
    output_mode: str
    schema: StructType
    make_engine: Callable[[], Engine]
    has_watermark: bool

    @property
    def writeStream(self) -> StatefulStreamWriter:
        """Where to and how to write the output, as PySpark's DataFrame.writeStream."""
        return StatefulStreamWriter(self)

    def check(self, run: Run) -> None:
        """Refuses a run that does not go with the checkpoint, as far as it can be told while another run is active."""
        check_supported(self.rows, self.output_mode)
        wanted = self._wanted(run)
        check_migration(run.checkpoint.ours, wanted, run.conf.store, stateful_operators(self.rows))
        check_state(run.checkpoint.ours, wanted)
        DriverLog(run.checkpoint.ours, wanted.num_partitions, run.conf.store).last_finished()

    def ship(self) -> ShippedEngine:
        """Pickles the function. Whoever calls it sees to it that it is freed."""
        return ship(self.rows.sparkSession.sparkContext, self.make_engine())

    def prepare(self, run: Run, engine: ShippedEngine) -> Prepared:
        """Settles what the query keeps, and puts together what Spark's writer is to run."""
        wanted = self._wanted(run)
        upstream = stateful_operators(self.rows)
        migrate(run.checkpoint.ours, wanted, run.conf.store, upstream)
        state, store_conf = settle_state(run.checkpoint.ours, wanted, run.conf.store)
        query = QuerySpec(
            run_id=str(uuid.uuid4()),
            state_root=run.checkpoint.state_root,
            num_partitions=state.num_partitions,
            columns=self.columns,
            key_schema=self.key_schema,
            state_schema=self.state_schema,
            timeout_conf=self.timeout_conf,
            store_conf=store_conf,
            max_bytes_per_call=run.conf.max_bytes_per_call,
            shown=Shown(run.conf.redact_errors),
            application_id=self.rows.sparkSession.sparkContext.applicationId,
        )
        driver_log = DriverLog(run.checkpoint.ours, state.num_partitions, store_conf)
        last = driver_log.last_finished()
        next_timeout_ms = last.next_timeout_ms if last else UNKNOWN
        rows, ticks = with_timeout_source(
            self.rows, self.timeout_conf, next_timeout_ms, is_named=run.conf.names_sources
        )
        reports = Reports(self.rows.sparkSession.sparkContext, query.run_id)
        arrow_limit = ArrowLimit(self.rows)
        is_deterministic = bool(self.rows._jdf.queryExecution().analyzed().deterministic())
        runner = BatchRunner(
            query,
            engine,
            self.schema,
            driver_log,
            reports,
            run.sink,
            run.progress,
            ticks,
            arrow_limit,
            has_watermark=self.has_watermark,
            upstream_is_stateful=bool(upstream),
            late_by_batch_before=run.conf.allow_multiple,
            is_deterministic=is_deterministic,
            may_spill=run.conf.may_spill,
        )
        return Prepared(rows, runner)

    def _wanted(self, run: Run) -> StateDescription:
        state_type = StructType.fromJson(self.state_schema.json_value)
        check_time_type(self.rows.sparkSession, self.schema, state_type)
        return StateDescription(
            self.method,
            self.timeout_conf,
            self.key_schema,
            value_schema(self.state_schema, self.timeout_conf),
            run.conf.num_partitions if self.columns.key_names else 1,
        )
