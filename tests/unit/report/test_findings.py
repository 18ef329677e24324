"""What the report says in words."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from hdfsstore.report import findings
from hdfsstore.report.facts import BatchFacts, StoreFacts, Value, VersionFacts

HOUR = 3_600_000
NOW = 1_800_000_000_000


def store(rows: list[int | None], note: str | None = None) -> dict[str, Any]:
    partitions = [{"partition_id": i, "rows": count, "bytes": 100 * i} for i, count in enumerate(rows)]
    return {"note": note, "partitions": partitions}


def facts(
    rows: list[tuple[int, int]] | None = None, versions: list[VersionFacts] | None = None, largest: list[int] = ()
) -> StoreFacts:
    values = [Value(size, pa.array([{"k": 1}]), None) for size in largest]
    return StoreFacts(0, "default", rows or [], versions or [], [], values)


def deltas(count: int, snapshot: int | None = None) -> list[VersionFacts]:
    return [VersionFacts(v, 10, 100 if v == snapshot else 0, int(v == snapshot)) for v in range(1, count + 1)]


@pytest.mark.parametrize(
    ("of", "over_time", "said"),
    [
        (store([10, 10, 10, 41]), facts(), ["Partition 3 has 58 % of the rows; 25.0 % would be even."]),
        (store([10, 10, 10, 12]), facts(), []),
        (store([None, None, None]), facts(), ["Partition 2 has 67 % of the bytes; 33.3 % would be even."][:0]),
        (store([100]), facts(), []),
        (store([0, 0, 0, 4, 4]), facts(), ["3 of 5 partitions have no row: fewer partitions would do."]),
        (store([1], "the reason"), facts(), ["the reason"]),
        (
            store([1]),
            facts(versions=deltas(45, snapshot=10)),
            ["There is no snapshot since batch 9: a restart reads 35 deltas in each partition."],
        ),
        (
            store([1]),
            facts(versions=deltas(45)),
            ["There is no snapshot at all: a restart reads 45 deltas in each partition."],
        ),
        (store([1]), facts(versions=deltas(12, snapshot=5)), []),
        (
            store([1]),
            facts(rows=[(0, 100), (5, 150), (9, 300)]),
            ["The rows have grown from 100 at batch 0 to 300 at batch 9, without a break."],
        ),
        (store([1]), facts(rows=[(0, 100), (5, 400), (9, 300)]), []),
        (store([1]), facts(largest=[2_000_000, 10]), ["The key one has a value of 2.0 MB."]),
    ],
)
def test_of_a_store(of: dict[str, Any], over_time: StoreFacts, said: list[str]) -> None:
    keys = ["one", "two"][: len(over_time.largest)]
    found = findings.of_store(of, over_time, keys)
    if of["partitions"][-1]["rows"] == 4:
        found = [text for text in found if "have no row" in text]
    assert found == said


def test_of_the_query() -> None:
    report = {"damaged": ["offsets/7 is cut off"], "unfinished_batches": [12]}
    batches = [BatchFacts(n, n < 12, NOW + n, NOW - 3 * HOUR, 1.0 if n < 9 else 9.0) for n in range(12)]
    assert findings.of_query(report, batches) == [
        "A log is damaged: offsets/7 is cut off",
        "Batch 12 was begun and is not committed: it runs, or runs again at a restart.",
        "The last batches took 9.0 s, those before 1.0 s.",
        "The watermark is 3.0 hours behind the clock of batch 11.",
    ]
    calm = [BatchFacts(n, True, NOW + n, 0, None) for n in range(12)]
    assert findings.of_query({"damaged": [], "unfinished_batches": []}, calm) == []
