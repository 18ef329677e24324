"""Hashes rows with Spark's Murmur3, and finds the partition of a key.

Libraries of Murmur3 do not give these hashes: Spark treats the last bytes of a string in its own way, and the hash of
the columns before a column is its seed.

Source: Murmur3Hash and CollationAwareMurmur3Hash in hash.scala, HashPartitioning in partitioning.scala, Spark 4.3.
The hash of a calendar interval includes its days, as in Spark 4.3; compiled plans of older releases leave them out.
"""

from __future__ import annotations

from typing import Any, cast

import pyarrow as pa

from hdfsstore._cext import murmur3
from hdfsstore._cext.murmur3 import Column, Kind
from hdfsstore.codecs.arrow_types import cast_array, to_arrow_type
from hdfsstore.codecs.types import (
    ArrayType,
    DataType,
    MapType,
    StringType,
    StructType,
    UnknownType,
    UserDefinedType,
    VariantType,
    YearMonthIntervalType,
)
from hdfsstore.errors import SchemaMismatchError, UnsupportedTypeError

SEED = 42
MAX_LONG_DIGITS = 18

# By the Arrow type of a Spark type. `_atomic_kind` decides on decimals and intervals.
KINDS: dict[pa.DataType, Kind] = {
    pa.null(): Kind.NONE,
    pa.bool_(): Kind.BOOLEAN,
    pa.int8(): Kind.INT8,
    pa.int16(): Kind.INT16,
    pa.int32(): Kind.INT32,
    pa.date32(): Kind.INT32,
    pa.int64(): Kind.INT64,
    pa.timestamp("us", "UTC"): Kind.INT64,
    pa.timestamp("us"): Kind.INT64,
    pa.duration("us"): Kind.INT64,
    pa.time64("ns"): Kind.INT64,
    pa.float32(): Kind.FLOAT,
    pa.float64(): Kind.DOUBLE,
    pa.string(): Kind.BYTES,
    pa.binary(): Kind.BYTES,
}


def hash_rows(rows: pa.StructArray, struct_type: StructType, seed: int = SEED) -> pa.Int32Array:
    """The result of Spark's SQL function hash(field, field, ...) for each row.

    Args:
        rows: structs with the fields of struct_type, in its order. Names do not matter, and fields of another Arrow
            type are cast. The hash of a null row, and of a row of nulls, is the seed.
        struct_type: the rows' Spark type. A collated string is hashed by its bytes, like any other.
        seed: the hash to start from, a signed 32-bit number.

    Raises:
        UnsupportedTypeError: there is a map, a variant or an unknown type, at any depth.
        SchemaMismatchError: the rows have other fields than struct_type, or values that cannot be cast to its types.
    """
    hashes = murmur3.hash_rows(_struct(rows, struct_type, "", False), len(rows), seed)
    return _int32_array(hashes, len(rows))


def partition_ids(rows: pa.StructArray, struct_type: StructType, num_partitions: int) -> pa.Int32Array:
    """The partition of each row, 0 to num_partitions - 1, in Spark's hash partitioning by all fields.

    Arguments and errors are those of hash_rows, with two differences. Strings that are equal by their collation share a
    partition; collations other than UTF8_BINARY and UTF8_BINARY_RTRIM need the collation keys of the ICU library, so
    they raise UnsupportedTypeError. Rows without fields are all in partition 0: Spark does not hash them.
    """
    if num_partitions < 1:
        raise ValueError(f"num_partitions is {num_partitions}; there is at least one partition")
    seed = SEED if struct_type.fields else 0
    hashes = murmur3.hash_rows(_struct(rows, struct_type, "", True), len(rows), seed)
    return _int32_array(murmur3.partitions(hashes, len(rows), num_partitions), len(rows))


def _int32_array(values: pa.Buffer, length: int) -> pa.Int32Array:
    return cast(pa.Int32Array, pa.Array.from_buffers(pa.int32(), length, [None, values], null_count=0))


def _column(array: pa.Array[Any], spark_type: DataType, path: str, collation_aware: bool) -> Column:
    """The array, with all that is nested in it, for the compiled loop. `path` names the field in errors."""
    match spark_type:
        case UserDefinedType(sql_type):
            return _column(array, sql_type, path, collation_aware)
        case StructType():
            return _struct(array, spark_type, path, collation_aware)
        case ArrayType(element_type):
            if pa.types.is_list_view(array.type) or pa.types.is_large_list_view(array.type):
                # pyarrow 26 loses elements when it casts such an array.
                raise SchemaMismatchError(f"{_of(path)} is of Arrow type {array.type}, not a list")
            if not isinstance(array, pa.ListArray):
                array = cast_array(array, to_arrow_type(spark_type), _of(path))
            lists = cast("pa.ListArray[Any]", array)
            return Column(Kind.LIST, lists, [_column(lists.values, element_type, f"{path}[]", collation_aware)])
    kind = _atomic_kind(spark_type, path, collation_aware)
    return Column(kind, cast_array(array, to_arrow_type(spark_type), _of(path)))


def _struct(array: pa.Array[Any], spark_type: StructType, path: str, collation_aware: bool) -> Column:
    fields = spark_type.fields
    if not isinstance(array, pa.StructArray) or array.type.num_fields != len(fields):
        raise SchemaMismatchError(f"{_of(path)} is of Arrow type {array.type}, not a struct of {len(fields)} fields")
    prefix = f"{path}." if path else ""
    columns = [
        _column(array.field(i), field.type, prefix + field.name, collation_aware) for i, field in enumerate(fields)
    ]
    return Column(Kind.STRUCT, array, columns)


def _atomic_kind(spark_type: DataType, path: str, collation_aware: bool) -> Kind:
    match spark_type:
        case MapType():
            # Equal maps can have their entries in different orders, so Spark refuses to hash them.
            raise UnsupportedTypeError(f"[DATATYPE_MISMATCH.HASH_MAP_TYPE] {_of(path)} is a map, which has no hash")
        case VariantType():
            raise UnsupportedTypeError(
                f"[DATATYPE_MISMATCH.HASH_VARIANT_TYPE] {_of(path)} is a variant, which has no hash"
            )
        case UnknownType(json):
            raise UnsupportedTypeError(f"{_of(path)} is of type {json}, whose hash is not known")
        case StringType("UTF8_BINARY_RTRIM") if collation_aware:
            return Kind.TRIMMED
        case StringType(collation) if collation_aware and collation != "UTF8_BINARY":
            raise UnsupportedTypeError(
                f"{_of(path)} is a string of collation {collation}: only the ICU library can compute its collation "
                "key, and so its partition",
                remedy="Group by strings of collation UTF8_BINARY, or let Spark compute the partition",
            )
    arrow_type = to_arrow_type(spark_type)
    if pa.types.is_decimal(arrow_type):
        return Kind.DECIMAL if arrow_type.precision <= MAX_LONG_DIGITS else Kind.BIG_DECIMAL
    if arrow_type == pa.month_day_nano_interval():
        return Kind.MONTHS if isinstance(spark_type, YearMonthIntervalType) else Kind.INTERVAL
    return KINDS[arrow_type]


def _of(path: str) -> str:
    return f"field {path!r}" if path else "the row"
