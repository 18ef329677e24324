from datetime import UTC, date, datetime, time
from decimal import Decimal

import pyarrow as pa
import pytest

from hdfsstore.conditions.fields import ConditionError
from hdfsstore.conditions.where import equal_values, parse_condition

VALUE = {
    "i": pa.array([1, 2, None, 4]),
    "i8": pa.array([1, 2, 3, 4], pa.int8()),
    "d": pa.array([1.5, float("nan"), None, 0.1]),
    "f": pa.array([0.1, 0.2, 0.3, 0.4], pa.float32()),
    "dec": pa.array([Decimal("1.10"), Decimal("2.00"), None, Decimal("99999999.99")], pa.decimal128(38, 18)),
    "s": pa.array(["a", "b%", "it's", None]),
    "bin": pa.array([b"ab", b"", None, b"\xff"]),
    "b": pa.array([True, False, None, True]),
    "day": pa.array([date(2024, 1, 1), date(2024, 2, 29), None, date(1969, 12, 31)]),
    "ts": pa.array([datetime(2024, 1, 1, 9, tzinfo=UTC)] * 3 + [None], pa.timestamp("us", "UTC")),
    "ntz": pa.array([datetime(2024, 1, 1, 9)] * 3 + [None], pa.timestamp("us")),
    "t": pa.array([time(9, 30), time(0), None, time(23, 59, 59)], pa.time64("ns")),
    "list": pa.array([[1], [], None, [None]]),
    "is": pa.array([7, 8, 9, 10]),
    "odd name": pa.array([1, 2, 3, 4]),
}
ROWS = pa.record_batch(
    {
        "key": pa.StructArray.from_arrays(
            [pa.array([1, 2, 3, 4]), pa.array([{"start": 1}, {"start": 2}, None, {"start": None}])],
            names=["user", "window"],
        ),
        "value": pa.StructArray.from_arrays(list(VALUE.values()), names=list(VALUE)),
        "partition_id": pa.array([0, 0, 1, 1], pa.int32()),
    }
)


def selected(condition: str) -> list[int]:
    """The users of the rows for which the condition is true."""
    rows = ROWS.filter(parse_condition(condition, ROWS.schema)(ROWS))
    return [key["user"] for key in rows["key"].to_pylist()]


