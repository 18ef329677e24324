"""Every checkpoint of tests/data, row for row as Spark read it."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql.types import VariantVal

import hdfsstore
from tests.rows import counted
from tests.truth import Read, reads

READS = list(reads())


def ours(read: Read) -> pa.Table:
    checkpoint = hdfsstore.Checkpoint(read.case.checkpoint)
    facts = read.facts
    if facts["change_feed"]:
        return checkpoint.read_changes(*facts["change_feed"], facts["operator_id"], facts["store_name"])
    return checkpoint.read_state(
        facts["operator_id"], facts["store_name"], facts["batch_id"], join_side=facts["join_side"]
    )


@pytest.mark.parametrize("read", [read for read in READS if read.rows is not None], ids=str)
def test_rows_are_sparks(read: Read) -> None:
    expected = read.rows
    assert expected is not None
    if "key_hash" in expected.column_names:
        expected = expected.drop_columns("key_hash")
    table = ours(read)
    assert table.column_names == expected.column_names
    if read.case.folder.name == "flat_map_groups_with_state_format1":
        table = with_int_timeout(table)
    assert [unnamed(field.type) for field in table.schema] == [unnamed(field.type) for field in expected.schema]
    assert counted(table) == counted(expected)


@pytest.mark.parametrize("read", [read for read in READS if read.json_rows is not None], ids=str)
def test_rows_that_arrow_cannot_hold_are_sparks_json(read: Read) -> None:
    expected = read.json_rows
    assert expected is not None
    schemas = {"key": read.facts["key_schema"], "value": read.facts["value_schema"]}
    rows = [
        {
            name: as_json(value, schemas[name]) if name in schemas else value
            for name, value in row.items()
            if value is not None
        }
        for row in ours(read).to_pylist()
    ]
    assert Counter(map(canonical, rows)) == Counter(map(canonical, expected))


def with_int_timeout(table: pa.Table) -> pa.Table:
    """State format 1 keeps a long where an int is declared; Spark shows its low 32 bits (see irregular.py)."""
    at = table.column_names.index("value")
    value = table.column(at).combine_chunks()
    *fields, timeout = value.flatten()
    assert pc.max(timeout).as_py() > 1_600_000_000_000
    low = pa.array([None if x is None else (x + 2**31) % 2**32 - 2**31 for x in timeout.to_pylist()], pa.int64())
    kinds = [*list(value.type)[:-1], pa.field("timeoutTimestamp", pa.int32())]
    cut = pa.StructArray.from_arrays([*fields, low.cast(pa.int32())], fields=kinds, mask=value.is_null())
    return table.set_column(at, "value", cut)


def unnamed(kind: pa.DataType) -> pa.DataType:
    """A type without what Arrow lets differ: nullability, metadata, and the names of lists' and maps' inner fields."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, unnamed(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(unnamed(kind.key_type), unnamed(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(unnamed(kind.value_type))
    return kind


def canonical(row: Any) -> str:
    return json.dumps(row, sort_keys=True)


def as_json(value: Any, kind: Any) -> Any:
    """A value as Spark's to_json shows it: null fields left out, intervals as text, variants as what they hold."""
    if value is None:
        return None
    if isinstance(kind, dict) and kind["type"] == "struct":
        fields = ((field["name"], field["type"]) for field in kind["fields"])
        return {name: as_json(value[name], type_) for name, type_ in fields if value[name] is not None}
    if isinstance(kind, dict) and kind["type"] == "array":
        return [as_json(element, kind["elementType"]) for element in value]
    if isinstance(kind, dict) and kind["type"] == "map":
        return {str(key): as_json(item, kind["valueType"]) for key, item in value}
    if kind == "variant":
        return json.loads(VariantVal(value["value"], value["metadata"]).toJson())
    if kind == "interval":
        return interval_text(value)
    if str(kind).startswith("interval year"):
        sign, months = "-" if value.months < 0 else "", abs(value.months)
        return f"INTERVAL '{sign}{months // 12}-{months % 12}' YEAR TO MONTH"
    return value


def interval_text(value: Any) -> str:
    """CalendarInterval.toString of Spark."""

    def parts(amount: int, units: list[tuple[str, int]]) -> list[str]:
        sign, rest, texts = (-1 if amount < 0 else 1), abs(amount), []
        for name, size in units:
            if rest // size:
                texts.append(f"{sign * (rest // size)} {name}")
            rest %= size
        return texts

    text = parts(value.months, [("years", 12), ("months", 1)]) + parts(value.days, [("days", 1)])
    micros = value.nanoseconds // 1000
    text += parts(micros, [("hours", 3_600_000_000), ("minutes", 60_000_000)])
    rest = abs(micros) % 60_000_000
    if rest:
        seconds = f"{rest / 1_000_000:.6f}".rstrip("0").rstrip(".")
        text.append(f"{'-' if micros < 0 else ''}{seconds} seconds")
    return " ".join(text) or "0 seconds"
