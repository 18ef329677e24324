"""A task without Spark."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from hdfsstore import CorruptFileError
from hdfsstore.spark import task as task_module
from hdfsstore.spark.partition_state import PartitionState
from hdfsstore.spark.providers import Providers
from hdfsstore.spark.shipped import ShippedEngine
from hdfsstore.spark.spec import BatchSpec, Columns, Report
from hdfsstore.spark.task import StatefulTask
from tests.unit.spark.partition import Partition, struct


class Nothing:
    """An engine that leaves the state as it is."""

    def data(self, calls: Iterator[Any], state: PartitionState) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        return iter(())

    def expired(self, state: PartitionState) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        return iter(())


class Reports:
    """An accumulator."""

    def __init__(self) -> None:
        self.added: list[Report] = []

    def add(self, reports: list[Report]) -> None:
        self.added += reports


def test_a_damaged_file_is_named_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_module, "providers", Providers())
    query = Partition(tmp_path, struct(k="long"), struct(n="long")).query
    query = replace(query, columns=Columns(("k",), ("k",), (0,)))
    marker = pa.RecordBatch.from_pydict({"": pa.array([0], pa.int32()), "k": pa.array([None], pa.int64())})
    engine = ShippedEngine(cloudpickle.dumps(Nothing()))  # type: ignore[no-untyped-call]
    reports = Reports()
    task = StatefulTask(query, engine, BatchSpec(0, (None,), -1, 1_000, -1, False, True), cast("Any", reports))
    assert list(task(iter([marker]))) == []
    (report,) = reports.added
    (path,) = tmp_path.glob("state/0/0/1_*.delta")
    path.write_bytes(path.read_bytes()[:-1])
    query = replace(query, store_conf=replace(query.store_conf, local_dir=str(tmp_path / "other")))
    task = StatefulTask(query, engine, BatchSpec(1, (report.new_id,), -1, 2_000, -1, False, True), cast("Any", reports))
    with pytest.raises(CorruptFileError, match="Put the file back; or set the query back") as caught:
        list(task(iter([marker])))
    assert caught.value.path == str(path)
