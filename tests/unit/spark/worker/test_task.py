"""A task without Spark."""

from __future__ import annotations

import pickle
import runpy
import sys
import traceback
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from hdfsstore import CorruptFileError, StateStoreError, UnsupportedQueryError, release
from hdfsstore.errors import UserFunctionError
from hdfsstore.spark.base_ids import BaseIds
from hdfsstore.spark.redaction import Shown
from hdfsstore.spark.spec import BatchSpec, Columns, Report
from hdfsstore.spark.worker import same_release
from hdfsstore.spark.worker import task as task_module
from hdfsstore.spark.worker.partition_state import PartitionState
from hdfsstore.spark.worker.providers import Providers
from hdfsstore.spark.worker.shipped_engine import ShippedEngine
from hdfsstore.spark.worker.task import StatefulTask
from tests.support.query_partition import QueryPartition, struct

DRIVER = release.RELEASE


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
    query = QueryPartition(tmp_path, struct(k="long"), struct(n="long")).query
    query = replace(query, columns=Columns(("k",), ("k",), (0,)))
    marker = pa.RecordBatch.from_pydict({"": pa.array([0], pa.int32()), "k": pa.array([None], pa.int64())})
    engine = ShippedEngine(cloudpickle.dumps(Nothing()))  # type: ignore[no-untyped-call]
    reports = Reports()
    task = StatefulTask(query, engine, BatchSpec(0, BaseIds((None,)), -1, 1_000, -1, False, True), cast("Any", reports))
    assert list(task(iter([marker]))) == []
    (report,) = reports.added
    (path,) = tmp_path.glob("state/0/0/1_*.delta")
    path.write_bytes(path.read_bytes()[:-1])
    query = replace(query, store_conf=replace(query.store_conf, local_dir=str(tmp_path / "other")))
    task = StatefulTask(
        query, engine, BatchSpec(1, BaseIds((report.new_id,)), -1, 2_000, -1, False, True), cast("Any", reports)
    )
    with pytest.raises(CorruptFileError, match="Put the file back; or set the query back") as caught:
        list(task(iter([marker])))
    assert caught.value.path == str(path)


def test_what_a_task_carries_for_each_partition_is_small(tmp_path: Path) -> None:
    """PySpark allows one MiB, and the function may take half of it."""
    query = QueryPartition(tmp_path, struct(k="long"), struct(n="long")).query

    def size(ids: Sequence[str | None]) -> int:
        batch = BatchSpec(1, BaseIds(ids), -1, 1_000, -1, False, True)
        return len(cloudpickle.dumps(StatefulTask(query, ShippedEngine(b""), batch, cast("Any", Reports()))))

    ids = [str(uuid.uuid4()) for _ in range(30_000)]
    assert size(ids) < 500_000
    assert size(ids) - size(ids[:1]) <= 17 * len(ids)


@pytest.mark.parametrize(
    "ids",
    [
        (str(uuid.UUID(int=1)), None, str(uuid.uuid4())),
        (None, None),
        (str(uuid.uuid4()).upper(), str(uuid.uuid4())),
        ("an-id", None),
        (uuid.uuid4().hex,),
        (str(uuid.UUID(int=0)), None),
    ],
)
def test_ids_of_partitions_arrive_as_they_were(ids: tuple[str | None, ...]) -> None:
    arrived = pickle.loads(pickle.dumps(BaseIds(ids)))
    assert tuple(arrived[partition_id] for partition_id in range(len(ids))) == ids


class Unpicklable(Nothing):
    """Unpickling it calls `raising`."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __reduce__(self) -> Any:
        return raising, (self.error,)


def raising(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize("redacted", [False, True])
@pytest.mark.parametrize("error", [ImportError, StateStoreError, SystemExit])
def test_what_unpickling_a_function_says_is_cut_and_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException], redacted: bool
) -> None:
    monkeypatch.setattr(task_module, "providers", Providers())
    query = QueryPartition(tmp_path, struct(k="long"), struct(n="long")).query
    query = replace(query, columns=Columns(("k",), ("k",), (0,)), shown=Shown(redacted))
    marker = pa.RecordBatch.from_pydict({"": pa.array([0], pa.int32()), "k": pa.array([None], pa.int64())})
    pickled: bytes = cloudpickle.dumps(Unpicklable(error("4929-1234" + "x" * 10**6)))  # type: ignore[no-untyped-call]
    batch = BatchSpec(0, BaseIds((None,)), -1, 1_000, -1, False, True)
    task = StatefulTask(query, ShippedEngine(pickled), batch, cast("Any", Reports()))
    with pytest.raises(UserFunctionError, match="cannot be unpickled in partition 0 of batch 0") as caught:
        list(task(iter([marker])))
    said = "".join(traceback.format_exception(caught.value))
    assert len(said) < 10_000
    assert error.__name__ in said
    assert ("4929-1234" in said) is not redacted


def test_another_release_on_an_executor_is_named_before_anything_else_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = QueryPartition(tmp_path, struct(k="long"), struct(n="long")).query
    batch = BatchSpec(0, BaseIds((None,)), -1, 1_000, -1, False, True)
    task = StatefulTask(replace(query, run_id="of the query"), ShippedEngine(b""), batch, cast("Any", Reports()))
    pickled: bytes = cloudpickle.dumps(task)  # type: ignore[no-untyped-call]
    assert isinstance(cloudpickle.loads(pickled), StatefulTask)
    monkeypatch.setattr(same_release, "RELEASE", "0.0.7")
    # A class of the driver's release may be missing.
    broken = pickled.replace(b"QuerySpec", b"QueryNone")
    assert broken != pickled
    with pytest.raises(
        UnsupportedQueryError, match=rf"driver has hdfsstore {DRIVER}, and the executor on .* has 0\.0\.7"
    ):
        cloudpickle.loads(broken)


def test_a_copy_without_package_metadata_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])  # the metadata is found by it
    assert runpy.run_path(release.__file__)["RELEASE"] == release.UNKNOWN


@pytest.mark.parametrize(("driver", "executor"), [(release.UNKNOWN, "0.0.7"), ("0.0.7", release.UNKNOWN)])
def test_a_release_that_is_not_known_is_not_compared(
    driver: str, executor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(same_release, "RELEASE", driver)
    pickled: bytes = cloudpickle.dumps(same_release.SameRelease())  # type: ignore[no-untyped-call]
    monkeypatch.setattr(same_release, "RELEASE", executor)
    assert isinstance(cloudpickle.loads(pickled), same_release.SameRelease)
