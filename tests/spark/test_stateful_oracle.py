"""The same jobs on Spark's API and on ours: outputs, state and watermarks are equal batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

import hdfsstore.spark
from hdfsstore.spark.driver import batch_shape
from tests.spark.support import jobs
from tests.spark.support.runs import Batch, Job, run
from tests.spark.support.scripted import SCRIPT_STATE, play_arrow, play_rows

Truth = Callable[[Job], list[Batch]]
ALL_NULL = (None,) * len(SCRIPT_STATE.split(","))


@pytest.fixture(scope="module")
def truth(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Truth]:
    """What Spark makes of a job. Spark begins with those of all tests to come, as one query leaves a core idle."""
    folder = tmp_path_factory.mktemp("spark")
    with ThreadPoolExecutor(1) as background:
        begun: dict[str, Future[list[Batch]]] = {}

        def begin(job: Job) -> Future[list[Batch]]:
            if job.name not in begun:
                begun[job.name] = background.submit(run, spark, job, DataFrame.groupBy, folder / str(job))
            return begun[job.name]

        for item in request.session.items:
            if isinstance(item, pytest.Function) and item.module is request.module and hasattr(item, "callspec"):
                begin(item.callspec.params["job"])
        yield lambda job: begin(job).result()
        background.shutdown(cancel_futures=True)


@pytest.fixture(autouse=True)
def few_markers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches have no markers after one that had a row in each partition, as after one of many rows."""
    monkeypatch.setattr(batch_shape, "_DENSE_ROWS", 1)


def comparable(job: Job, batches: list[Batch]) -> list[tuple[list[str], list[str], int]]:
    """Batches without the clock: a timeout by processing time is so many milliseconds after a batch's."""
    durations = {int(float(op[4:])) for rows in job.batches for row in rows for op in ops_of(job, row)}

    def since(timeout: int) -> Any:
        found = [(timeout - b.timestamp_ms, i) for i, b in enumerate(batches) if timeout - b.timestamp_ms in durations]
        return found or timeout

    def state_of(batch: Batch) -> list[str]:
        if job.timeout != "ProcessingTimeTimeout":
            return list(map(repr, batch.state))
        return [repr((key, value, since(timeout), partition)) for key, (value, timeout), partition in batch.state]

    return [(batch.output, state_of(batch), batch.watermark_ms) for batch in batches]


def ops_of(job: Job, row: tuple[Any, ...]) -> list[str]:
    """The `for` ops of a script's row, those for its time-out too."""
    if job.timeout != "ProcessingTimeTimeout":
        return []
    ops = row[3].replace("later:", "").replace(".", " ").replace(",", ":").split()
    return [op for op in ops if op.startswith("for:")]


@pytest.mark.parametrize("job", jobs.JOBS, ids=str)
def test_apply_in_pandas_gives_what_spark_gives(spark: SparkSession, truth: Truth, tmp_path: Path, job: Job) -> None:
    ours = run(spark, job, hdfsstore.spark.groupBy, tmp_path)
    assert comparable(job, ours) == comparable(job, truth(job))


@pytest.mark.parametrize("job", jobs.SCRIPTS, ids=str)
@pytest.mark.parametrize("api", ["mapWithState", "mapInArrowWithState"])
def test_the_other_functions_do_the_same(spark: SparkSession, truth: Truth, tmp_path: Path, api: str, job: Job) -> None:
    func = play_rows if api == "mapWithState" else partial(play_arrow, job.timeout, job.watermark is not None)
    ours = run(spark, job, hdfsstore.spark.groupBy, tmp_path, api, func)
    assert comparable(job, alike(ours)) == comparable(job, alike(truth(job)))


def alike(batches: list[Batch]) -> list[Batch]:
    """Batches without what only frames have, and with no difference of a state of nulls from none: Arrow's functions
    cannot set a timeout without a state."""
    return [
        replace(
            batch,
            output=[row[: row.rindex(", columns=")] for row in batch.output],
            state=[(k, (None if state == ALL_NULL else state, *rest), part) for k, (state, *rest), part in batch.state],
        )
        for batch in batches
    ]


@pytest.mark.parametrize(
    ("job", "keys"), jobs.EXPRESSIONS, ids=lambda value: str(value) if isinstance(value, Job) else ""
)
def test_keys_may_be_expressions(spark: SparkSession, truth: Truth, tmp_path: Path, job: Job, keys: list[Any]) -> None:
    ours = run(spark, replace(job, keys=keys, prepare=None), hdfsstore.spark.groupBy, tmp_path)
    assert comparable(job, ours) == comparable(job, truth(job))


def test_without_keys_all_rows_are_one_group(spark: SparkSession, truth: Truth, tmp_path: Path) -> None:
    ours = run(spark, replace(jobs.NO_KEYS, keys=[], prepare=None), hdfsstore.spark.groupBy, tmp_path)
    theirs = truth(jobs.NO_KEYS)
    assert [batch.output for batch in ours] == [[row.replace("\"('x',)\"", "'()'") for row in b.output] for b in theirs]
    assert [[(value, 0) for _, value, _ in b.state] for b in theirs] == [[row[1:] for row in b.state] for b in ours]


def test_zeros_and_nans_are_one_key_each(spark: SparkSession, truth: Truth, tmp_path: Path) -> None:
    ours = run(spark, jobs.zeros(-0.0), hdfsstore.spark.groupBy, tmp_path)
    theirs = truth(jobs.zeros(0.0))
    assert [batch.state for batch in ours] == [batch.state for batch in theirs]


def test_arrays_and_maps_come_back_from_the_state(spark: SparkSession, tmp_path: Path) -> None:
    batches = run(spark, jobs.STATE_COLLECTIONS, hdfsstore.spark.groupBy, tmp_path)
    values = {
        **jobs.COLLECTIONS,
        "full": ([1, None, 3], {"a": 1.5, "b": None}, [Row(z=1), None], {"x": [1, None], "y": []}),
    }
    expected = [Row(k=repr((key,)), seen=repr((value,))) for key, value in values.items()]
    assert batches[1].output == sorted(map(repr, expected))
