"""Starts a query: checks its checkpoint, stops a run that is active, and gives Spark the function of each batch."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from hdfsstore.fs.redaction import shown
from hdfsstore.spark.driver.active_run import find_active_run, only_start
from hdfsstore.spark.driver.arrow_limit import ArrowLimit
from hdfsstore.spark.driver.batch import BatchRecords, BatchRunner
from hdfsstore.spark.driver.conf import QueryConf
from hdfsstore.spark.driver.plan import BatchPlanner, InputTraits
from hdfsstore.spark.driver.query import StatefulQuery
from hdfsstore.spark.driver.query_description import QueryDescription
from hdfsstore.spark.driver.reports import Reports
from hdfsstore.spark.driver.timeout_source import UNKNOWN, with_timeout_source
from hdfsstore.spark.driver.unsupported import check_time_type
from hdfsstore.spark.driver.upstream_operators import check_supported, stateful_operators
from hdfsstore.spark.metrics import ProgressLog
from hdfsstore.spark.querylog.checkpoint_location import STATE, CheckpointLocation
from hdfsstore.spark.querylog.driver_log import DriverLog
from hdfsstore.spark.querylog.fence import check_fence
from hdfsstore.spark.querylog.migration import check_migration, migrate
from hdfsstore.spark.querylog.state_description import StateDescription, check_state, settle_state
from hdfsstore.spark.redaction import Shown
from hdfsstore.spark.sinks.formats import Sink
from hdfsstore.spark.spec import QuerySpec, value_schema
from hdfsstore.spark.worker.shipped_engine import ShippedEngine, ship

# The name of the sink in Spark's log, where sinks have names.
_SINK_NAME = "hdfsstore"


@dataclass(frozen=True, slots=True)
class StartSettings:
    """What the writer has been told about one start of a query.

    Attributes:
        conf: the query's settings.
        checkpoint: where the query keeps its log and its state.
        sink: takes the output of each batch.
        claim_output: makes the place of the output the query's. It is called after all checks. None: there is no such
            place.
        trigger: the arguments of trigger(); empty if the user did not call it.
        query_name: None if the query has no name.
    """

    conf: QueryConf
    checkpoint: CheckpointLocation
    sink: Sink
    claim_output: Callable[[], None] | None
    trigger: dict[str, Any]
    query_name: str | None


def start_query(description: QueryDescription, settings: StartSettings) -> StatefulQuery:
    """Starts a query in the background.

    If a run of the query is active, all checks that are possible beside it come first. Then it is stopped.

    Raises:
        IllegalArgumentException: another query has the name.
        UnsupportedQueryError: the query cannot run, or a run is active that may not be stopped.
        StateStoreError: the checkpoint does not fit the query, or cannot be read or written.
    """
    spark, conf, checkpoint = description.rows.sparkSession, settings.conf, settings.checkpoint
    ours = checkpoint.ours
    with only_start(ours):
        active = find_active_run(spark, ours, settings.query_name, stops=conf.stop_active_run)
        progress = ProgressLog(
            description.method, conf.num_recent_progress, f"query {settings.query_name or shown(checkpoint.spark)}"
        )
        if active is not None:
            _check(description, settings)
        engine = ship(spark.sparkContext, description.make_engine())
        try:
            if active is not None:
                active.stop()
            query = _start(description, settings, engine, progress)
        except BaseException:
            engine.free()
            raise
    engine.free_after(query)
    return query


def _check(description: QueryDescription, settings: StartSettings) -> None:
    """Refuses a query that does not fit the checkpoint. It changes nothing, because another run is active."""
    check_supported(description.rows, description.output_mode)
    state = _wanted_state(description, settings.conf)
    checkpoint, store_conf = settings.checkpoint.ours, settings.conf.store
    check_fence(checkpoint, single_driver=settings.conf.single_driver)
    check_migration(checkpoint, state, store_conf, stateful_operators(description.rows))
    check_state(checkpoint, state)
    DriverLog(checkpoint, state.num_partitions, store_conf).last_finished()


def _start(
    description: QueryDescription, settings: StartSettings, engine: ShippedEngine, progress: ProgressLog
) -> StatefulQuery:
    rows, run_batch = _prepare(description, settings, engine, progress)
    if settings.claim_output is not None:
        settings.claim_output()
    writer = rows.writeStream.outputMode(description.output_mode)
    writer = writer.option("checkpointLocation", settings.checkpoint.spark)
    if settings.trigger:
        writer = writer.trigger(**settings.trigger)
    if settings.query_name is not None:
        writer = writer.queryName(settings.query_name)
    if settings.conf.names_sinks:
        writer._jwrite = writer._jwrite.name(_SINK_NAME)  # PySpark's writer (4.3) has no such method
    return StatefulQuery(writer.foreachBatch(run_batch).start()._jsq, progress)


def _prepare(
    description: QueryDescription, settings: StartSettings, engine: ShippedEngine, progress: ProgressLog
) -> tuple[DataFrame, BatchRunner]:
    """Settles in the checkpoint what the state is made of. Returns the stream to read, and the function of a batch."""
    rows, conf, checkpoint = description.rows, settings.conf, settings.checkpoint
    wanted = _wanted_state(description, conf)
    upstream = stateful_operators(rows)
    ours = checkpoint.ours
    check_fence(ours, single_driver=conf.single_driver)
    migrate(ours, wanted, conf.store, upstream)
    state, store_conf = settle_state(ours, wanted, conf.store)
    context = rows.sparkSession.sparkContext
    spec = QuerySpec(
        run_id=str(uuid.uuid4()),
        state_root=ours.folder(STATE),
        num_partitions=state.num_partitions,
        columns=description.columns,
        key_schema=description.key_schema,
        state_schema=description.state_schema,
        timeout_conf=description.timeout_conf,
        store_conf=store_conf,
        max_bytes_per_call=conf.max_bytes_per_call,
        shown=Shown(conf.redact_errors),
        application_id=context.applicationId,
    )
    log = DriverLog(ours, state.num_partitions, store_conf)
    last = log.last_finished()
    next_timeout_ms = last.next_timeout_ms if last else UNKNOWN
    stream, timeout_source = with_timeout_source(
        rows, description.timeout_conf, next_timeout_ms, is_named=conf.names_sources
    )
    records = BatchRecords(log, Reports(context, spec.run_id), progress, timeout_source)
    arrow_limit = ArrowLimit(rows)
    traits = InputTraits(
        has_watermark=description.has_watermark,
        is_stateful=bool(upstream),
        is_deterministic=bool(rows._jdf.queryExecution().analyzed().deterministic()),
    )
    planner = BatchPlanner(spec, engine, description.output, traits, conf, checkpoint.storage)
    return stream, BatchRunner(planner, records, settings.sink, arrow_limit)


def _wanted_state(description: QueryDescription, conf: QueryConf) -> StateDescription:
    """The state as this start of the query declares it."""
    state_type = StructType.fromJson(description.state_schema.json_value)
    check_time_type(description.rows.sparkSession, description.output, state_type)
    return StateDescription(
        description.method,
        description.timeout_conf,
        description.key_schema,
        value_schema(description.state_schema, description.timeout_conf),
        conf.num_partitions if description.columns.key_names else 1,
    )
