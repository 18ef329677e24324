"""Plans a batch: sends its rows, and a marker row per partition, to their partitions, and runs the tasks on them.

`repartitionById(n, pmod(hash(keys), n))` puts a key where Spark's own operators would. The marker makes Spark run a
partition that has no rows. Markers are left out if each partition is expected to have rows: the union with the markers
costs two copies of each row, on as many cores as the batch has files.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from pyspark import Accumulator
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from hdfsstore.spark.base_ids import BaseIds
from hdfsstore.spark.driver.batch_shape import BatchShapes
from hdfsstore.spark.driver.command_limit import check_command, limit_of
from hdfsstore.spark.driver.conf import QueryConf
from hdfsstore.spark.querylog.checkpoint_location import STATE
from hdfsstore.spark.querylog.log_entries import Start
from hdfsstore.spark.querylog.session_storage import SessionStorage
from hdfsstore.spark.spec import NO_WATERMARK, BatchSpec, QuerySpec, Report
from hdfsstore.spark.worker.shipped_engine import ShippedEngine
from hdfsstore.spark.worker.task import StatefulTask

MARKER = "__hdfsstore_partition"


def column_name(position: int) -> str:
    """The name of a data or key column in the plan. The user's names may occur twice."""
    return f"_{position}"


@dataclass(frozen=True, slots=True)
class InputTraits:
    """What is known about the rows that a query reads.

    Attributes:
        has_watermark: whether a column has one.
        is_stateful: whether Spark's own operators keep state for the rows.
        is_deterministic: whether the rows of a batch are the same each time that they are read.
    """

    has_watermark: bool
    is_stateful: bool
    is_deterministic: bool

    @property
    def must_be_read(self) -> bool:
        """Whether a batch has to read its rows even if the function does not run: Spark's operators commit their
        state then, and the watermark is that of all rows so far."""
        return self.is_stateful or self.has_watermark

    @property
    def is_repeatable(self) -> bool:
        """Whether a partition may read its rows again if it was found to have none."""
        return self.is_deterministic and not self.is_stateful


@dataclass(frozen=True, slots=True)
class BatchPlanner:
    """Plans the batches of one run of a query.

    Attributes:
        query: what all its batches have in common.
        engine: calls the user's function.
        output: the schema of what the user's function returns.
        input: what is known about the rows.
        conf: the query's settings.
        storage: of the checkpoint. It says the keys that the tasks of a batch need.
    """

    query: QuerySpec
    engine: ShippedEngine
    output: StructType
    input: InputTraits
    conf: QueryConf
    storage: SessionStorage

    def spec(self, rows: DataFrame, start: Start, expected: BatchShapes) -> BatchSpec:
        """What the tasks of a batch are told about it.

        Args:
            rows: the batch's.
            start: what the driver's log says about the batch.
            expected: what the batch is expected to be like.
        """
        batch = BatchSpec(
            start.batch_id,
            BaseIds(start.base_ids),
            start.watermark_ms if self.input.has_watermark else NO_WATERMARK,
            start.processing_time_ms,
            start.late_watermark_ms if self.conf.allow_multiple else start.watermark_ms,
            is_sorted=not self.conf.may_spill or expected.may_exceed(self.query.max_bytes_per_call),
            has_markers=True,
        )
        # A partition with keys to expire gives output even without rows, so the sink's job must run it.
        may_expire = start.next_timeout_ms is not None and start.next_timeout_ms < batch.expiry_ms(
            self.query.timeout_conf
        )
        if self.input.is_repeatable and expected.is_dense and not may_expire and not _is_empty(rows):
            return replace(batch, has_markers=False)
        return batch

    def plan(
        self,
        rows: DataFrame,
        batch: BatchSpec,
        reports: Accumulator[list[Report]],
        partitions: Collection[int] | None = None,
    ) -> DataFrame:
        """The output of a batch.

        Args:
            rows: the data and key columns, named by column_name.
            batch: says whether there are markers, and whether Spark sorts each partition by key.
            reports: the tasks add their reports to it.
            partitions: the ones to run; None: all.
        """
        num_partitions = self.query.num_partitions
        keys = [F.col(column_name(position)) for position in self.query.columns.key_positions]
        # Without key columns all rows have the same key, which is in partition 0.
        partition = F.pmod(F.hash(*keys), F.lit(num_partitions)) if keys else F.lit(0)
        order = keys
        if batch.has_markers:
            marker = F.col(MARKER)
            rows = _with_markers(rows, num_partitions)
            partition = F.coalesce(marker, partition)
            order = [marker.desc_nulls_last(), *keys]
        if partitions is not None:
            rows = rows.where(partition.isin(list(partitions)))
        placed = rows.repartitionById(num_partitions, partition)
        if batch.is_sorted and order:
            placed = placed.sortWithinPartitions(*order)
        query = replace(self.query, state_root=self.storage.location().folder(STATE))
        task = StatefulTask(query, self.engine, batch, reports)
        if self.storage.has_keys:
            check_command(task, self.output, limit_of(rows.sparkSession.sparkContext))
        return placed.mapInArrow(task, self.output)


def _is_empty(rows: DataFrame) -> bool:
    """Whether Spark knows that there are no rows: it runs the batch for a timeout or a watermark."""
    return bool(rows._jdf.queryExecution().toRdd().getNumPartitions() == 0)


def _with_markers(rows: DataFrame, num_partitions: int) -> DataFrame:
    """The rows with a column MARKER before them, and a marker row per partition, which has only its number, there."""
    markers = rows.sparkSession.range(0, num_partitions, 1, 1).select(
        F.col("id").cast("int").alias(MARKER),
        *(F.lit(None).cast(field.dataType).alias(field.name) for field in rows.schema),
    )
    return rows.select(F.lit(None).cast("int").alias(MARKER), *rows.columns).union(markers)
