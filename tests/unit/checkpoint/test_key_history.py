"""The rows of keys over time, by Spark's reading of each batch."""

from __future__ import annotations

import json
import logging
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hdfsstore
from hdfsstore.checkpoint.key_history import holds_by_hash, place_of
from hdfsstore.checkpoint.state_request import StateRequest
from hdfsstore.conditions.fields import ConditionError
from hdfsstore.conditions.keys import parse_key
from hdfsstore.conditions.texts import json_texts
from hdfsstore.errors import BatchNotAvailableError, SchemaMismatchError, StateStoreError
from tests.support.batches import StateOverTime, over_time
from tests.support.rows import comparable, counted
from tests.support.truth import DATA, family_reads, reads, rocksdb_reads

SIDES = [read for read in [*reads(), *rocksdb_reads()] if read.facts["join_side"]]


def opened(case: str, spark: str = "4.3.0") -> hdfsstore.Checkpoint:
    return hdfsstore.Checkpoint(DATA / f"spark-{spark}/{case}/checkpoint")


def rows_at(history: pa.Table, batch_id: int) -> pa.Table:
    """The rows that are there after a batch."""
    wanted = pc.and_(pc.equal(history["batch_id"], batch_id), pc.not_equal(history["change"], "removed"))
    return history.filter(wanted).drop_columns(["batch_id", "batch_time", "change"])


@pytest.mark.parametrize("state", over_time([*family_reads(), *SIDES]), ids=str)
def test_has_all_rows_that_spark_reads_at_each_batch(state: StateOverTime) -> None:
    checkpoint = hdfsstore.Checkpoint(state.case.checkpoint)
    truth = {batch_id: table.drop_columns(["partition_id"]) for batch_id, table in state.rows.items()}
    newest = truth[max(truth)]
    # A query may have other variables after a restart.
    history = checkpoint.history({}, end_batch_id=max(truth), **state.arguments)
    history.validate(full=True)
    for batch_id, rows in truth.items():
        columns = [column.cast(to.type) for column, to in zip(rows.columns, newest.columns, strict=True)]
        expected = pa.Table.from_arrays(columns, rows.column_names)
        assert counted(comparable(rows_at(history, batch_id))) == counted(comparable(expected)), batch_id
    content = history.column_names[-1]
    has_values = content not in ("list_element", "expiration_timestamp_ms") and state.arguments["join_side"] is None
    check_changes(history, list(truth), has_values=has_values)


@pytest.mark.parametrize("case", ["rocksdb_join_left_outer", "rocksdb_join_format3", "rocksdb_join_format4_outer"])
def test_of_a_join_side_only_what_may_have_the_key_is_decoded(case: str, decoded: list[int]) -> None:
    checkpoint = opened(case)
    every = checkpoint.history({}, join_side="left")
    of_all = sum(decoded)
    keys = every["key"].combine_chunks()
    for row in range(len(keys)):
        decoded.clear()
        found = checkpoint.history(keys.slice(row, 1), join_side="left")
        assert found.num_rows
        assert sum(decoded) < of_all / 2
    assert len(keys)
    decoded.clear()
    state = checkpoint.read_state(join_side="left").filter(pc.is_valid(pc.field("key", "field0")))
    in_state = sum(decoded)
    for row in state.to_pylist():
        decoded.clear()
        where = " and ".join(
            f"key.{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in row["key"].items()
        )
        found = checkpoint.read_state(join_side="left", where=where.replace('"', "'"))
        assert row in found.to_pylist()
        assert all(other["key"] == row["key"] for other in found.to_pylist())
        assert sum(decoded) < in_state


def check_changes(history: pa.Table, batch_ids: list[int], *, has_values: bool) -> None:
    """Checks what each batch is said to have done with the rows, by the rows at the batch before."""
    keys = history.column_names[3:-1] if has_values else history.column_names[3:]
    before = rows_at(history, batch_ids[0] or -1)
    for batch_id in batch_ids:
        after = rows_at(history, batch_id)
        at = history.filter(pc.equal(history["batch_id"], batch_id))
        of = {kind: at.filter(pc.equal(at["change"], kind)) for kind in ("", "added", "changed", "removed")}
        assert counted(of[""].select(after.column_names)) == counted(before) & counted(after)
        names = {name: rows.select(keys) for name, rows in of.items()}
        came, went = counted(after.select(keys)), counted(before.select(keys))
        assert counted(names["added"]) == came - went
        assert counted(names["removed"]) == went - came
        assert counted(names["changed"]) == (came & went) - counted(names[""])
        before = after


def test_says_what_became_of_a_key() -> None:
    table = opened("aggregation").history({"k": "Zürich"})
    assert table.column_names == ["batch_id", "batch_time", "change", "key", "value"]
    assert table["batch_id"].to_pylist() == [1, 2, 3]
    assert table["change"].to_pylist() == ["added", "", "changed"]
    times = {batch.batch_id: batch.timestamp_ms for batch in opened("aggregation").batches}
    assert table["batch_time"].cast(pa.int64()).to_pylist() == [times[batch_id] for batch_id in (1, 2, 3)]
    assert set(table["key"].combine_chunks().field(0).to_pylist()) == {"Zürich"}


