"""Predicts the next batch from the shapes of the batches before it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hdfsstore.spark.driver.batch_shape import BatchShapes
from hdfsstore.spark.spec import Report

MiB = 1 << 20


def reports(*partitions: tuple[int, int]) -> list[Report]:
    """Of partitions with so many rows and bytes."""
    return [
        Report("run", 0, i, None, None, None, size / max(rows, 1), {"numInputRows": rows, "inputBytes": size})
        for i, (rows, size) in enumerate(partitions)
    ]


def test_four_times_the_largest_of_the_last_ten_is_expected() -> None:
    shapes = BatchShapes()
    assert shapes.may_exceed(1 << 60), "nothing is known"
    shapes = shapes.after(reports((100, MiB), (100, 16 * MiB)))
    assert not shapes.may_exceed(64 * MiB)
    assert shapes.may_exceed(64 * MiB - 1)
    for _ in range(9):
        shapes = shapes.after(reports((1, 8), (1, 8)))
    assert shapes.may_exceed(64 * MiB - 1)
    assert not shapes.after(reports((1, 8), (1, 8))).may_exceed(32)
    assert shapes.after(reports((0, 0), (0, 0))) == shapes, "a batch without rows says nothing"


def test_partitions_are_expected_to_have_rows_after_a_batch_where_each_had_some() -> None:
    assert not BatchShapes().is_dense
    dense = BatchShapes().after(reports((16, 160), (20, 100)))
    assert dense.is_dense
    assert dense.row_bytes == 10
    assert not dense.after(reports((15, 1), (20, 1))).is_dense


def test_what_is_logged_is_read_again() -> None:
    shapes = BatchShapes().after(reports((3, 7), (1, 9))).after(reports((5, 5)))
    assert shapes.logged == {"partitionBytes": [9, 5], "partitionRows": 5, "rowBytes": 1.0}
    assert BatchShapes.parse(json.loads(json.dumps(shapes.logged))) == shapes


@pytest.mark.parametrize(
    "logged",
    [
        *(None, [], "", 7, {}),
        {"partitionBytes": [1], "partitionRows": 5},
        {"partitionBytes": None, "partitionRows": 5, "rowBytes": 1.0},
        {"partitionBytes": ["1"], "partitionRows": 5, "rowBytes": 1.0},
        {"partitionBytes": [1], "partitionRows": "5", "rowBytes": 1.0},
        {"partitionBytes": [1], "partitionRows": 5, "rowBytes": None},
        {"partitionBytes": [True], "partitionRows": 5, "rowBytes": 1.0},
    ],
)
def test_a_log_that_makes_no_sense_says_nothing(logged: Any) -> None:
    assert BatchShapes.parse(logged) == BatchShapes()
