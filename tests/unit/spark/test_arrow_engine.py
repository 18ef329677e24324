"""mapInArrowWithState's engine on a real store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hdfsstore.errors import UserFunctionError
from hdfsstore.spark.arrow_engine import ArrowEngine
from hdfsstore.spark.spec import Columns
from tests.unit.spark.partition import Partition, arrow_schema, call, output_of, struct

KEYS = struct(user="string")
STATE = struct(n="long")
OUTPUT = struct(user="string", n="long")
ROWS = pa.table({"user": ["ann"]})


def engine_of(func: Any) -> ArrowEngine:
    return ArrowEngine(func, Columns(("user",), ("user",), (0,)), arrow_schema(OUTPUT))


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (7, "TypeError: it gave int, not a pyarrow.Table"),
        ({"user": ["ann"], "n": [1]}, "TypeError: it gave dict"),
        (pa.table({"user": ["ann"]}), "ValueError: its output has the columns user; outputStructType has user, n"),
        (pa.table({"user": ["ann"], "m": [1]}), "ValueError: its output has the columns user, m"),
        (pa.table({"user": ["ann"], "n": [1], "m": [1]}), "ValueError: its output has the columns user, n, m"),
        (pa.table({"user": ["ann"], "n": ["one"]}), "ValueError: its output does not fit outputStructType: .*one"),
        (pa.table({"user": ["ann"], "n": [1.5]}), "ValueError: its output does not fit outputStructType: .*1.5"),
    ],
)
def test_output_that_does_not_fit_is_an_error_with_partition_and_batch(
    tmp_path: Path, output: Any, message: str
) -> None:
    partition = Partition(tmp_path, KEYS, STATE)
    engine = engine_of(lambda *_: output)
    with partition.batch() as state:
        pass
    with (
        pytest.raises(UserFunctionError, match=f"mapInArrowWithState failed in partition 0 of batch 1: {message}"),
        partition.batch() as state,
    ):
        output_of(engine.data(iter([call(ROWS, "user")]), state))


def test_an_exit_is_an_error_of_the_function_and_an_interrupt_is_none(tmp_path: Path) -> None:
    def raises(error: type[BaseException]) -> None:
        raise error("that is all")

    for wanted, error, said in (
        (SystemExit, UserFunctionError, "partition 0 of batch 0: SystemExit: that is all"),
        (KeyboardInterrupt, KeyboardInterrupt, "that is all"),
    ):
        engine = engine_of(lambda *_, wanted=wanted: raises(wanted))
        with pytest.raises(error, match=said), Partition(tmp_path, KEYS, STATE).batch() as state:
            output_of(engine.data(iter([call(ROWS, "user")]), state))


@pytest.mark.parametrize(
    "output",
    [
        pa.table({"n": [1], "user": ["ann"]}),
        pa.record_batch({"user": ["ann"], "n": [1]}),
        pa.table({"user": pa.array(["ann"], pa.large_string()), "n": pa.array([1], pa.int8())}),
        pa.table({"user": pa.array(["ann"]).dictionary_encode(), "n": [1.0]}),
    ],
)
def test_output_is_taken_by_name_and_cast(tmp_path: Path, output: Any) -> None:
    partition = Partition(tmp_path, KEYS, STATE)
    with partition.batch() as state:
        given = output_of(engine_of(lambda *_: output).data(iter([call(ROWS, "user")]), state))
    assert given == [("ann", 1)]
