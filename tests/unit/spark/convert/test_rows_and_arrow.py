"""Values of every type, from Arrow to Rows and back: beside what PySpark's own conversions make of them."""

from __future__ import annotations

import array
import copy
import datetime
import pickle
import time
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql import types as s
from pyspark.sql.conversion import ArrowTableToRowsConversion, LocalDataToArrowConversion
from pyspark.testing.objects import ExamplePointUDT

from hdfsstore.spark.convert.arrow_to_rows import RowReader
from hdfsstore.spark.convert.rows_to_arrow import MisfitError, RowWriter
from hdfsstore.spark.redaction import Shown
from tests.support.query_partition import arrow_schema, struct

UTC = datetime.UTC
NEW_YORK = "America/New_York"
TIMES = [
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
    datetime.datetime(2024, 2, 29, 12, 30, 1, 234_567, UTC),
    datetime.datetime(2024, 7, 1, tzinfo=UTC),
    datetime.datetime(2024, 11, 3, 5, 30, tzinfo=UTC),  # an hour that New York has twice
    datetime.datetime(2024, 11, 3, 6, 30, tzinfo=UTC),
    datetime.datetime(1850, 1, 2, 3, 4, 5, 6, UTC),
    datetime.datetime(2300, 1, 2, 3, 4, 5, 123_457, UTC),
    None,
]
INNER = struct(a="integer", b="timestamp")
# The type of a column, and its values as Arrow gives them, with nulls.
COLUMNS: dict[str, tuple[s.DataType | str, list[Any]]] = {
    "byte": ("byte", [1, -128, None, 127]),
    "short": ("short", [1, -32768, None, 32767]),
    "integer": ("integer", [1, -(2**31), None, 2**31 - 1]),
    "long": ("long", [2**53 + 1, -(2**63), None, 2**63 - 1]),
    "float": ("float", [1.5, float("-inf"), None, -0.0]),
    "double": ("double", [0.1, float("inf"), None, -0.0]),
    "boolean": ("boolean", [True, False, None]),
    "string": ("string", ["", "Zürich", None, "\N{GRINNING FACE}\0"]),
    "varchar": (s.VarcharType(9), ["", "Zürich", None]),
    "binary": ("binary", [b"", b"\xff\0", None]),
    "decimal": (s.DecimalType(38, 10), [Decimal("1.5"), Decimal("-1e27"), None, Decimal(0)]),
    "date": ("date", [datetime.date(2024, 2, 29), datetime.date.min, None, datetime.date.max]),
    "timestamp": ("timestamp", TIMES),
    "timestamp_ntz": ("timestamp_ntz", [time and time.replace(tzinfo=None) for time in TIMES]),
    "interval": (s.DayTimeIntervalType(), [datetime.timedelta(days=-1, microseconds=7), None]),
    "void": (s.NullType(), [None, None]),
    "struct": (INNER, [{"a": 1, "b": TIMES[1]}, None, {"a": None, "b": None}]),
    "array": (s.ArrayType(s.LongType()), [[1, None], [], None]),
    "array of structs": (s.ArrayType(INNER), [[{"a": 1, "b": TIMES[1]}, None], [], None]),
    "own type": (ExamplePointUDT(), [[1.0, 2.0], None]),
    "map": (s.MapType(s.StringType(), INNER), [[("x", {"a": 1, "b": TIMES[1]}), ("y", None)], [], None]),
}


@pytest.fixture(params=["UTC", NEW_YORK])
def zone(request: pytest.FixtureRequest) -> Iterator[str]:
    """This process's time zone."""
    with pytest.MonkeyPatch.context() as environ:
        environ.setenv("TZ", request.param)
        time.tzset()
        yield request.param
    time.tzset()


def column(name: str) -> tuple[s.StructType, pa.Table]:
    data_type, values = COLUMNS[name]
    schema = struct(value=data_type)
    table = pa.table([pa.array(values, arrow_schema(schema).field(0).type)], schema=arrow_schema(schema))
    return schema, table


@pytest.mark.parametrize("with_nulls", [True, False])
@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.usefixtures("zone")
def test_rows_hold_what_pysparks_hold(name: str, with_nulls: bool) -> None:
    schema, table = column(name)
    if not with_nulls:
        table = table.drop_null()
    rows = RowReader(schema).rows(table)
    theirs = ArrowTableToRowsConversion.convert(table, schema)
    assert repr(rows).replace(", fold=1", "") == repr(theirs)


@pytest.mark.usefixtures("zone")
def test_timestamps_are_those_of_collected_rows() -> None:
    """Which, unlike PySpark's conversion from Arrow, tell the second of two equal hours from the first."""
    schema, table = column("timestamp")
    micros = table.column(0).cast(pa.int64()).to_pylist()
    theirs = [None if us is None else s.TimestampType().fromInternal(us) for us in micros]
    assert repr([row[0] for row in RowReader(schema).rows(table)]) == repr(theirs)


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.usefixtures("zone")
def test_what_was_read_is_written_as_it_was(name: str) -> None:
    schema, table = column(name)
    writer = RowWriter(schema, list(table.schema), Shown())
    rows = [writer.accept(row) for row in RowReader(schema).rows(table)]
    (written,) = writer.arrays(rows)
    written.validate(full=True)
    assert written.equals(table.column(0).combine_chunks())
    assert writer.arrays([]) == [pa.array([], table.schema.field(0).type)]


