"""Sums the metrics of a batch from the reports of its tasks, under Spark's names; logs them and keeps the last ones.

report of a task (a store's metrics and more)      stateOperators[0] of a progress
numTotalStateRows                                   numRowsTotal
numUpdatedStateRows, numRemovedStateRows            numRowsUpdated, numRowsRemoved
allUpdatesTimeMs, allRemovalsTimeMs, commitTimeMs,
memoryUsedBytes, numRowsDroppedByWatermark          the same
anything else                                       customMetrics: the sum, or the lowest SnapshotLastUploaded.*
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias

from hdfsstore.spark.spec import BatchSpec, Report

log = logging.getLogger("hdfsstore.spark")

Metrics: TypeAlias = Mapping[str, int | float]
Progress: TypeAlias = dict[str, Any]

_SPARK_NAMES = {
    "numTotalStateRows": "numRowsTotal",
    "numUpdatedStateRows": "numRowsUpdated",
    "allUpdatesTimeMs": "allUpdatesTimeMs",
    "numRemovedStateRows": "numRowsRemoved",
    "allRemovalsTimeMs": "allRemovalsTimeMs",
    "commitTimeMs": "commitTimeMs",
    "memoryUsedBytes": "memoryUsedBytes",
    "numRowsDroppedByWatermark": "numRowsDroppedByWatermark",
}
# One per partition. Spark shows those that lag behind most (numStateStoreInstanceMetricsToReport).
_LAST_SNAPSHOT = "SnapshotLastUploaded."
_LAST_SNAPSHOTS_SHOWN = 5
# Metrics that have a current value. The others count since the provider was opened.
_GAUGES = ("memoryUsedBytes", _LAST_SNAPSHOT)


def since(before: Metrics, after: Metrics) -> dict[str, int | float]:
    """The metrics of one task: by how much the provider's counters grew, and its gauges."""
    return {name: value if name.startswith(_GAUGES) else value - before.get(name, 0) for name, value in after.items()}


def state_operator(name: str, reports: Collection[Metrics]) -> Progress:
    """An element of stateOperators in Spark's progress.

    Args:
        name: the operator's name, which is the name of the method that created the stream.
        reports: the metrics of each partition's task.
    """
    sums: Counter[str] = Counter()
    snapshots: dict[str, int | float] = {}
    for metrics in reports:
        for metric, value in metrics.items():
            if metric.startswith(_LAST_SNAPSHOT):
                snapshots[metric] = value
            else:
                sums[metric] += value  # type: ignore[assignment]  # floats can be added too
    lagging = sorted(snapshots, key=lambda metric: (snapshots[metric], metric))[:_LAST_SNAPSHOTS_SHOWN]
    custom = {metric: round(value) for metric, value in sums.items() if metric not in _SPARK_NAMES}
    custom |= {metric: round(snapshots[metric]) for metric in lagging}
    return {
        "operatorName": name,
        **{spark_name: round(sums[metric]) for metric, spark_name in _SPARK_NAMES.items()},
        "numShufflePartitions": len(reports),
        "numStateStoreInstances": len(reports),
        "customMetrics": dict(sorted(custom.items())),
    }


class ProgressLog:
    """The last batches of a query, as in Spark's recentProgress. It is safe to share between threads.

    Args:
        operator_name: name of the method that created the stream, such as applyInPandasWithState.
        limit: the number of batches that it keeps.
        query: the name of the query in log lines.
    """

    def __init__(self, operator_name: str, limit: int, query: str) -> None:
        self._operator_name = operator_name
        self._query = query
        self._recent: deque[Progress] = deque(maxlen=limit)
        self._lock = threading.Lock()

    @property
    def recent(self) -> list[Progress]:
        """The batches that are kept, newest last."""
        with self._lock:
            return list(self._recent)

    def batch_done(self, batch: BatchSpec, reports: Collection[Report], driver_ms: Mapping[str, float]) -> None:
        """Keeps the progress of a batch, and logs a line about it to `hdfsstore.spark`.

        Args:
            reports: the chosen report of each partition.
            driver_ms: milliseconds of each step on the driver, in order.
        """
        operator = state_operator(self._operator_name, [report.metrics for report in reports])
        durations = {name: round(value) for name, value in driver_ms.items()}
        watermark = {} if batch.watermark_ms < 0 else {"watermark": _iso(batch.watermark_ms)}
        progress: Progress = {
            "timestamp": _iso(batch.processing_time_ms),
            "batchId": batch.batch_id,
            "batchDuration": sum(durations.values()),
            "durationMs": durations,
            "eventTime": watermark,
            "stateOperators": [operator],
        }
        with self._lock:
            self._recent.append(progress)
        log.info(
            "%s, batch %d: %d rows of state, %d bytes in memory, %d updated, %d removed, %d dropped as late; %d ms: %s",
            self._query,
            batch.batch_id,
            operator["numRowsTotal"],
            operator["memoryUsedBytes"],
            operator["numRowsUpdated"],
            operator["numRowsRemoved"],
            operator["numRowsDroppedByWatermark"],
            progress["batchDuration"],
            ", ".join(f"{name} {value}" for name, value in {**durations, **_task_times(operator)}.items()),
        )


def _task_times(operator: Progress) -> dict[str, int]:
    """The sums of the tasks' times. Tasks run in parallel, so a sum may exceed the batch's duration."""
    times = {"commitTimeMs": operator["commitTimeMs"], **operator["customMetrics"]}
    return {f"tasks' {name}": value for name, value in times.items() if name.endswith("Ms") and value}


def _iso(ms: int) -> str:
    """The time in the format of Spark's progress: 2026-11-21T16:31:00.123Z."""
    moment = datetime.fromtimestamp(ms / 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{ms % 1000:03d}Z"
