"""Metrics of a batch: reports added up in Spark's names, kept for a while, and a line in the log."""

from __future__ import annotations

import logging

import pytest

from hdfsstore.spark.base_ids import BaseIds
from hdfsstore.spark.driver.query import StateProgress
from hdfsstore.spark.metrics import ProgressLog, since, state_operator
from hdfsstore.spark.spec import BatchSpec, Report


def batch(batch_id: int, watermark_ms: int = 0) -> BatchSpec:
    return BatchSpec(
        batch_id, BaseIds((None, None)), watermark_ms, 1_700_000_000_123, 0, is_sorted=True, has_markers=True
    )


def report(partition_id: int, **metrics: float) -> Report:
    return Report("run", 0, partition_id, None, "id", None, 100.0, metrics)


def test_reports_are_added_up_in_sparks_names() -> None:
    reports = [
        {
            "numTotalStateRows": 5,
            "numUpdatedStateRows": 2,
            "numRemovedStateRows": 1,
            "commitTimeMs": 1.4,
            "ms": 0.4,
        },
        {
            "numTotalStateRows": 7,
            "numRowsDroppedByWatermark": 3,
            "memoryUsedBytes": 10,
            "commitTimeMs": 2.3,
            "ms": 1,
        },
    ]
    operator = state_operator("mapWithState", reports)
    assert operator == {
        "operatorName": "mapWithState",
        "numRowsTotal": 12,
        "numRowsUpdated": 2,
        "allUpdatesTimeMs": 0,
        "numRowsRemoved": 1,
        "allRemovalsTimeMs": 0,
        "commitTimeMs": 4,
        "memoryUsedBytes": 10,
        "numRowsDroppedByWatermark": 3,
        "numShufflePartitions": 2,
        "numStateStoreInstances": 2,
        "customMetrics": {"ms": 1},
    }


def test_of_the_last_snapshots_the_oldest_are_shown() -> None:
    reports = [{f"SnapshotLastUploaded.partition_{i}_default": 10 - i} for i in range(8)]
    custom = state_operator("mapWithState", reports)["customMetrics"]
    assert custom == {f"SnapshotLastUploaded.partition_{i}_default": 10 - i for i in range(3, 8)}


def test_counters_of_a_provider_become_those_of_a_task() -> None:
    name = "SnapshotLastUploaded.partition_0_default"
    before = {"localImageHitCount": 3, "memoryUsedBytes": 100, name: 5}
    after = {"localImageHitCount": 4, "memoryUsedBytes": 90, name: 15, "numTotalStateRows": 7}
    assert since(before, after) == {"localImageHitCount": 1, "memoryUsedBytes": 90, name: 15, "numTotalStateRows": 7}


def test_the_last_batches_are_kept_and_each_has_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    progress = ProgressLog("applyInPandasWithState", 2, "query clicks")
    with caplog.at_level(logging.INFO, "hdfsstore.spark"):
        for number in range(3):
            reports = [report(0, numTotalStateRows=number, commitTimeMs=5, loadMs=0), report(1, numUpdatedStateRows=3)]
            progress.batch_done(batch(number), reports, {"beginMs": 0.6, "runMs": 20.0})
    assert [kept["batchId"] for kept in progress.recent] == [1, 2]
    newest = progress.recent[-1]
    assert newest["timestamp"] == "2023-11-14T22:13:20.123Z"
    assert (newest["batchDuration"], newest["durationMs"]) == (21, {"beginMs": 1, "runMs": 20})
    assert newest["eventTime"] == {"watermark": "1970-01-01T00:00:00.000Z"}
    assert newest["stateOperators"][0]["numRowsTotal"] == 2
    assert caplog.messages == [
        f"query clicks, batch {number}: {number} rows of state, 0 bytes in memory, 3 updated, 0 removed, "
        "0 dropped as late; 21 ms: beginMs 1, runMs 20, tasks' commitTimeMs 5"
        for number in range(3)
    ]


def test_a_query_without_a_watermark_shows_none() -> None:
    progress = ProgressLog("mapWithState", 2, "query")
    progress.batch_done(batch(0, watermark_ms=-1), [report(0)], {})
    assert progress.recent[0]["eventTime"] == {}


def test_the_progress_of_a_query_is_short_in_a_console_and_a_table_in_a_notebook() -> None:
    progress = ProgressLog("mapWithState", 5, "query")
    shown = StateProgress(None, progress)
    assert repr(shown) == "StateProgress(no batch is done)"
    for number in range(3):
        progress.batch_done(batch(number), [report(0, numTotalStateRows=1000 + number)], {"runMs": 20.0})
    assert repr(shown) == "StateProgress(batch 2, 1,002 rows of state)"
    assert shown._repr_html_().count("<tr>") == 4
    assert "<td>2</td><td>2023-11-14T22:13:20.123Z</td><td>20 ms</td><td>1,002</td>" in shown._repr_html_()
