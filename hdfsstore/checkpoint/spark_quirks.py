"""Corrects the types of stores whose schema file differs from the rows that Spark wrote."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from hdfsstore.checkpoint.operators import Operator, Store
from hdfsstore.codecs.records import RecordChunk
from hdfsstore.codecs.types import IntegerType, LongType, NullType, StructField, StructType, TimestampType
from hdfsstore.codecs.unsafe_row import RowCodec
from hdfsstore.errors import SchemaMismatchError

log = logging.getLogger("hdfsstore.checkpoint.spark_quirks")

GROUP_STATE_FORMAT = "spark.sql.streaming.flatMapGroupsWithState.stateFormatVersion"
# None: before Spark 4.0 the checkpoint does not name its operators.
GROUP_STATE_OPERATORS = (None, "flatMapGroupsWithState", "applyInPandasWithState")
DEDUPLICATE_OPERATORS = (None, "dedupe")
PREFIX_ENCODER = "PrefixKeyScanStateEncoderSpec"
SINGLE_NULL_ROW = bytes([1]) + bytes(15)
SINGLE_NULL_TYPE = StructType((StructField("__dummy__", NullType()),))


def prefix_encoder(store: Store, key_type: StructType) -> dict[str, Any]:
    """The encoder of keys in RocksDB, as schema files of stores with column families have it.

    Before Spark 4.0 nothing says whether keys have a prefix. Only those of session windows have one there: all but the
    last column.
    """
    columns = store.num_cols_prefix_key
    if columns is None:
        last = [(field.name, field.type) for field in key_type.fields[-1:]]
        columns = len(key_type.fields) - 1 if last == [("sessionStartTime", TimestampType())] else 0
    return {"keyStateEncoderType": PREFIX_ENCODER, "numColsPrefixKey": columns} if columns else {}


def stored_value_type(
    operator: Operator,
    store: Store,
    declared: StructType,
    conf: Mapping[str, str],
    first: Callable[[], RecordChunk | None],
) -> StructType:
    """The type of the values that are really in a store.

    - (flat)MapGroupsWithState, state format 1: `timeoutTimestamp` is declared an int, but stored as a
      long (FlatMapGroupsWithStateExecHelper.scala). Spark's own source refuses the rows or truncates the number.
    - dropDuplicates of Spark 3.2.0, 3.2.1 and 3.3.0: the input row is declared, but a single null is stored.
      Later releases declare the null, yet keep an old schema file; Spark 4 then refuses to read the rows.

    Args:
        first: reads some records of the store.
    """
    last = declared.fields[-1] if declared.fields else None
    if (
        operator.name in GROUP_STATE_OPERATORS
        and conf.get(GROUP_STATE_FORMAT, "1") == "1"
        and last is not None
        and (last.name, last.type) == ("timeoutTimestamp", IntegerType())
    ):
        return StructType((*declared.fields[:-1], StructField(last.name, LongType(), last.nullable, last.metadata)))
    if operator.name in DEDUPLICATE_OPERATORS and _has_single_null(declared, first()):
        log.info("%s declares an input row, but the store has single nulls; they are read as nulls", store.schema_path)
        return SINGLE_NULL_TYPE
    return declared


def _has_single_null(declared: StructType, chunk: RecordChunk | None) -> bool:
    if chunk is None:
        return False
    offset, size = memoryview(chunk.values).cast("i")[:2]
    version = size % 8  # in RocksDB one byte lies in front of the row
    row = chunk.data[offset + version : offset + size]
    if row != SINGLE_NULL_ROW:
        return False
    try:
        RowCodec(declared).decode(row, pa.array([0, len(row)], pa.int32()).buffers()[1])
    except SchemaMismatchError:
        return True
    return False
