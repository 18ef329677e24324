"""States that mapWithState keeps without a schema, shown as JSON."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hdfsstore
from hdfsstore.checkpoint.packed_values import has_packed, unpacked, unpacked_schema
from hdfsstore.conditions.texts import json_texts
from hdfsstore.errors import SchemaMismatchError, StateStoreError
from tests.unit.checkpoint.packed import VALUES, pack, rows_of, write_checkpoint


def shown(value: Any) -> Any:
    batch = rows_of([value])
    (row,) = unpacked(batch, unpacked_schema(batch.schema)).to_pylist()
    return row["value"]["groupState"]["value"]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return write_checkpoint(tmp_path / "cp")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
    max_leaves=8,
)  # fmt: skip


@given(json_values)
def test_what_json_has_comes_as_it_was(value: Any) -> None:
    assert json.loads(shown(pack(value))) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b"\x00\xff", '"AP8="'),
        (datetime(2026, 3, 2, 9, 0, 0, 500_000, UTC), '"2026-03-02T09:00:00.500Z"'),
        (float("nan"), '"NaN"'),
        ([float("inf"), float("-inf")], '["Infinity","-Infinity"]'),
        ({1: "a", "b": b"x"}, '[[1,"a"],["b","eA=="]]'),
        ({"Zürich": 1}, '{"Zürich":1}'),
        (None, "null"),
    ],
)
def test_other_values_are_as_the_command_writes_them(value: Any, text: str) -> None:
    assert shown(pack(value)) == text


def test_nulls_stay_and_other_fields_too() -> None:
    batch = rows_of([None, pack(1)])
    schema = unpacked_schema(batch.schema)
    assert has_packed(batch.schema)
    assert not has_packed(schema)
    rows = unpacked(batch, schema).column(0)
    assert rows.to_pylist() == [None, {"groupState": {"value": "1"}, "timeoutTimestamp": -1}]
    plain = pa.schema([("value", pa.struct([("value", pa.binary())]))])
    assert not has_packed(plain)
    assert unpacked_schema(plain).equals(plain)
    assert json_texts(pa.StructArray.from_arrays([rows], fields=list(schema)))[1] == (
        '{"value":{"groupState":{"value":1},"timeoutTimestamp":-1}}'
    )


@pytest.mark.parametrize("packed", [b"", b"\xc1", b"\x01\x02", b"\x92\x01"])
def test_bytes_that_msgpack_has_not_packed(packed: bytes) -> None:
    with pytest.raises(SchemaMismatchError, match="value was not packed by msgpack"):
        shown(packed)


def test_a_checkpoint_gives_bytes_or_json(checkpoint: Path) -> None:
    cp = hdfsstore.Checkpoint(checkpoint)

    def states(table: pa.Table, column: str = "value") -> list[Any]:
        return [row and row["groupState"]["value"] for row in table[column].to_pylist()]

    assert states(cp.read_state()) == [pack(VALUES[1])]
    as_json = [json.dumps(value, separators=(",", ":")) for value in VALUES]
    assert states(cp.read_state(decode_values=True)) == as_json[1:]
    assert states(cp.read_changes(0, 1, decode_values=True)) == as_json
    assert states(cp.history({"k": "u"}, decode_values=True)) == as_json
    assert states(cp.history({"k": "u"})) == [pack(value) for value in VALUES]
    diff = cp.diff(0, 1, decode_values=True)
    assert (states(diff, "before"), states(diff, "after")) == (as_json[:1], as_json[1:])
    found = cp.read_state(where="value.groupState.value like '%\"c\":null%'", decode_values=True)
    assert len(found) == 1
    assert not len(cp.read_state(where="value.groupState.value like '%none%'", decode_values=True))
    flat = cp.read_state(columns=["value.groupState.value"], decode_values=True, unique_names=True)
    assert states(flat) == as_json[1:]
    with cp.open_state(decode_values=True) as reader:
        assert states(reader.read_all()) == as_json[1:]


def test_without_msgpack_there_are_bytes_and_else_an_error(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "msgpack", None)
    cp = hdfsstore.Checkpoint(checkpoint)
    assert len(cp.read_state()) == 1
    with pytest.raises(StateStoreError, match=r"field value are packed by msgpack.*pip install msgpack"):
        cp.read_state(decode_values=True)