@pytest.mark.parametrize(
    ("case", "arguments"),
    [
        ("aggregation", {}),
        ("window_aggregation", {}),
        ("transform_structures", {"state_var": "total"}),
        ("transform_structures", {"state_var": "seen"}),
        ("transform_structures", {"state_var": "times"}),
        ("transform_structures_zips", {"state_var": "times", "flatten_collections": False}),
        ("transform_avro", {"state_var": "seen", "flatten_collections": False}),
        ("transform_row_checksum", {"state_var": "times"}),
        ("transform_event_timers", {"read_registered_timers": True}),
        ("join_inner", {"join_side": "left"}),
        ("rocksdb_join_format3", {"join_side": "right"}),
        ("rocksdb_join_format4", {"join_side": "left"}),
        ("rocksdb_join_left_outer", {"join_side": "left"}),
        ("rocksdb_row_checksum_join", {"join_side": "right"}),
    ],
)
def test_one_key_has_the_rows_that_it_has_among_all(case: str, arguments: dict[str, Any]) -> None:
    checkpoint = opened(case)
    every = checkpoint.history({}, **arguments)
    texts = json_texts(every["key"].combine_chunks())
    for text, row in {text: row for row, text in enumerate(texts)}.items():
        expected = counted(every.filter(pa.array([other == text for other in texts])))
        assert counted(checkpoint.history(json.loads(text), **arguments)) == expected
        key = every["key"].combine_chunks().slice(row, 1)
        assert counted(checkpoint.history(key, **arguments)) == expected
    assert len(every)


@pytest.mark.parametrize(
    ("case", "arguments"),
    [
        ("aggregation", {}),
        ("window_aggregation", {}),
        ("drop_duplicates", {}),
        ("drop_duplicates_watermark", {}),
        ("transform_structures", {"state_var": "times"}),
        ("join_inner", {"join_side": "left"}),
        ("rocksdb_join_format3", {"join_side": "right"}),
    ],
)
def test_a_whole_key_is_looked_for_in_its_partition_only(case: str, arguments: dict[str, Any]) -> None:
    checkpoint = opened(case)
    request = StateRequest(0, "default", checkpoint.latest_batch_id, **arguments)
    rows = checkpoint.read_state(**arguments)
    assert len(rows) > 1
    number = checkpoint.batches[-1].num_partitions
    for key, partition_id in zip(
        json_texts(rows["key"].combine_chunks()), rows["partition_id"].to_pylist(), strict=True
    ):
        place = place_of(checkpoint, request, parse_key(key, rows.schema))
        assert place == (partition_id, number), key
        assert holds_by_hash(checkpoint, request, place)


@pytest.mark.parametrize(
    ("case", "store_name"), [("session_window", "default"), ("join_inner", "left-keyWithIndexToValue")]
)
def test_a_key_whose_partition_nobody_knows_is_looked_for_everywhere(case: str, store_name: str) -> None:
    checkpoint = opened(case)
    rows = checkpoint.read_state(0, store_name)
    pattern = parse_key(json_texts(rows["key"].combine_chunks())[0], rows.schema)
    assert pattern.row is not None
    assert place_of(checkpoint, StateRequest(0, store_name), pattern) is None


