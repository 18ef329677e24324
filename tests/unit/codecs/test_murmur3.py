from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdfsstore.codecs.arrow_types import to_arrow_type
from hdfsstore.codecs.murmur3 import hash_rows, partition_ids
from hdfsstore.codecs.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CalendarIntervalType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    TimeType,
    UnknownType,
    UserDefinedType,
    VariantType,
    YearMonthIntervalType,
)
from hdfsstore.errors import SchemaMismatchError, UnsupportedTypeError


def struct_of(*types: DataType) -> StructType:
    return StructType(tuple(StructField(f"f{i}", type_) for i, type_ in enumerate(types)))


def rows_of(*columns: pa.Array) -> pa.StructArray:
    return pa.StructArray.from_arrays(columns, [f"f{i}" for i in range(len(columns))])


def hashes_of(values: list[Any], type_: DataType) -> list[int]:
    return hash_rows(rows_of(pa.array(values, to_arrow_type(type_))), struct_of(type_)).to_pylist()


PAIR = struct_of(IntegerType(), StringType())
BIG = DecimalType(38, 0)

# hash(value) of Spark 4.3.0, in compiled code.
KNOWN = [
    (BooleanType(), True, -559580957),
    (BooleanType(), False, 933211791),
    (ByteType(), -7, -1618159745),
    (ShortType(), -300, -1692660704),
    (IntegerType(), 0, 933211791),
    (IntegerType(), 1, -559580957),
    (IntegerType(), -(2**31), 723455942),
    (LongType(), 1, -1712319331),
    (LongType(), -(2**63), -853646085),
    (FloatType(), float("nan"), -349261430),
    (FloatType(), -0.0, 933211791),
    (FloatType(), 1.5, -221251528),
    (DoubleType(), float("nan"), -1281358385),
    (DoubleType(), -0.0, -1670924195),
    (DoubleType(), -1.5, 2099784398),
    (DoubleType(), float("-inf"), 461104036),
    (DecimalType(9, 2), Decimal("-123.45"), -1959512858),
    (BIG, Decimal(0), -783713497),
    (BIG, Decimal(-1), 1398487324),
    (BIG, Decimal(127), 1185089389),
    (BIG, Decimal(128), -544401882),
    (BIG, Decimal(-128), 775851899),
    (BIG, Decimal(-129), -771458971),
    (BIG, Decimal(10**38 - 1), -817514053),
    (StringType(), "", 142593372),
    (StringType(), "a", 1485273170),
    (StringType(), "ab", -97053317),
    (StringType(), "abc", 1322437556),
    (StringType(), "abcd", -396302900),
    (StringType(), "Straße", -1529657667),
    (BinaryType(), b"\x00\xff\x80", -2052482636),
    (BinaryType(), b"\xde\xad\xbe\xef\xff", 1935391870),
    (DateType(), 1, -559580957),
    (DateType(), -1, -1604776387),
    (TimestampType(), 1_704_067_200_000_000, 1545358984),
    (TimestampNTZType(), 1_704_067_200_000_000, 1545358984),
    (YearMonthIntervalType(), (14, 0, 0), 335551368),
    (DayTimeIntervalType(), 93_784_500_000, 1326975016),
    (CalendarIntervalType(), (14, 3, -4_500_000_000), -196627388),
    (TimeType(), 45_296_123_456_000, 966672806),
    (NullType(), None, 42),
    (IntegerType(), None, 42),
    (ArrayType(IntegerType()), [1, None, 2], -222940379),
    (ArrayType(IntegerType()), [], 42),
    (ArrayType(NullType()), [None], 42),
    (PAIR, {"f0": 1, "f1": "a"}, -936062819),
    (PAIR, {"f0": None, "f1": None}, 42),
    (ArrayType(PAIR), [{"f0": 1, "f1": "a"}, None, {"f0": 2, "f1": None}], -355304976),
]


@pytest.mark.parametrize(("type_", "value", "expected"), KNOWN)
def test_known_values_of_spark(type_: DataType, value: Any, expected: int) -> None:
    # Neighbours, so that offsets and validity count.
    assert hashes_of([None, value, None, value], type_) == [42, expected, 42, expected]


