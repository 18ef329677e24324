"""Edits of one store, on checkpoints that Sparks wrote."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hdfsstore import Checkpoint
from hdfsstore.checkpoint.operator_state import OperatorState
from hdfsstore.checkpoint.operators import Store
from hdfsstore.checkpoint.state_request import StateRequest
from hdfsstore.checkpoint.stored_rows import rows_of_store
from hdfsstore.codecs.records import RecordChunk
from hdfsstore.conditions.fields import ConditionError
from hdfsstore.errors import RepairError, SchemaMismatchError, StateStoreError
from hdfsstore.repair.edit import Edit, StoreEdit, sql_function
from hdfsstore.repair.fitted_rows import fitted_rows
from hdfsstore.repair.placement import placement_of
from tests.support.rows import counted, plain
from tests.support.truth import DATA, Case, cases, few_cases

HUGE = 2**70
BOTH = ("aggregation", "rocksdb_aggregation")
EDITABLE = [
    case
    for case in cases()
    if not case.families
    and "spark-2" not in str(case)
    and "join" not in case.folder.name
    and case.folder.name != "fewer_partitions_by_hand"  # has a key in two partitions
]


class Opened:
    """The first store of a checkpoint, and what becomes of its rows."""

    def __init__(self, name: str | Case) -> None:
        path = name.checkpoint if isinstance(name, Case) else DATA / "spark-4.3.0" / name / "checkpoint"
        self.state: OperatorState = Checkpoint(path).operator_state()
        self.store: Store = self.state.operator.stores[0]
        self.placement = placement_of(self.state, self.store)
        self.rows: pa.Table = Checkpoint(path).read_state()

    def edit(self, **what: Any) -> StoreEdit:
        return StoreEdit(self.state, self.store, Edit(**what), self.placement.kind)

    def after(self, edit: StoreEdit) -> pa.Table:
        """The rows, decoded from the chunks, in the partitions of their keys."""
        request = StateRequest(0, self.store.name, None, None, None, None, None)
        converter, _ = rows_of_store(self.state, request)
        batches = []

        def take(chunk: RecordChunk) -> None:
            ids = self.placement.partitions(chunk, self.store.num_partitions)
            batch = converter.of_partition(0)(chunk)
            batches.append(batch.set_column(2, batch.schema.field(2), ids))

        for partition in self.state.partitions(self.store, self.store.key_type):
            for chunk in self.state.files(self.store, partition).stream(self.state.version, RecordChunk.copy):
                take(edit.kept(chunk, partition))
        for chunk in edit.added:
            take(chunk)
        return pa.Table.from_batches(batches, converter.schema).rename_columns(["key", "value", "partition_id"])


@pytest.mark.parametrize("case", few_cases(EDITABLE), ids=str)
def test_rows_that_are_read_and_put_are_the_same_rows(case: Case) -> None:
    opened = Opened(case)
    assert counted(opened.after(opened.edit(rows=opened.rows))) == counted(opened.rows)
    assert counted(opened.after(opened.edit(function=lambda rows: rows))) == counted(opened.rows)


@pytest.mark.parametrize("name", BOTH)
def test_rows_are_replaced_and_new_ones_go_where_their_key_belongs(name: str) -> None:
    opened = Opened(name)
    key, value = opened.rows.schema.field("key").type, opened.rows.schema.field("value").type
    keys = ["a", *(f"new {i}" for i in range(50))]
    given = pa.table({
        "value": pa.array([dict.fromkeys(value.names, None)] * len(keys), value),
        "key": pa.array([{"k": each} for each in keys], key),
    })  # fmt: skip
    given = given.set_column(0, "value", _counts(value, len(keys)))
    after = opened.after(opened.edit(rows=given))
    old = [each for each in plain(opened.rows["key"]) if each != (b"a",)]
    assert Counter(plain(after["key"])) == Counter([*old, *((each.encode(),) for each in keys)])
    assert set(after["partition_id"].to_pylist()) == {0, 1}
    for row, found in zip(plain(after["key"]), plain(after["value"]), strict=True):
        if row[0] is not None and (row[0] == b"a" or row[0].startswith(b"new")):
            assert found[0] == 7


def _counts(value: Any, count: int) -> pa.StructArray:
    columns = [pa.array([7] * count, pa.int64()).cast(field.type) for field in value]
    return pa.StructArray.from_arrays(columns, names=value.names)


@pytest.mark.parametrize("name", BOTH)
def test_a_condition_removes_rows(name: str) -> None:
    opened = Opened(name)
    after = opened.after(opened.edit(remove="key.k = 'a' or key.k is null"))
    kept = [each for each in plain(opened.rows["key"]) if each[0] not in (b"a", None)]
    assert 0 < len(kept) < len(opened.rows)
    assert Counter(plain(after["key"])) == Counter(kept)
    assert len(opened.after(opened.edit(remove="key.k = 'nobody'"))) == len(opened.rows)
    with pytest.raises(ConditionError, match="there is no field"):
        opened.edit(remove="key.user = 'a'")


def test_what_was_removed_can_be_put_again() -> None:
    opened = Opened("rocksdb_aggregation")
    one = opened.rows.slice(0, 1)
    assert counted(opened.after(opened.edit(remove="key.k is null or key.k is not null", rows=one))) == counted(one)


@pytest.mark.parametrize("name", BOTH)
def test_sql_and_functions_make_all_rows_anew(name: str) -> None:
    opened = Opened(name)
    first = opened.rows.schema.field("value").type.field(0).name
    function = sql_function(f"select key, value from state where value.{first} > 1")
    expected = opened.rows.filter(pc.greater(pc.struct_field(opened.rows["value"], [0]), 1))
    assert counted(opened.after(opened.edit(function=function))) == counted(expected)
    assert len(opened.after(opened.edit(function=lambda rows: rows.slice(0, 0)))) == 0
    with pytest.raises(RepairError, match=r"no pyarrow\.Table"):
        list(opened.edit(function=lambda rows: rows.to_pydict()).added)
    with pytest.raises(RepairError, match="nothing"):
        list(opened.edit(function=sql_function("select * from nothing")).added)


def test_types_nulls_and_keys_are_checked_with_the_number_of_the_row() -> None:
    opened = Opened("aggregation")
    key, value = (opened.rows.schema.field(name).type for name in ("key", "value"))
    good = opened.rows.slice(0, 3)

    def given(change: Callable[[pa.Table], pa.Table]) -> pa.Table:
        return change(good.combine_chunks())

    def with_values(values: list[Any], kind: pa.DataType) -> pa.Table:
        structs = good["value"].combine_chunks()
        columns = [pa.array(values, kind), *structs.flatten()[1:]]
        return good.set_column(1, "value", pa.StructArray.from_arrays(columns, names=value.names))

    first = value.field(0).name
    cases: list[tuple[pa.Table, str]] = [
        (with_values(["1", "2", "x"], pa.string()), f"value.{first} is string"),
        (
            with_values([Decimal(1), Decimal(2**70), Decimal(3)], pa.decimal128(38, 0)),
            f"row 1: value.{first} is {2**70}",
        ),
        (with_values([1.0, 2.5, 3.0], pa.float64()), f"value.{first} is double"),
        (good.drop_columns(["value"]), "the rows have the columns key"),
        (good.append_column("more", pa.nulls(3)), "more"),
        (pa.concat_tables([good, good.slice(1, 1)]), "rows 1 and 3 have the same key"),
        (given(lambda rows: rows.set_column(1, "value", pa.nulls(3, value))), "row 0: value is null"),
        (given(lambda rows: rows.set_column(0, "key", pa.array([{"j": 1}] * 3))), r"key is struct<j.*the fields k"),
    ]
    for rows, message in cases:
        with pytest.raises(SchemaMismatchError, match=message):
            opened.edit(rows=rows)
    assert opened.edit(rows=with_values([1, 2, 3], pa.int32()))
    assert key.names == ["k"]


def test_a_number_that_is_too_large_for_a_float() -> None:
    schema = pa.schema([("key", pa.struct([("k", pa.int64())])), ("value", pa.struct([("f", pa.float32())]))])
    keys = pa.array([{"k": number} for number in range(4)])

    def rows(values: list[float | None]) -> pa.Table:
        return pa.table({"key": keys, "value": pa.array([{"f": value} for value in values])})

    _, fitted = fitted_rows(rows([0.5, None, float("inf"), float("nan")]), schema)
    assert str(fitted.field(0).to_pylist()) == "[0.5, None, inf, nan]"
    with pytest.raises(SchemaMismatchError, match=r"row 3: value.f is 1e\+39, which does not fit float"):
        fitted_rows(rows([0.5, None, float("inf"), 1e39]), schema)


def test_a_null_below_a_struct_that_is_there() -> None:
    opened = Opened(Case(DATA / "spark-4.1.4/window_aggregation"))  # Spark 4.3 declares every field nullable
    rows = opened.rows.slice(0, 2).combine_chunks()
    kind = rows.schema.field("value").type
    not_null = next((i for i, field in enumerate(kind) if not field.nullable), None)
    assert not_null is not None
    columns = rows["value"].combine_chunks().flatten()
    columns[not_null] = pa.array([1, None]).cast(kind[not_null].type)
    rows = rows.set_column(1, "value", pa.StructArray.from_arrays(columns, names=kind.names))
    with pytest.raises(SchemaMismatchError, match=rf"row 1: value.{kind[not_null].name} is null"):
        opened.edit(rows=rows)


def test_keys_that_a_value_repeats_must_agree() -> None:
    for name, field in (("session_window", "k"), ("rocksdb_session_window", "k")):
        opened = Opened(name)
        rows = opened.rows.slice(0, 4).combine_chunks()
        values = rows["value"].combine_chunks()
        columns = values.flatten()
        at = values.type.get_field_index(field)
        columns[at] = pa.array(["other"] * 4)
        rows = rows.set_column(1, "value", pa.StructArray.from_arrays(columns, names=values.type.names))
        with pytest.raises(SchemaMismatchError, match=rf"row 0: key.{field} and value.{field} differ"):
            opened.edit(rows=rows)


@pytest.mark.parametrize("name", ["join_inner", "rocksdb_join_format3", "rocksdb_join_format4", "transform_ttl"])
def test_what_keeps_more_than_its_rows_is_refused(name: str) -> None:
    state = Checkpoint(DATA / "spark-4.3.0" / name / "checkpoint").operator_state()
    store = state.operator.stores[0]
    with pytest.raises(RepairError, match="this release does not edit it"):
        StoreEdit(state, store, Edit(remove="true"), placement_of(state, store).kind)


def test_an_edit_of_nothing_or_of_two_kinds() -> None:
    for what in ({}, {"remove": "true", "function": lambda rows: rows}):
        with pytest.raises(RepairError, match="give one of them"):
            Edit(**what)


def test_without_duckdb_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(StateStoreError, match=r"hdfsstore\[sql\]"):
        sql_function("select 1")
