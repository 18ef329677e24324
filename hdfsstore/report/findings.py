"""Says in words what stands out in a checkpoint."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from hdfsstore.report.facts import BatchFacts, StoreFacts
from hdfsstore.report.words import duration, size

# Spark makes a snapshot after 10 deltas (minDeltasForSnapshot), in the background.
_DELTAS = 30
_LARGE = 1_000_000
_SKEW = 2.0
_LAG_SECONDS = 3_600


def of_query(report: Mapping[str, Any], batches: Sequence[BatchFacts]) -> list[str]:
    """What stands out in the logs. `report` is that of `inspect`."""
    found = [f"A log is damaged: {text}" for text in report["damaged"]]
    if unfinished := report["unfinished_batches"]:
        found.append(f"Batch {unfinished[-1]} was begun and is not committed: it runs, or runs again at a restart.")
    known = [batch for batch in batches if batch.seconds is not None]
    if len(known) >= 10:
        usual = statistics.median(batch.seconds or 0 for batch in known[:-3])
        last = statistics.median(batch.seconds or 0 for batch in known[-3:])
        if usual and last > 2 * usual:
            found.append(f"The last batches took {duration(last)}, those before {duration(usual)}.")
    lag = batches[-1].lag_seconds if batches else None
    if lag is not None and lag > _LAG_SECONDS:
        found.append(f"The watermark is {duration(lag)} behind the clock of batch {batches[-1].batch_id}.")
    return found


def of_store(store: Mapping[str, Any], facts: StoreFacts, key_text: Sequence[str]) -> list[str]:
    """What stands out in a store. `key_text` has the keys of the largest values as text."""
    found = [store["note"]] if store["note"] else []
    return [*found, *_skew(store["partitions"]), *_snapshots(facts), *_growth(facts), *_largest(facts, key_text)]


def _skew(partitions: Sequence[Mapping[str, Any]]) -> list[str]:
    unit = "bytes" if any(partition["rows"] is None for partition in partitions) else "rows"
    total = sum(partition[unit] for partition in partitions)
    if len(partitions) < 2 or not total:
        return []
    largest = max(partitions, key=lambda partition: int(partition[unit]))
    found = []
    if largest[unit] > _SKEW * total / len(partitions):
        share = 100 * largest[unit] / total
        found.append(
            f"Partition {largest['partition_id']} has {share:.0f} % of the {unit}; {100 / len(partitions):.1f} % would "
            "be even."
        )
    empty = sum(not partition["rows"] for partition in partitions) if unit == "rows" else 0
    if 2 * empty > len(partitions):
        found.append(f"{empty} of {len(partitions)} partitions have no row: fewer partitions would do.")
    return found


def _snapshots(facts: StoreFacts) -> list[str]:
    if not facts.versions:
        return []
    newest = facts.versions[-1].version
    snapshot = max((version.version for version in facts.versions if version.snapshots), default=0)
    if newest - snapshot <= _DELTAS:
        return []
    since = f"since batch {snapshot - 1}" if snapshot else "at all"
    return [f"There is no snapshot {since}: a restart reads {newest - snapshot} deltas in each partition."]


def _growth(facts: StoreFacts) -> list[str]:
    if len(facts.rows) < 3:
        return []
    (first, before), (last, after) = facts.rows[0], facts.rows[-1]
    counts = [count for _, count in facts.rows]
    if before and after > 2 * before and counts == sorted(counts):
        return [f"The rows have grown from {before:,} at batch {first} to {after:,} at batch {last}, without a break."]
    return []


def _largest(facts: StoreFacts, key_text: Sequence[str]) -> list[str]:
    return [
        f"The key {text} has a value of {size(value.bytes)}."
        for value, text in zip(facts.largest, key_text, strict=True)
        if value.bytes >= _LARGE
    ]
