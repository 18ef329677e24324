"""What the axes of the report's charts say."""

from __future__ import annotations

import re

import pytest

from hdfsstore.report.charts import partitions_chart, rows_chart, versions_chart
from hdfsstore.report.facts import VersionFacts


def labels(chart: str) -> list[str]:
    """The texts at the ticks, axis after axis, with the title at the end of each."""
    return re.findall(r">([^<>]+)</text>", chart)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([(7, 0)], ["7", "batch"]),
        ([(7, 1)], ["7", "batch", "0", "1", "rows"]),
        ([(0, 2), (1, 1)], ["0", "1", "batch", "0", "1", "2", "rows"]),
        ([(100, 3), (101, 0), (102, 1)], ["100", "101", "102", "batch", "0", "1", "2", "3", "rows"]),
        ([(batch, 10 * batch) for batch in range(31)], [*map(str, range(0, 31, 2)), "batch"]),
    ],
)
def test_batches_and_rows_are_whole_numbers(rows: list[tuple[int, int]], said: list[str]) -> None:
    assert labels(rows_chart(rows))[: len(said)] == said


@pytest.mark.parametrize("count", [1, 2, 61, 400])
def test_so_are_partitions(count: int) -> None:
    said = labels(partitions_chart([(number, number % 2) for number in range(count)], "rows"))
    end = said.index("partition")
    assert said[:end] == sorted({str(int(label)) for label in said[:end]}, key=int)
    assert said[0] == "0"
    if count > 1:
        assert said[end:] == ["partition", "0", "1", "rows"]


@pytest.mark.parametrize("snapshot_bytes", [0, 80_000])
def test_deltas_and_snapshots_share_their_axes(snapshot_bytes: int) -> None:
    sizes = {1: 0, 2: snapshot_bytes, 3: 0}
    versions = [VersionFacts(version, 500, size, int(size > 0)) for version, size in sizes.items()]
    *ticks, title = labels(versions_chart(versions))
    assert ticks[:4] == ["1", "2", "3", "version"]
    assert title == "bytes"
    assert ticks[4:] == (
        ["0k", "20k", "40k", "60k", "80k"] if snapshot_bytes else ["0", "100", "200", "300", "400", "500"]
    )