def test_columns_fold_from_left_to_right_and_skip_nulls() -> None:
    rows = rows_of(pa.array(["x"]), pa.array([1]), pa.array([None], pa.int32()), pa.array([True]))
    types = struct_of(StringType(), LongType(), IntegerType(), BooleanType())
    assert hash_rows(rows, types).to_pylist() == [156428323]


def test_the_running_hash_is_the_seed_of_the_next_column() -> None:
    first, second = pa.array(["key"]), pa.array([7])
    running = hash_rows(rows_of(first), struct_of(StringType())).to_pylist()[0]
    folded = hash_rows(rows_of(second), struct_of(LongType()), seed=running)
    assert folded == hash_rows(rows_of(first, second), struct_of(StringType(), LongType()))


def test_a_null_row_keeps_the_seed() -> None:
    rows = pa.StructArray.from_arrays([pa.array([1, 1], pa.int32())], ["f0"], mask=pa.array([False, True]))
    assert hash_rows(rows, struct_of(IntegerType())).to_pylist() == [-559580957, 42]


def test_every_nan_has_one_hash() -> None:
    bits = pa.array([0x7FF8000000000000, 0x7FF0000000000001, 0xFFFFFFFFFFFFFFFF], pa.uint64())
    assert hash_rows(rows_of(bits.view(pa.float64())), struct_of(DoubleType())).to_pylist() == [-1281358385] * 3


NESTED = ArrayType(struct_of(StringType(), ArrayType(BooleanType()), BIG))
NESTED_VALUES = st.lists(
    st.none()
    | st.fixed_dictionaries(
        {
            "f0": st.none() | st.text("aé€😀", max_size=9),
            "f1": st.none() | st.lists(st.none() | st.booleans(), max_size=9),
            "f2": st.none() | st.integers(-(10**37), 10**37).map(Decimal),
        }
    ),
    max_size=3,
)


@given(st.lists(st.none() | NESTED_VALUES, max_size=8), st.integers(0, 8), st.integers(0, 8))
def test_a_slice_hashes_as_its_rows_do(values: list[Any], start: int, length: int) -> None:
    rows, types = rows_of(pa.array(values, to_arrow_type(NESTED))), struct_of(NESTED)
    whole = hash_rows(rows, types).to_pylist()
    assert hash_rows(rows.slice(start, length), types).to_pylist() == whole[start : start + length]
    inner = rows_of(rows.field(0).slice(start, length))
    assert hash_rows(inner, types).to_pylist() == whole[start : start + length]


@pytest.mark.parametrize(
    ("array", "type_"),
    [
        (pa.array(["a", None], pa.large_string()), StringType()),
        (pa.array(["a", None], pa.string_view()), StringType()),
        (pa.array(["a", None]).dictionary_encode(), StringType()),
        (pa.array([[1], None], pa.large_list(pa.int32())), ArrayType(IntegerType())),
        (pa.array([[1], None], pa.list_(pa.int8())), ArrayType(IntegerType())),
        (pa.array([1, None], pa.int32()), LongType()),
        (pa.array([1, None], pa.timestamp("s")), TimestampNTZType()),
        (pa.array([1, None], pa.int32()), UserDefinedType(LongType(), "{}")),
    ],
)
def test_other_arrow_types_are_cast(array: pa.Array, type_: DataType) -> None:
    plain_type = type_.sql_type if isinstance(type_, UserDefinedType) else type_
    values = [1_000_000, None] if pa.types.is_timestamp(array.type) else array.to_pylist()
    assert hash_rows(rows_of(array), struct_of(type_)).to_pylist() == hashes_of(values, plain_type)


def test_partitions_are_the_hash_modulo_their_number() -> None:
    rows, types = rows_of(pa.array(range(1000))), struct_of(LongType())
    for num_partitions in (1, 2, 200, 2**31 - 1):
        expected = [hash_ % num_partitions for hash_ in hash_rows(rows, types).to_pylist()]
        assert partition_ids(rows, types, num_partitions).to_pylist() == expected


