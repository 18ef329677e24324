"""What travels between the driver and the tasks of a query."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from hdfsstore.codecs import types as t
from hdfsstore.spark.base_ids import BaseIds
from hdfsstore.spark.redaction import Shown
from hdfsstore.state.conf import StateStoreConf

TimeoutConf: TypeAlias = Literal["NoTimeout", "ProcessingTimeTimeout", "EventTimeTimeout"]
NO_TIMEOUT: TimeoutConf = "NoTimeout"
PROCESSING_TIME_TIMEOUT: TimeoutConf = "ProcessingTimeTimeout"
EVENT_TIME_TIMEOUT: TimeoutConf = "EventTimeTimeout"

# What stands in timeoutTimestamp of a key without a timeout (GroupStateImpl.NO_TIMESTAMP).
NO_TIMESTAMP = -1
# What stands for the watermark of rows without an event-time column (GroupStateImpl).
NO_WATERMARK = -1
# The names of the value row's fields, in state format version 2 (FlatMapGroupsWithStateExecHelper.scala).
GROUP_STATE = "groupState"
TIMEOUT_TIMESTAMP = "timeoutTimestamp"
# Where timeoutTimestamp, the second field, lies in a value row: after the null bits and the slot of the first field.
TIMEOUT_OFFSET = 16

OPERATOR_ID = 0


def value_schema(state: t.StructType, timeout_conf: TimeoutConf) -> t.StructType:
    """The schema of value rows for the user's state columns: Spark's, of state format version 2."""
    fields = [t.StructField(GROUP_STATE, state)]
    if timeout_conf != NO_TIMEOUT:
        fields.append(t.StructField(TIMEOUT_TIMESTAMP, t.LongType(), nullable=False))
    return t.StructType(tuple(fields))


@dataclass(frozen=True, slots=True)
class EventTime:
    """The event-time column by which rows are late.

    Attributes:
        column: its position among the data and key columns.
        is_window: whether it is a window, whose end counts.
    """

    column: int
    is_window: bool


@dataclass(frozen=True, slots=True)
class Columns:
    """What the columns that a task gets are; a marker column may precede them.

    Attributes:
        data_names: of the first columns: the user's, in their order.
        key_names: of the key's columns.
        key_positions: where those are: a data column, or one behind the data columns.
        event_time: None where rows are never late.
    """

    data_names: tuple[str, ...]
    key_names: tuple[str, ...]
    key_positions: tuple[int, ...]
    event_time: EventTime | None = None


@dataclass(frozen=True, slots=True)
class QuerySpec:
    """What stays the same for all batches of one run of a query.

    Attributes:
        run_id: of this run; reports of other runs are stale.
        state_root: `<checkpointLocation>/hdfsstore/state`.
        num_partitions: of the state.
        columns: that tasks get.
        key_schema: of the key rows.
        state_schema: the user's state columns.
        timeout_conf: PySpark's.
        store_conf: how the stores work.
        max_bytes_per_call: of the rows, in Arrow, that are held at a time.
        shown: how messages show keys and values.
        application_id: Spark's, by which local images are kept where store_conf has no local_dir.
    """

    run_id: str
    state_root: str
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
    """What the driver says of one batch.

    Attributes:
        batch_id: its number, and the version of the state that it starts from.
        base_ids: the unique id of that version, by partition; None in format version 1 and in version 0.
        watermark_ms: the batch's own, milliseconds since 1970; -1 where no column has a watermark.
        processing_time_ms: the batch's own, milliseconds since 1970.
        late_watermark_ms: rows up to it are late: the watermark of the batch before.
        is_sorted: whether a partition's rows come sorted by key, the marker first.
        has_markers: whether each partition has a marker row; otherwise those without rows are not run.
    """

    batch_id: int
    base_ids: BaseIds
    watermark_ms: int
    processing_time_ms: int
    late_watermark_ms: int
    is_sorted: bool
    has_markers: bool

    def expiry_ms(self, timeout_conf: TimeoutConf) -> int:
        """A key is due once its timeout is before this: the batch's watermark or time."""
        return self.watermark_ms if timeout_conf == EVENT_TIME_TIMEOUT else self.processing_time_ms


@dataclass(frozen=True, slots=True)
class Report:
    """What a task says of its commit.

    Attributes:
        base_id, new_id: the unique ids of the version that it started from and of the one that it wrote.
        next_timeout_ms: no key times out before it; None where none will.
        row_bytes: what a row of the input or output took in Arrow: the largest average of a batch.
        metrics: by name; times in milliseconds.
    """

    run_id: str
    batch_id: int
    partition_id: int
    base_id: str | None
    new_id: str | None
    next_timeout_ms: int | None
    row_bytes: float
    metrics: dict[str, int | float] = field(default_factory=dict)