WRITABLE: list[tuple[s.DataType | str, Any]] = [
    ("long", np.int16(5)),
    ("long", 5.0),
    ("double", 5),
    ("double", np.float32(0.5)),
    ("boolean", np.bool_(True)),
    ("string", 5),
    ("string", True),
    ("string", np.str_("x")),
    ("binary", bytearray(b"x")),
    (s.DecimalType(5, 2), Decimal("1.255")),
    (s.DecimalType(5, 2), Decimal("NaN")),
    ("date", datetime.datetime(2024, 2, 29, 23)),
    ("timestamp", datetime.datetime(2024, 2, 29, 23, tzinfo=datetime.timezone(datetime.timedelta(hours=5)))),
    ("timestamp", datetime.datetime(2024, 7, 1, 23)),
    (s.ArrayType(s.IntegerType()), [1, None]),
    (s.ArrayType(s.IntegerType()), array.array("i", [1, 2])),
    (s.MapType(s.StringType(), s.LongType()), {"a": 1, 2: None}),
    (INNER, {"a": 1}),
    (INNER, (1, None)),
    (INNER, Row(1, datetime.datetime(2024, 7, 1))),
]


@pytest.mark.parametrize(("data_type", "value"), WRITABLE, ids=repr)
@pytest.mark.usefixtures("zone")
def test_values_of_other_types_are_written_as_pyspark_writes_them(data_type: s.DataType | str, value: Any) -> None:
    schema = struct(value=data_type)
    writer = RowWriter(schema, list(arrow_schema(schema)), Shown())
    (written,) = writer.arrays([writer.accept((value,)), writer.accept((None,))])
    theirs = LocalDataToArrowConversion.convert([(value,), (None,)], schema, False)
    assert written.to_pylist() == theirs.column(0).to_pylist()


MISFITS: list[tuple[s.DataType | str, Any]] = [
    ("long", "5"),
    ("long", 1.5),
    ("long", float("nan")),
    ("long", True),
    ("byte", 128),
    ("double", "0.5"),
    ("boolean", 1),
    ("binary", "x"),
    (s.DecimalType(5, 2), 1.5),
    (s.DecimalType(5, 2), Decimal(1000)),
    ("date", 5),
    ("date", "2024-02-29"),
    ("timestamp", 5),
    ("timestamp", datetime.date(2024, 2, 29)),
    ("timestamp_ntz", datetime.datetime(2024, 2, 29, tzinfo=UTC)),
    (s.ArrayType(s.IntegerType()), "abc"),
    (s.ArrayType(s.IntegerType()), 5),
    (s.MapType(s.StringType(), s.LongType()), [1]),
    (INNER, (1,)),
    (INNER, 5),
    (s.ArrayType(s.LongType()), [1, 1.5]),
    (s.ArrayType(s.LongType(), containsNull=False), [1, None]),
    (s.MapType(s.StringType(), s.DateType()), {"a": 5}),
    (s.MapType(s.StringType(), s.DateType()), {None: None}),
    (struct(inner=INNER), {"inner": {"a": "x"}}),
]


@pytest.mark.parametrize(("data_type", "value"), MISFITS, ids=repr)
@pytest.mark.usefixtures("zone")
def test_a_value_that_does_not_fit_is_named_with_its_column(data_type: s.DataType | str, value: Any) -> None:
    schema = struct(first="long", value=data_type)
    writer = RowWriter(schema, list(arrow_schema(schema)), Shown())
    with pytest.raises(MisfitError) as caught:
        writer.arrays([writer.accept((1, None)), writer.accept((2, value)), writer.accept((3, None))])
    assert f"the column 'value' is of type {schema['value'].dataType.simpleString()}, which" in caught.value.message
    assert repr(value) in caught.value.message
    assert caught.value.row in (None, 1)


@pytest.mark.parametrize("data_type", ["date", "timestamp", "timestamp_ntz"])
def test_times_that_python_has_no_objects_for_are_refused(data_type: str, zone: str) -> None:
    schema = struct(value=data_type)
    arrow_type = arrow_schema(schema).field(0).type
    size = pa.int32() if data_type == "date" else pa.int64()
    for number in (3_000_000, -1_000_000):
        array = pa.array([1, None, number * (1 if data_type == "date" else 86_400_000_000)], size).cast(arrow_type)
        with pytest.raises(ValueError, match="year"):
            RowReader(schema).rows(pa.table([array], names=["value"]))
    assert zone


def test_a_row_is_one_of_pysparks() -> None:
    schema = struct(user="string", count="long", __hidden="long")
    table = pa.table({"user": ["a"], "count": [1], "__hidden": [2]})
    (row,) = RowReader(schema).rows(table)
    (theirs,) = ArrowTableToRowsConversion.convert(table, schema)
    assert isinstance(row, Row)
    assert row == theirs
    assert (repr(row), hash(row), row.asDict()) == (repr(theirs), hash(theirs), theirs.asDict())
    assert row.user == row["user"] == row[0] == "a"
    assert row["count"] == 1
    assert row.count("a") == 1  # tuple's method, as in PySpark
    assert "user" in row
    assert "a" not in row
    for missing in ("__hidden", "nothing"):
        with pytest.raises(AttributeError):
            getattr(row, missing)
    with pytest.raises(ValueError, match="nothing"):
        row["nothing"]
    with pytest.raises(RuntimeError):
        row.user = "b"
    for copied in (pickle.loads(pickle.dumps(row)), copy.copy(row), copy.deepcopy(row)):
        assert type(copied) is Row
        assert repr(copied) == repr(row)


def test_of_two_columns_with_one_name_an_attribute_is_the_first() -> None:
    schema = s.StructType([s.StructField("a", s.LongType()), s.StructField("a", s.LongType())])
    (row,) = RowReader(schema).rows(pa.table([[1], [2]], names=["a", "a"]))
    assert (row.a, row["a"], tuple(row)) == (1, 1, (1, 2))
