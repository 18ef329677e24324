"""Columns, conditions and names that a caller asks for, against the same done with the whole rows."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hdfsstore
from hdfsstore.codecs.unsafe_row import RowCodec
from hdfsstore.conditions.fields import ConditionError
from hdfsstore.conditions.names import unique_names, with_names
from hdfsstore.conditions.where import parse_condition
from tests.support.rows import counted
from tests.support.truth import DATA

SPARK = DATA / "spark-4.3.0"
KINDS = ["aggregation", "window_aggregation", "row_checksum", "rocksdb_unique_ids", "rocksdb_row_checksum"]


def checkpoint(case: str) -> hdfsstore.Checkpoint:
    return hdfsstore.Checkpoint(SPARK / case / "checkpoint")


def uniquely(table: pa.Table) -> pa.Table:
    schema = unique_names(table.schema)
    return pa.Table.from_batches([with_names(batch, schema) for batch in table.to_batches()], schema)


def places(schema: pa.Schema) -> list[tuple[str, str]]:
    return [(column.name, child.name) for column in schema if pa.types.is_struct(column.type) for child in column.type]


@pytest.mark.parametrize("case", KINDS)
def test_each_field_alone(case: str) -> None:
    whole = uniquely(checkpoint(case).read_state(unique_names=False)).combine_chunks()
    for column, child in places(whole.schema):
        field = f"{column}.{child}"
        table = checkpoint(case).read_state(columns=[field])
        assert table.column_names == [column]
        assert [each.name for each in table.schema.field(column).type] == [child]
        flat = checkpoint(case).open_state(columns=[field, "partition_id"], flatten_columns=True).read_all()
        assert flat.column_names == [field, "partition_id"]
        expected = pa.table([pc.struct_field(whole[column], child), whole["partition_id"]], flat.schema)
        assert counted(flat) == counted(expected)


@pytest.mark.parametrize("case", KINDS)
def test_a_condition_with_the_columns_that_it_needs(case: str) -> None:
    whole = uniquely(checkpoint(case).read_state(unique_names=False)).combine_chunks()
    for column, child in places(whole.schema):
        text = f'{column}."{child}" is not null and partition_id = 1'
        mask = parse_condition(text, whole.schema)
        expected = whole.filter(pa.chunked_array([mask(batch) for batch in whole.to_batches()]))
        found = checkpoint(case).read_state(where=text)
        assert counted(found) == counted(expected)
        narrow = checkpoint(case).read_state(columns=["key"], where=text)
        assert counted(narrow) == counted(expected.select(["key"]))
        by_arrow = checkpoint(case).read_state(
            columns=["partition_id"], where=pc.field(column, child).is_valid() & (pc.field("partition_id") == 1)
        )
        assert by_arrow.schema == pa.schema([pa.field("partition_id", pa.int32())])
        assert len(by_arrow) == len(expected)
    assert len(whole)


def test_a_field_inside_a_field() -> None:
    whole = checkpoint("window_aggregation").read_state().combine_chunks()
    table = checkpoint("window_aggregation").read_state(columns=["key.window.end"])
    assert [field.name for field in table.schema.field("key").type.field("window").type] == ["end"]
    inner = pc.struct_field(table["key"], ["window", "end"]).to_pylist()
    assert sorted(inner) == sorted(pc.struct_field(whole["key"], ["window", "end"]).to_pylist())


def test_a_whole_struct_holds_its_fields() -> None:
    table = checkpoint("aggregation").read_state(columns=["key", "key.k"])
    assert table.schema.field("key") == checkpoint("aggregation").read_state().schema.field("key")


def test_what_is_not_needed_is_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = []
    decode = RowCodec.decode

    def noted(self: RowCodec, data: pa.Buffer, spans: pa.Buffer) -> pa.StructArray:
        decoded.append(self.arrow_type)
        return decode(self, data, spans)

    monkeypatch.setattr(RowCodec, "decode", noted)
    key_type = checkpoint("aggregation").read_state(columns=["key"]).schema.field("key").type
    assert set(decoded) == {key_type}
    decoded.clear()
    assert len(checkpoint("aggregation").read_state(columns=["partition_id"]))
    assert not decoded


@pytest.mark.parametrize("case", ["aggregation", "rocksdb_unique_ids"])
def test_a_condition_on_the_whole_key_finds_its_row(case: str) -> None:
    rows = checkpoint(case).read_state()
    key = rows["key"][0].as_py()
    text = " and ".join(f"key.{name} = {value!r}" for name, value in key.items())
    found = checkpoint(case).read_state(where=text)
    assert counted(found) == counted(checkpoint(case).read_state(key=key))
    assert len(found) == 1


def test_changes_too() -> None:
    whole = checkpoint("aggregation").read_changes(0, 1)
    table = checkpoint("aggregation").read_changes(
        0, 1, columns=["change_type", "key.k"], where="batch_id = 1", flatten_columns=True
    )
    expected = whole.filter(pc.equal(whole["batch_id"], 1))
    assert table.column_names == ["change_type", "key.k"]
    assert table["key.k"].to_pylist() == pc.struct_field(expected["key"], "k").to_pylist()
    assert table["change_type"].to_pylist() == expected["change_type"].to_pylist()


def test_state_variables_and_join_sides_too() -> None:
    side = checkpoint("join_left_outer").read_state(join_side="left")
    narrow = checkpoint("join_left_outer").read_state(join_side="left", columns=["value"])
    assert counted(narrow) == counted(side.select(["value"]))
    case = next(path.name for path in sorted(SPARK.glob("transform*")))
    variables = checkpoint(case).operators[0].properties["stateVariables"]
    maps = [each["stateName"] for each in variables if each["stateVariableType"] == "MapState"]
    for name in maps:
        whole = checkpoint(case).read_state(state_var=name, flatten_collections=False)
        part = checkpoint(case).read_state(state_var=name, flatten_collections=False, columns=["map_value"])
        assert counted(part) == counted(whole.select(["map_value"]))
    assert maps


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"columns": ["value.nothing"]}, r"there is no column value.nothing; the columns are key, value, partition_id"),
        ({"columns": []}, "no column is wanted"),
        ({"columns": "key.k"}, r"columns are a list of names: give \['key.k'\]"),
        ({"where": "value.nothing = 1"}, "there is no field value.nothing"),
    ],
)
def test_what_is_not_there(wanted: dict, message: str) -> None:
    with pytest.raises(ConditionError, match=message):
        checkpoint("aggregation").read_state(**wanted)
