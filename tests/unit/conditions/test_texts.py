import json
from decimal import Decimal

import pyarrow as pa
import pytest

from hdfsstore.conditions.texts import json_texts, texts

NANOS = 1_000_000_000


def of(values: list[int], storage: pa.DataType, kind: pa.DataType) -> pa.Array:
    return pa.array(values, storage).view(kind)


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array([True, False]), ["true", "false"]),
        (pa.array([-128, 127], pa.int8()), ["-128", "127"]),
        (pa.array([2**63 - 1]), ["9223372036854775807"]),
        (pa.array([0.1, 1e300, 5e-324]), ["0.1", "1e+300", "5e-324"]),
        (pa.array([0.1], pa.float32()), ["0.1"]),
        (pa.array([float("nan"), float("inf"), -float("inf")]), ["NaN", "Infinity", "-Infinity"]),
        (pa.array([Decimal("0.0000001"), Decimal("12.3400000")]), ["0.0000001", "12.3400000"]),
        (pa.array([Decimal("-99999999999999999999999999999999999999")]), ["-99999999999999999999999999999999999999"]),
        (pa.array(["Zürich", "", "a\nb"]), ["Zürich", "", "a\nb"]),
        (pa.array([b"\xff\x00", b""]), ["/wA=", ""]),
        (
            of([0, 19_000, -719_163, 2**31 - 1, -(2**31)], pa.int32(), pa.date32()),
            ["1970-01-01", "2022-01-08", "0000-12-31", "+5881580-07-11", "-5877641-06-23"],
        ),
        (
            of([0, -1, 1_500_000, 2**63 - 1, -(2**63)], pa.int64(), pa.timestamp("us", "UTC")),
            [
                "1970-01-01T00:00:00Z",
                "1969-12-31T23:59:59.999999Z",
                "1970-01-01T00:00:01.500Z",
                "+294247-01-10T04:00:54.775807Z",
                "-290308-12-21T19:59:05.224192Z",
            ],
        ),
        (of([1_000], pa.int64(), pa.timestamp("us")), ["1970-01-01T00:00:00.001"]),
        (of([1], pa.int64(), pa.timestamp("s", "Europe/Berlin")), ["1970-01-01T00:00:01Z"]),
        (of([1, 86_399 * NANOS], pa.int64(), pa.time64("ns")), ["00:00:00.000000001", "23:59:59"]),
        (
            of([0, -5, 90_061_000_000, -90_061_000_000], pa.int64(), pa.duration("us")),
            ["PT0S", "PT-0.000005S", "P1DT1H1M1S", "P-1DT-1H-1M-1S"],
        ),
        (
            pa.array([(14, -2, 3 * NANOS + 1), (-14, 0, -1), (0, 0, 0)], pa.month_day_nano_interval()),
            ["P1Y2M-2DT3.000000001S", "P-1Y-2MT-0.000000001S", "PT0S"],
        ),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_text_of_each_type(array: pa.Array, expected: list[str]) -> None:
    assert texts(array) == expected
    assert texts(pa.concat_arrays([pa.nulls(1, array.type), array]).slice(0, 2)) == [None, expected[0]]


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array([1, None]), [1, None]),
        (pa.array([1.5, float("nan"), float("inf"), None]), [1.5, "NaN", "Infinity", None]),
        (pa.array([Decimal("1.10")]), ["1.10"]),
        (pa.array(['"\\\x00\n', None]), ['"\\\x00\n', None]),
        (pa.array([b"ab"]), ["YWI="]),
        (pa.nulls(2), [None, None]),
        (pa.array([{"a": 1, "%s": [None]}, None]), [{"a": 1, "%s": [None]}, None]),
        (pa.array([{}, None], pa.struct([])), [{}, None]),
        (pa.array([[1], [], None, [2, None]]), [[1], [], None, [2, None]]),
        (pa.array([[("x", 1)], None, []], pa.map_(pa.string(), pa.int8())), [{"x": 1}, None, {}]),
        (pa.array([[(1, "x"), (2, None)]], pa.map_(pa.int8(), pa.string())), [[[1, "x"], [2, None]]]),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else "",
)
def test_json_of_each_type(array: pa.Array, expected: list[object]) -> None:
    assert [json.loads(text) for text in json_texts(array)] == expected
    assert [json.loads(text) for text in json_texts(array.slice(1))] == expected[1:]


def test_strings_that_are_no_utf8_are_shown_all_the_same() -> None:
    broken = pa.Array.from_buffers(pa.string(), 2, pa.array([b"ok", b"\xffx"]).buffers())
    assert texts(broken) == ["ok", "�x"]


def test_two_fields_of_one_name_both_appear() -> None:
    both = pa.StructArray.from_arrays([pa.array([1]), pa.array([2.5])], names=["sum", "sum"])
    assert json_texts(both) == ['{"sum":1,"sum":2.5}']
