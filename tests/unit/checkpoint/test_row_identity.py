"""What makes rows of two states the same, by hand-made rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from hdfsstore.checkpoint import row_identity
from hdfsstore.checkpoint.row_identity import RowIdentity, WrittenIds, differences
from hdfsstore.errors import SchemaMismatchError

KEY = pa.field("key", pa.struct([("k", pa.int32())]))
OLDER = pa.struct([("a", pa.int32())])
NEWER = pa.struct([("b", pa.string()), ("a", pa.int64())])


def identity(name: str, kind: pa.DataType, *, of_join_side: bool = False) -> RowIdentity:
    schema = pa.schema([KEY, pa.field(name, kind), pa.field("partition_id", pa.int32())])
    return RowIdentity(schema, of_join_side=of_join_side)


def rows(name: str, kind: pa.DataType, values: list[Any]) -> pa.Table:
    keys = pa.array([{"k": row} for row in range(len(values))], KEY.type)
    return pa.table({"key": keys, name: pa.array(values, kind)})


@pytest.mark.parametrize(
    ("name", "older", "newer", "values", "expected"),
    [
        ("value", OLDER, NEWER, [{"a": 1}, None], [{"b": None, "a": 1}, None]),
        (
            "list_value",
            pa.list_(OLDER),
            pa.list_(NEWER),
            [[{"a": 1}, None], None, []],
            [[{"b": None, "a": 1}, None], None, []],
        ),
        (
            "map_value",
            pa.map_(pa.string(), OLDER),
            pa.map_(pa.string(), NEWER),
            [None, [("x", {"a": 1})], [("y", None)]],
            [None, [("x", {"b": None, "a": 1})], [("y", None)]],
        ),
    ],
)
def test_older_rows_get_the_fields_that_a_schema_has_got(
    name: str, older: pa.DataType, newer: pa.DataType, values: list[Any], expected: list[Any]
) -> None:
    rule = identity(name, newer)
    before = rule.of(rows(name, older, values))
    before.table.validate(full=True)
    assert before.table[name].to_pylist() == expected
    assert before.table.schema.equals(rule.schema)
    after = rule.of(rows(name, newer, expected))
    kinds, _, removed = differences(before, after)
    assert set(kinds.to_pylist()) == {""}
    assert not any(removed.to_pylist())
    sliced = rule.of(rows(name, older, [*values, *values]).slice(1, len(values)))
    assert sliced.table[name].to_pylist() == [*expected[1:], expected[0]]


def test_a_type_that_became_another_one() -> None:
    with pytest.raises(SchemaMismatchError, match="column of an older batch is of Arrow type string, not int64"):
        identity("value", pa.struct([("a", pa.int64())])).of(
            rows("value", pa.struct([("a", pa.string())]), [{"a": "x"}])
        )


def test_equal_rows_of_a_side_of_a_join_are_told_apart_by_their_numbers() -> None:
    kind = pa.struct([("n", pa.int32())])
    rule = identity("value", kind, of_join_side=True)

    def side(numbers: list[int]) -> pa.Table:
        return pa.table(
            {"key": pa.array([{"k": 0}] * len(numbers), KEY.type), "value": pa.array([{"n": n} for n in numbers], kind)}
        )

    before, after = rule.of(side([1, 2, 1, 3])), rule.of(side([3, 1, 4, 2, 2, 2]))
    assert len(set(after.ids.to_pylist())) == 6
    kinds, places, removed = differences(before, after)
    assert sorted(kinds.to_pylist()) == ["", "", "", "added", "added", "added"]
    assert places.null_count == 3
    assert [n["n"] for n in before.table.filter(removed)["value"].to_pylist()] == [1]
    assert [n["n"] for n, kind in zip(after.table["value"].to_pylist(), kinds.to_pylist(), strict=True) if kind] == [
        4,
        2,
        2,
    ]


def test_ids_that_were_written_are_found_among_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """They go into the table in pieces whose bytes an int32 can count."""
    ids = pa.array([b"", b"a", b"ab", b"\0", b"b" * 300], pa.large_binary())
    others = pa.array([b"ab", b"c", b"", b"b" * 300, b"bb", b"\0"], pa.large_binary())
    for most in (row_identity._MOST_BYTES, 1):
        monkeypatch.setattr(row_identity, "_MOST_BYTES", most)
        written = WrittenIds(ids)
        assert written.places(others).to_pylist() == [2, None, 0, 4, None, 3]
        assert written.rows_at(written.places(others).drop_null()).to_pylist() == [1, None, 0, 3, 2]
        sliced = WrittenIds(ids.slice(1, 3))
        assert sliced.places(others).to_pylist() == [1, None, None, None, None, 2]
    assert WrittenIds(ids.slice(0, 0)).places(others).null_count == len(others)
    assert WrittenIds(pa.array([b""], pa.large_binary())).places(others).to_pylist() == [
        None,
        None,
        0,
        None,
        None,
        None,
    ]