@pytest.mark.parametrize(
    ("case", "arguments"),
    [
        ("rocksdb_many_levels", {}),
        ("rocksdb_unique_ids_zips", {}),
        ("transform_structures_zips", {"state_var": "total"}),
    ],
)
def test_of_a_key_that_was_found_no_other_row_is_decoded(
    case: str, arguments: dict[str, Any], decoded: list[int]
) -> None:
    """Each version is a zip: no changelog has the changes of other keys."""
    checkpoint = opened(case)
    every = checkpoint.history({}, **arguments)
    keys = every["key"].combine_chunks()
    for row in range(0, len(keys), max(1, len(keys) // 8)):
        decoded.clear()
        found = checkpoint.history(keys.slice(row, 1), **arguments)
        there = found.filter(pc.not_equal(found["change"], "removed"))
        assert len(there) == sum(decoded) > 0
    assert len(keys)


@pytest.mark.parametrize(
    ("case", "arguments"),
    [("aggregation", {}), ("rocksdb_aggregation", {}), ("rocksdb_join_format3", {"join_side": "left"})],
)
def test_a_key_is_found_where_its_hash_does_not_place_it(case: str, arguments: dict[str, Any], tmp_path: Path) -> None:
    """As in a query begun before Spark 3.3, whose aggregation has the partitions of its input."""
    copy = Path(shutil.copytree(opened(case).path, tmp_path / "checkpoint"))
    state = copy / "state/0"
    for old, new in (("0", "moved"), ("1", "0"), ("moved", "1"), ("1/_metadata", "0/_metadata")):
        if (state / old).exists():
            (state / old).rename(state / new)
    checkpoint = hdfsstore.Checkpoint(copy)
    every = checkpoint.history({}, **arguments)
    assert counted(every) == counted(opened(case).history({}, **arguments))
    keys = every["key"].combine_chunks()
    texts = json_texts(keys)
    for text, row in {text: row for row, text in enumerate(texts)}.items():
        expected = counted(every.filter(pa.array([other == text for other in texts])))
        assert counted(checkpoint.history(keys.slice(row, 1), **arguments)) == expected, text
    assert len(keys)


def test_a_key_by_values_of_python() -> None:
    checkpoint = opened("window_aggregation")
    every = checkpoint.history({})
    key = every["key"][0].as_py()
    start = key["window"]["start"]
    assert isinstance(start, datetime)
    expected = counted(every.filter(pa.array([row == key for row in every["key"].to_pylist()])))
    assert counted(checkpoint.history(key)) == expected
    by_name = {"window.start": start.astimezone(UTC), "window.end": key["window"]["end"], "k": key["k"]}
    assert counted(checkpoint.history(by_name)) == expected


def test_a_range_of_batches_changes_only_and_a_limit() -> None:
    checkpoint = opened("aggregation")
    every = checkpoint.history({"k": "Zürich"})
    assert checkpoint.history({"k": "Zürich"}, start_batch_id=2, end_batch_id=3)["batch_id"].to_pylist() == [2, 3]
    assert checkpoint.history({"k": "Zürich"}, changes_only=True)["batch_id"].to_pylist() == [1, 3]
    assert checkpoint.history({"k": "Zürich"}, limit=2).equals(every.slice(0, 2))
    with pytest.raises(BatchNotAvailableError, match="keeps no batch from 77"):
        checkpoint.history({}, start_batch_id=77)


def test_names_and_columns() -> None:
    checkpoint = opened("aggregation_many_buffers")
    names = [field.name for field in checkpoint.history({}, unique_names=True).schema.field("value").type]
    assert len(set(names)) == len(names)
    flat = checkpoint.history({}, flatten_columns=True)
    assert flat.column_names[-len(names) :] == [f"value.{name}" for name in names]
    assert flat.column_names[3] == "key._groupingexpression"


def test_a_schema_may_be_given() -> None:
    checkpoint = opened("aggregation", "2.4.8")
    with pytest.raises(SchemaMismatchError, match="the store has no schema file"):
        checkpoint.history({})
    value = pa.schema([("count", pa.int64()), ("sum", pa.int64()), ("count", pa.int64()), ("sum", pa.float64())])
    history = checkpoint.history({"k": "a"}, key_schema=pa.schema([("k", pa.string())]), value_schema=value)
    assert history["change"][0].as_py() == "added"


def test_batches_whose_state_is_gone_are_left_out_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    copy = Path(shutil.copytree(opened("snapshots").path, tmp_path / "checkpoint"))
    expected = opened("snapshots").history({})
    for version in (1, 2):
        for delta in copy.glob(f"state/0/*/{version}.delta"):
            delta.unlink()
    with caplog.at_level(logging.WARNING, "hdfsstore.checkpoint"):
        history = hdfsstore.Checkpoint(copy).history({})
    (message,) = [record.message for record in caplog.records if record.name == "hdfsstore.checkpoint"]
    assert "The state of batch 0 to " in message
    batch_ids = set(history["batch_id"].to_pylist())
    assert 0 not in batch_ids
    for batch_id in batch_ids:
        assert counted(rows_at(history, batch_id)) == counted(rows_at(expected, batch_id))


@pytest.mark.parametrize("lost", [[6], [3, 4, 5]], ids=str)
def test_what_batches_did_whose_commits_were_lost_is_not_lost(lost: list[int], tmp_path: Path) -> None:
    copy = Path(shutil.copytree(opened("snapshots").path, tmp_path / "checkpoint"))
    expected = opened("snapshots").history({})
    for batch_id in lost:
        (copy / f"commits/{batch_id}").unlink()
    history = hdfsstore.Checkpoint(copy).history({})
    batch_ids = sorted(set(expected["batch_id"].to_pylist()) - set(lost))
    assert sorted(set(history["batch_id"].to_pylist())) == batch_ids
    for batch_id in batch_ids:
        assert counted(rows_at(history, batch_id)) == counted(rows_at(expected, batch_id)), batch_id


def test_a_variable_that_came_with_a_restart_has_no_rows_before(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "hdfsstore.checkpoint"):
        history = opened("transform_avro_evolved").history({}, state_var="fresh")
    assert min(history["batch_id"].to_pylist()) == 2
    assert "batch 0 to 1 cannot be read; of batch 1: " in caplog.text
    assert "operator 0 has no state variable 'fresh' at batch 1" in caplog.text


def test_errors() -> None:
    structures = opened("transform_structures")
    with pytest.raises(StateStoreError, match=r"no state variable 'count'.*seen, times, total"):
        structures.history({}, state_var="count")
    with pytest.raises(StateStoreError, match="seen, times, total: give state_var"):
        structures.history({})
    with pytest.raises(ConditionError, match=r"no field key\.x; the fields are key\.k$"):
        structures.history({"x": 1}, state_var="total")
    with pytest.raises(SchemaMismatchError, match="no key of the store"):
        structures.history(pa.array([{"x": 1, "y": 2}]), state_var="total")
