"""The rows that differ between two batches, by Spark's reading of both."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hdfsstore
from hdfsstore.checkpoint import reading
from hdfsstore.errors import BatchNotAvailableError, SchemaMismatchError, StateStoreError
from tests.support.batches import StateOverTime, over_time
from tests.support.rows import comparable, counted
from tests.support.truth import DATA, Read, family_reads, reads, rocksdb_reads

KINDS = ("added", "changed", "removed")


def of_sides(found: list[Read]) -> list[Read]:
    return [read for read in found if read.facts["join_side"]]


STATES = over_time([*family_reads(), *of_sides([*reads(), *rocksdb_reads()])])


def side(diff: pa.Table, kinds: list[str], name: str, columns: list[str]) -> Counter[str]:
    """How often each row occurs before or after the changes of these kinds."""
    rows = diff.filter(pc.is_in(diff["change"], value_set=pa.array(kinds)))
    rows = rows.select([*columns[:-1], name]).rename_columns(columns)
    return counted(comparable(rows))


def in_types_of(newer: pa.Table, older: pa.Table) -> pa.Table:
    """The rows as they are in the state of a later batch, whose schema may have more fields."""
    columns = [column.cast(to.type) for column, to in zip(older.columns, newer.columns, strict=True)]
    return pa.Table.from_arrays(columns, older.column_names)


@pytest.mark.parametrize("state", STATES, ids=str)
def test_leads_from_what_spark_reads_at_one_batch_to_what_it_reads_at_another(state: StateOverTime) -> None:
    checkpoint = hdfsstore.Checkpoint(state.case.checkpoint)
    rows = {batch_id: table.drop_columns(["partition_id"]) for batch_id, table in state.rows.items()}
    batch_ids = list(rows)
    for start, end in {*pairwise(batch_ids), (batch_ids[0], batch_ids[-1])}:
        diff = checkpoint.diff(start, end, **state.arguments)
        diff.validate(full=True)
        columns = rows[end].column_names
        assert diff.column_names == ["change", *columns[:-1], "before", "after"]
        gone = side(diff, ["changed", "removed"], "before", columns)
        come = side(diff, ["changed", "added"], "after", columns)
        before, after = (counted(comparable(in_types_of(rows[end], rows[batch]))) for batch in (start, end))
        assert gone <= before
        assert before - gone + come == after
        if "__event_time" not in [field.name for field in diff.schema.field("key").type]:  # which has no truth
            assert not gone & come
        kinds = diff["change"].to_pylist()
        assert kinds == sorted(kinds, key=KINDS.index)
        for kind, absent in (("added", "before"), ("removed", "after")):
            assert pc.all(diff.filter(pc.equal(diff["change"], kind))[absent].is_null()).as_py() in (True, None)


@pytest.mark.parametrize("case", ["aggregation_many_buffers", "window_aggregation", "rocksdb_unique_ids"])
def test_the_deltas_and_the_states_tell_the_same(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = hdfsstore.Checkpoint(DATA / f"spark-4.3.0/{case}/checkpoint")
    by_deltas = checkpoint.diff(0, checkpoint.latest_batch_id)

    def no_deltas(*_arguments: object) -> None:
        raise BatchNotAvailableError("no deltas")

    monkeypatch.setattr(checkpoint, "changes_to_read", no_deltas)
    by_states = checkpoint.diff(0, checkpoint.latest_batch_id)
    assert by_deltas.schema == by_states.schema
    assert counted(by_deltas) == counted(by_states)
    assert len(by_deltas)


def test_the_deltas_are_taken_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = hdfsstore.Checkpoint(DATA / "spark-4.3.0/window_aggregation/checkpoint")
    opened: list[reading.RowsToRead] = []
    open_state = reading.open_state

    def watched(rows: reading.RowsToRead, threads: int) -> pa.RecordBatchReader:
        opened.append(rows)
        return open_state(rows, threads)

    monkeypatch.setattr(reading, "open_state", watched)
    checkpoint.diff(0, 2)
    assert len(opened) == 1


def test_names_and_columns() -> None:
    checkpoint = hdfsstore.Checkpoint(DATA / "spark-4.3.0/aggregation_many_buffers/checkpoint")
    nested = checkpoint.diff(0, 1, unique_names=True)
    names = [field.name for field in nested.schema.field("after").type]
    assert len(set(names)) == len(names)
    flat = checkpoint.diff(0, 1, flatten_columns=True)
    assert flat.column_names[:2] == ["change", "key._groupingexpression"]
    assert [f"before.{name}" for name in names] == [name for name in flat.column_names if name.startswith("before.")]
    assert flat["after." + names[0]].to_pylist() == [row[names[0]] for row in nested["after"].to_pylist()]


def test_a_schema_may_be_given() -> None:
    checkpoint = hdfsstore.Checkpoint(DATA / "spark-2.4.8/aggregation/checkpoint")
    with pytest.raises(SchemaMismatchError, match="the store has no schema file"):
        checkpoint.diff(0, 1)
    value = pa.schema([("count", pa.int64()), ("sum", pa.int64()), ("count", pa.int64()), ("sum", pa.float64())])
    rows = checkpoint.diff(0, 1, key_schema=pa.schema([("k", pa.string())]), value_schema=value, unique_names=True)
    assert rows["change"].to_pylist().count("changed")
    assert all(row["before"]["count"] < row["after"]["count"] for row in rows.to_pylist() if row["before"])


def test_says_what_is_there() -> None:
    structures = hdfsstore.Checkpoint(DATA / "spark-4.3.0/transform_structures/checkpoint")
    with pytest.raises(StateStoreError, match=r"no state variable 'count'.*seen, times, total"):
        structures.diff(0, 1, state_var="count")
    with pytest.raises(StateStoreError, match="seen, times, total: give state_var"):
        structures.diff(0, 1)
    with pytest.raises(StateStoreError, match="no timers"):
        structures.diff(0, 1, read_registered_timers=True)
    with pytest.raises(StateStoreError, match=r"stream-stream join.*left or right"):
        hdfsstore.Checkpoint(DATA / "spark-4.3.0/rocksdb_join_format4/checkpoint").diff(0, 1)
    with pytest.raises(StateStoreError, match="batch 1 is not before batch 1"):
        structures.diff(1, 1, state_var="total")


def test_a_variable_with_more_fields_after_a_restart_is_compared_field_by_field() -> None:
    checkpoint = hdfsstore.Checkpoint(DATA / "spark-4.3.0/transform_avro_evolved/checkpoint")
    diff = checkpoint.diff(0, 3, state_var="seen", flatten_collections=False)
    (older, newer) = (diff.schema.field(name).type.value_type for name in ("before", "after"))
    assert [field.name for field in older] == [field.name for field in newer] == ["n", "word"]
    removed = [row["before"] for row in diff.to_pylist() if row["change"] == "changed"]
    assert {element["word"] for elements in removed for element in elements} == {None}
