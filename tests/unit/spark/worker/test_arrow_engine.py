"""mapInArrowWithState's engine on a real store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hdfsstore.codecs.murmur3 import partition_ids
from hdfsstore.errors import StateStoreError, UserFunctionError
from hdfsstore.spark.spec import Columns
from hdfsstore.spark.worker.arrow_engine import ArrowEngine, ArrowState
from tests.support.query_partition import QueryPartition, arrow_schema, call, ours, output_of, struct

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
    partition = QueryPartition(tmp_path, KEYS, STATE)
    engine = engine_of(lambda *_: output)
    with partition.batch() as state:
        pass
    with (
        pytest.raises(UserFunctionError, match=f"mapInArrowWithState failed in partition 0 of batch 1: {message}"),
        partition.batch() as state,
    ):
        output_of(engine.data(iter([call(ROWS, "user")]), state))


def test_what_ends_a_process_is_an_error_of_the_function(tmp_path: Path) -> None:
    def raises(error: type[BaseException]) -> None:
        raise error("that is all")

    for wanted in (SystemExit, KeyboardInterrupt, GeneratorExit):
        engine = engine_of(lambda *_, wanted=wanted: raises(wanted))
        said = f"partition 0 of batch 0: {wanted.__name__}: that is all"
        with pytest.raises(UserFunctionError, match=said), QueryPartition(tmp_path, KEYS, STATE).batch() as state:
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
    partition = QueryPartition(tmp_path, KEYS, STATE)
    with partition.batch() as state:
        given = output_of(engine_of(lambda *_: output).data(iter([call(ROWS, "user")]), state))
    assert given == [("ann", 1)]


def test_keys_that_were_just_got_are_updated_as_others_are(tmp_path: Path) -> None:
    partition = QueryPartition(tmp_path, KEYS, STATE)
    keys = pa.table({"user": ["ann", "bob", "cyd", "bob"]})
    with partition.batch() as state:
        ArrowState(state).put(keys, pa.table({"n": [1, 2, 3, 4]}))
    with partition.batch() as state:
        arrow_state = ArrowState(state)
        for values in ([5, 6, 7, 8], [9, 10, 11, 12]):
            arrow_state.get(keys)
            arrow_state.remove(pa.array(["ann"]))
            with pytest.raises(ValueError, match="4 keys and 3 states"):
                arrow_state.put(keys, pa.table({"n": values[:3]}))
            arrow_state.put(keys, pa.table({"n": values}))
            assert arrow_state.get(keys)["n"].to_pylist() == [values[0], values[3], values[2], values[3]]
            arrow_state.remove(keys)
            assert arrow_state.get(pa.table({"user": ["bob"]}))["n"].to_pylist() == [None]
        arrow_state.put(keys.slice(1, 1), pa.table({"n": [13]}))
    assert partition.rows() == {"bob": {"groupState": {"n": 13}}}


def test_keys_of_another_partition_are_refused_by_every_method(tmp_path: Path) -> None:
    users = pa.array([f"user-{i}" for i in range(100)])
    ids = partition_ids(pa.StructArray.from_arrays([users], names=["user"]), ours(KEYS), 4)
    own, foreign = (users.filter(pc.equal(ids, id_)) for id_ in (0, 1))
    old, new = own[: len(own) // 2], own[len(own) // 2 :]
    mixed = pa.concat_arrays([own, foreign[:1]])
    partition = QueryPartition(tmp_path, KEYS, STATE, num_partitions=4)
    with partition.batch() as state:
        ArrowState(state).put(old, pa.table({"n": range(len(old))}))
    before = partition.rows()
    with partition.batch() as state:
        arrow_state = ArrowState(state)
        assert arrow_state.get(old)["n"].to_pylist() == list(range(len(old)))
        assert arrow_state.get(new)["n"].to_pylist() == [None] * len(new)
        assert arrow_state.get(own)["n"].null_count == len(new)
        arrow_state.remove(new)
        values = pa.table({"n": [1] * len(mixed)})
        for method, *arguments in ((arrow_state.get,), (arrow_state.put, values), (arrow_state.remove,)):
            for keys in (mixed, foreign[:1]):
                with pytest.raises(StateStoreError, match=rf"\(user='{foreign[0]}'\) is not one of partition 0 of 4"):
                    method(keys, *(table.slice(0, len(keys)) for table in arguments))
    assert partition.rows() == before
