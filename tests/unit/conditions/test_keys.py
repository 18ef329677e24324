from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from hdfsstore.conditions.fields import ConditionError
from hdfsstore.conditions.keys import key_pattern, parse_key

FIELDS = {
    "i": pa.array([1, 2, None], pa.int32()),
    "d": pa.array([0.5, float("nan"), float("-inf")]),
    "dec": pa.array([Decimal("1.10"), Decimal("-2.00"), None]),
    "s": pa.array(["a", "", None]),
    "bin": pa.array([b"\xff\x00", b"", None]),
    "b": pa.array([True, False, None]),
    "ts": pa.array([datetime(2026, 3, 2, 9, tzinfo=UTC), datetime(1969, 12, 31, tzinfo=UTC), None]),
    "span": pa.array([timedelta(hours=1), timedelta(0), None], pa.duration("us")),
    "list": pa.array([[1, None], [], None]),
    "w": pa.array([{"start": 1, "end": 2}, {"start": None, "end": 2}, None]),
}
KEYS = pa.record_batch({"key": pa.StructArray.from_arrays(list(FIELDS.values()), names=list(FIELDS))})
ONE_FIELD = pa.record_batch({"key": pa.array([{"user": 41}, {"user": 42}])})


def rows(text: str, keys: pa.RecordBatch = KEYS) -> list[int]:
    """The numbers of the rows whose key is meant."""
    mask = parse_key(text, keys.schema).mask(keys)
    return [row for row, meant in enumerate(mask.to_pylist()) if meant]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("{}", [0, 1, 2]),
        ('{"i": 2}', [1]),
        ('{"i": 3}', []),
        ('{"i": 2147483648}', []),
        ('{"i": null}', [2]),
        ('{"i": 1, "s": "a"}', [0]),
        ('{"i": 1, "s": ""}', []),
        ('{"d": 0.5}', [0]),
        ('{"d": "NaN"}', [1]),
        ('{"d": "-Infinity"}', [2]),
        ('{"dec": "1.1"}', [0]),
        ('{"dec": -2}', [1]),
        ('{"bin": "/wA="}', [0]),
        ('{"b": false}', [1]),
        ('{"ts": "2026-03-02T09:00:00Z"}', [0]),
        ('{"ts": "1969-12-31 00:00:00"}', [1]),
        ('{"span": "PT1H"}', [0]),
        ('{"list": [1, null]}', [0]),
        ('{"list": []}', [1]),
        ('{"w": {"start": 1}}', [0]),
        ('{"w": {"end": 2}}', [0, 1]),
        ('{"w": {"start": null, "end": 2}}', [1]),
        ('{"w": null}', [2]),
    ],
)
def test_finds_the_keys_that_have_the_fields(text: str, meant: list[int]) -> None:
    assert rows(text) == meant


def test_a_key_of_one_field_may_be_given_as_its_value() -> None:
    assert rows("42", ONE_FIELD) == [1]
    assert rows('{"user": 42}', ONE_FIELD) == [1]


def test_a_whole_key_is_also_a_row_to_hash() -> None:
    row = parse_key('{"user": 42}', ONE_FIELD.schema).row
    assert row == pa.array([{"user": 42}], ONE_FIELD["key"].type)
    nested = pa.schema([("key", pa.struct([("w", pa.struct([("a", pa.int8()), ("b", pa.string())]))]))])
    assert parse_key('{"w": {"b": null, "a": 1}}', nested).row == pa.array([{"w": {"a": 1, "b": None}}], nested[0].type)


@pytest.mark.parametrize("text", ['{"w": {"start": 1}}', '{"user": 1}', "{}"])
def test_a_part_of_a_key_is_no_row(text: str) -> None:
    fields = [("user", pa.int64()), ("w", pa.struct([("start", pa.int64()), ("end", pa.int64())]))]
    assert parse_key(text, pa.schema([("key", pa.struct(fields))])).row is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON: "),
        ("42", "give a JSON object with fields of the key"),
        ('{"x": 1}', "there is no field key.x; the fields are key.i, key.d,"),
        ('{"w": {"x": 1}}', "there is no field key.w.x"),
        ('{"i": "a"}', "key.i is int32: it cannot be compared with"),
        ('{"i": [1]}', "key.i is int32: it cannot be [1]"),
        ('{"s": 1}', "key.s is string: it cannot be compared with 1"),
        ('{"bin": "?"}', "key.bin is binary: it cannot be '?'"),
        ('{"dec": "x"}', "it cannot be 'x'"),
        ('{"ts": "soon"}', "key.ts is timestamp"),
    ],
)
def test_says_what_is_wrong_with_a_key(text: str, message: str) -> None:
    with pytest.raises(ConditionError) as error:
        parse_key(text, KEYS.schema)
    assert message in str(error.value)


@pytest.mark.parametrize("given", ["a", 7, ["a"], None])
def test_a_key_in_python_is_a_mapping(given: Any) -> None:
    with pytest.raises(ConditionError, match="is no mapping of some or all of the key's fields, which are struct<i: "):
        key_pattern(given, KEYS.schema)


@pytest.mark.parametrize("text", ['{"w.start": 1}', '{"w": {"start": 1}}', '{"w.start": 1, "w.end": 2}'])
def test_nested_fields_may_have_their_full_names(text: str) -> None:
    assert rows(text) == [0]


def test_a_field_with_a_point_in_its_name_comes_first() -> None:
    keys = pa.record_batch({"key": pa.array([{"w.start": 1, "w": {"start": 2}}])})
    assert rows('{"w.start": 1}', keys) == [0]
    assert rows('{"w": {"start": 2}}', keys) == [0]


@pytest.mark.parametrize("text", ['{"w": {"start": 1}, "w.start": 1}', '{"w.start": 1, "w": {"end": 2}}'])
def test_a_field_is_given_once(text: str) -> None:
    with pytest.raises(ConditionError, match="is there twice"):
        rows(text)