def test_rows_without_fields_are_in_partition_0() -> None:
    rows = pa.array([{}, {}], pa.struct([]))
    assert partition_ids(rows, struct_of(), 200).to_pylist() == [0, 0]
    assert hash_rows(rows, struct_of()).to_pylist() == [42, 42]


def test_there_is_at_least_one_partition() -> None:
    with pytest.raises(ValueError, match="num_partitions is 0"):
        partition_ids(rows_of(pa.array([1])), struct_of(LongType()), 0)


@pytest.mark.parametrize("function", [hash_rows, lambda rows, types: partition_ids(rows, types, 7)])
@pytest.mark.parametrize(
    ("type_", "message"),
    [
        (MapType(StringType(), LongType()), r"\[DATATYPE_MISMATCH.HASH_MAP_TYPE\] field 'f0' "),
        (ArrayType(MapType(StringType(), LongType())), r"HASH_MAP_TYPE\] field 'f0\[\]' "),
        (struct_of(MapType(StringType(), LongType())), r"HASH_MAP_TYPE\] field 'f0\.f0' "),
        (VariantType(), r"\[DATATYPE_MISMATCH.HASH_VARIANT_TYPE\] field 'f0' "),
        (UnknownType('"geography(4326)"'), r"field 'f0' .*geography"),
    ],
)
def test_types_without_a_hash(function: Any, type_: DataType, message: str) -> None:
    with pytest.raises(UnsupportedTypeError, match=message):
        function(rows_of(pa.array([None], to_arrow_type(type_))), struct_of(type_))


def test_collations() -> None:
    rows, trimmed = rows_of(pa.array(["a  ", "   ", None])), rows_of(pa.array(["a", "", None]))
    binary, rtrim = struct_of(StringType()), struct_of(StringType("UTF8_BINARY_RTRIM"))
    lcase = struct_of(StringType("UTF8_LCASE"))
    assert partition_ids(rows, rtrim, 1000) == partition_ids(trimmed, binary, 1000)
    assert partition_ids(rows, binary, 1000) != partition_ids(trimmed, binary, 1000)
    assert hash_rows(rows, lcase) == hash_rows(rows, rtrim) == hash_rows(rows, binary)
    with pytest.raises(UnsupportedTypeError, match=r"field 'f0' is a string of collation UTF8_LCASE.* ICU"):
        partition_ids(rows, lcase, 1000)


@pytest.mark.parametrize(
    ("rows", "types", "message"),
    [
        (rows_of(pa.array([1])), struct_of(LongType(), LongType()), "the row is of Arrow type .* 2 fields"),
        (rows_of(pa.array([1])), struct_of(struct_of(LongType())), "field 'f0' .* struct of 1 fields"),
        (rows_of(pa.array(["a"])), struct_of(LongType()), "field 'f0' is of Arrow type string, not int64"),
        (rows_of(pa.array([[1]])), struct_of(LongType()), "field 'f0' is of Arrow type list"),
    ],
)
def test_rows_that_do_not_fit_the_type(rows: pa.StructArray, types: StructType, message: str) -> None:
    with pytest.raises(SchemaMismatchError, match=message):
        hash_rows(rows, types)


def test_what_arrow_says_of_a_value_is_the_cause_alone() -> None:
    with pytest.raises(SchemaMismatchError) as caught:
        hash_rows(rows_of(pa.array(["4929-1234"])), struct_of(LongType()))
    assert "4929-1234" not in str(caught.value)
    assert "4929-1234" in str(caught.value.__cause__)


@pytest.mark.parametrize("view", [pa.list_view(pa.int64()), pa.large_list_view(pa.int64())], ids=str)
def test_list_views_are_refused(view):
    rows = pa.array([([1, 2],), ([3, 4],)], pa.struct([("f", view)]))
    with pytest.raises(SchemaMismatchError, match=r"'f' is of Arrow type .*list_view"):
        hash_rows(rows, StructType((StructField("f", ArrayType(LongType())),)))
