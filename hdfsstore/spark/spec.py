"""Defines what travels between driver and tasks: specs of queries and batches, and reports of commits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from hdfsstore.codecs import types as t
from hdfsstore.fs.location import StorageLocation
from hdfsstore.spark.base_ids import BaseIds
from hdfsstore.spark.redaction import Shown
from hdfsstore.state.conf import StateStoreConf

TimeoutConf: TypeAlias = Literal["NoTimeout", "ProcessingTimeTimeout", "EventTimeTimeout"]
NO_TIMEOUT: TimeoutConf = "NoTimeout"
PROCESSING_TIME_TIMEOUT: TimeoutConf = "ProcessingTimeTimeout"
EVENT_TIME_TIMEOUT: TimeoutConf = "EventTimeTimeout"

# The timeoutTimestamp of a key without a timeout (GroupStateImpl.NO_TIMESTAMP).
NO_TIMESTAMP = -1
# The watermark of rows without an event-time column (GroupStateImpl).
NO_WATERMARK = -1
# The names of the value row's fields, in state format version 2 (FlatMapGroupsWithStateExecHelper.scala).
GROUP_STATE = "groupState"
TIMEOUT_TIMESTAMP = "timeoutTimestamp"
# Byte offset of timeoutTimestamp, the second field, in a value row: after the null bits and the first field's slot.
TIMEOUT_OFFSET = 16

OPERATOR_ID = 0


def value_schema(state: t.StructType, timeout_conf: TimeoutConf) -> t.StructType:
    """The schema of value rows for the user's state columns, as in Spark's state format version 2."""
    fields = [t.StructField(GROUP_STATE, state)]
    if timeout_conf != NO_TIMEOUT:
        fields.append(t.StructField(TIMEOUT_TIMESTAMP, t.LongType(), nullable=False))
    return t.StructType(tuple(fields))


@dataclass(frozen=True, slots=True)
class EventTime:
    """The event-time column that decides which rows are late.

    Attributes:
        column: its position among the data and key columns.
        is_window: whether it is a window. Then the window's end decides.
    """

    column: int
    is_window: bool


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns that a task gets. A marker column may precede them.

    Attributes:
        data_names: the user's names of the data columns, which come first.
        key_names: the user's names of the key columns.
        key_positions: positions of the key columns. They are data columns, or follow the data columns.
        event_time: None if rows are never late.
    """

    data_names: tuple[str, ...]
    key_names: tuple[str, ...]
    key_positions: tuple[int, ...]
    event_time: EventTime | None = None


@dataclass(frozen=True, slots=True)
class QuerySpec:
    """What all batches of one run of a query have in common.

    Attributes:
        run_id: id of this run. Reports of other runs are stale.
        state_root: `<checkpointLocation>/hdfsstore/state`, with the keys of the batch if it needs some.
        num_partitions: number of partitions of the state.
        columns: the columns that tasks get.
        key_schema: schema of the key rows.
        state_schema: the user's state columns.
        timeout_conf: as PySpark has it.
        store_conf: settings of the stores.
        max_bytes_per_call: most Arrow bytes of rows in one call of an engine, unless one key has more.
        shown: formats keys and values for messages.
        application_id: Spark's. It names the folder of local images if store_conf has no local_dir.
    """

    run_id: str
    state_root: StorageLocation
    num_partitions: int
    columns: Columns
    key_schema: t.StructType
    state_schema: t.StructType
    timeout_conf: TimeoutConf
    store_conf: StateStoreConf
    max_bytes_per_call: int
    shown: Shown = field(default_factory=Shown)
    application_id: str = ""

    @property
    def value_schema(self) -> t.StructType:
        return value_schema(self.state_schema, self.timeout_conf)


@dataclass(frozen=True, slots=True)
class BatchSpec:
    """What the driver tells the tasks about one batch. Times are milliseconds since 1970.

    Attributes:
        batch_id: Spark's number of the batch, which is also the version of the state that it starts from.
        base_ids: the unique id of that version, by partition; None in format version 1 and in version 0.
        watermark_ms: the batch's own watermark; -1 if no column has a watermark.
        processing_time_ms: the batch's own time.
        late_watermark_ms: the watermark that decides which rows are late. Rows up to it are.
        is_sorted: whether a partition's rows are sorted by key, with the marker first.
        has_markers: whether each partition has a marker row. Otherwise partitions without rows do not run.
    """

    batch_id: int
    base_ids: BaseIds
    watermark_ms: int
    processing_time_ms: int
    late_watermark_ms: int
    is_sorted: bool
    has_markers: bool

    def expiry_ms(self, timeout_conf: TimeoutConf) -> int:
        """The batch's watermark or time. A key whose timeout is before it has expired."""
        return self.watermark_ms if timeout_conf == EVENT_TIME_TIMEOUT else self.processing_time_ms


@dataclass(frozen=True, slots=True)
class Report:
    """A task's report of its commit.

    Attributes:
        base_id, new_id: unique ids of the version that the task started from, and of the one that it wrote.
        next_timeout_ms: no key expires before it; None: no key has a timeout.
        row_bytes: Arrow bytes of a row of the input or output: the largest average of a record batch.
        metrics: values by name. Times are in milliseconds.
    """

    run_id: str
    batch_id: int
    partition_id: int
    base_id: str | None
    new_id: str | None
    next_timeout_ms: int | None
    row_bytes: float
    metrics: dict[str, int | float] = field(default_factory=dict)