@pytest.mark.parametrize(
    ("condition", "users"),
    [
        ("key.user = 2", [2]),
        ("key.user == 2", [2]),
        ("key.user = 2 or key.user = 3", [2, 3]),
        ("key.user != 2", [1, 3, 4]),
        ("key.user <> 2", [1, 3, 4]),
        ("key.user < 3 and key.user >= 2", [2]),
        ("2 <= key.user", [2, 3, 4]),
        ("partition_id = 1", [3, 4]),
        ("key.window.start = 2", [2]),
        ("key.window.start is null", [3, 4]),
        ("key.window is null", [3]),
        ('"key".`user` = 1', [1]),
        ('value."odd name" > 3', [4]),
        ('value."is" = 9', [3]),
        ("value.i8 = 300", []),
        ("value.i > 1.5", [2, 4]),
        ("value.i > -1e3", [1, 2, 4]),
        ("value.d = 1.5", [1]),
        ("value.d is nan", [2]),
        ("value.d is not nan", [1, 4]),
        ("value.f = 0.1", [1]),
        ("value.dec = 1.1", [1]),
        ("value.dec >= 2", [2, 4]),
        ("value.s = 'it''s'", [3]),
        ("value.s > 'a'", [2, 3]),
        ("value.s like '%''%'", [3]),
        ("value.s not like 'b%'", [1, 3]),
        ("value.bin = x'6162'", [1]),
        ("value.bin = X''", [2]),
        ("value.b", [1, 4]),
        ("not value.b", [2]),
        ("value.b = false", [2]),
        ("value.day = '2024-02-29'", [2]),
        ("value.day < date '2024-01-01'", [4]),
        ("value.ts = '2024-01-01 10:00:00+01:00'", [1, 2, 3]),
        ("value.ts = timestamp '2024-01-01 09:00:00'", [1, 2, 3]),
        ("value.ts > date '2024-01-01'", [1, 2, 3]),
        ("value.ntz = '2024-01-01T09:00:00'", [1, 2, 3]),
        ("value.t > '09:00:00'", [1, 4]),
        ("value.t = time '00:00:00'", [2]),
        ("value.list is not null", [1, 2, 4]),
        ("value.i in (1, 4, 9)", [1, 4]),
        ("value.i not in (1, 5)", [2, 4]),
        ("value.i = key.user", [1, 2, 4]),
        ("value.i8 = key.user", [1, 2, 3, 4]),
        ("not value.i = 1", [2, 4]),
        ("not (value.i = 1 or value.i is null)", [2, 4]),
        ("key.user = 1 or key.user = 2 and partition_id = 1", [1]),
        ("(key.user = 1 or key.user = 2) and partition_id = 1", []),
        ("value.i = 1 or key.user = 3", [1, 3]),
        ("value.s IS NOT NULL AND NOT value.b", [2]),
    ],
)
def test_selects_what_sql_would(condition: str, users: list[int]) -> None:
    assert selected(condition) == users


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("key.usr = 1", "there is no field key.usr; the fields are key.user, key.window.start, value.i,"),
        ("user = 1", "there is no field user"),
        ("key.user.x = 1", "there is no field key.user.x"),
        ("value.s = 1", "value.s is string: it cannot be compared with 1 (write strings in single quotes)"),
        ("value.i = 'a'", "value.i is int64: it cannot be compared with 'a'"),
        ("value.b = 1", "value.b is bool: it cannot be compared with 1"),
        ("value.i = true", "value.i is int64: it cannot be compared with true"),
        ("value.day = 'x'", "value.day is date32[day]: "),
        ("value.ts = timestamp 'yesterday'", "timestamp 'yesterday': "),
        ("value.i = 99999999999999999999", "99999999999999999999 does not fit"),
        ("value.list = 1", "value.list is list<item: int64>: it cannot be compared with 1"),
        ("value.s > value.i", "no kernel matching"),
        ("value.i = null", "write `is null`"),
        ("value.i is nan", "only floating point numbers can be NaN"),
        ("value.i is 3", "expected null or nan at '3' (character 12)"),
        ("value.i not 3", "expected in or like at '3' (character 13)"),
        ("value.i like 'a'", "value.i is int64: it cannot be compared with 'a'"),
        ("value.s like 3", "like takes a string"),
        ("value.i", "expected a comparison: value.i is int64 at the end"),
        ("1 = 1", "1 = 1 compares no field"),
        ("1", "expected a comparison at the end"),
        ("value.i =", "expected a field, a number or a 'string' at the end"),
        ("value.i in ()", "expected a field, a number or a 'string' at ')' (character 13)"),
        ("(value.i = 1", "expected ) at the end"),
        ("value.i = 1 2", "expected and, or, or the end at '2' (character 13)"),
        ("value. = 1", "expected a field at '=' (character 8)"),
        ("value.i ! 1", "cannot read '! 1' (character 9)"),
        ("value.bin = x'abc'", "expected"),
        ("", "expected a field, a number or a 'string' at the end"),
    ],
)
def test_says_what_is_wrong_with_a_condition(condition: str, message: str) -> None:
    with pytest.raises(ConditionError) as error:
        parse_condition(condition, ROWS.schema)
    assert message in str(error.value)


def test_finds_fields_by_name_in_batches_with_other_columns() -> None:
    condition = parse_condition("value.i = 4", ROWS.schema)
    changes = ROWS.select(["partition_id", "value", "key"])
    assert changes.filter(condition(changes)).num_rows == 1


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("key.k = 'a'", {(0,): "a"}),
        ("'a' == key.k and key.i = 3 and value > 2", {(0,): "a", (1,): 3}),
        ("(key.k = 'a') and value in (1, 2) and value = 1", {(0,): "a"}),
        ("key.k = 'a' or value = 1", {}),
        ("key.k = 'a' and not value = 1", {}),
        ("key.k = 'a' and value is not null", {}),
        ("key.k > 'a' and key.i != 3 and key.i in (1)", {}),
        ("key.k = 'x or not'", {(0,): "x or not"}),
    ],
)
def test_values_that_all_rows_of_a_condition_have(condition: str, expected: dict[tuple[int, ...], object]) -> None:
    schema = pa.schema([("key", pa.struct([("k", pa.string()), ("i", pa.int32())])), ("value", pa.int64())])
    found = equal_values(condition, schema, "key")
    assert {place: value.as_py() for place, value in found.items()} == expected
