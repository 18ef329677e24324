"""Keys of RocksDB stores as Spark's encoders write them: ours are equal to the byte, and theirs decode to the same."""

from __future__ import annotations

import math
import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from hdfsstore.codecs import types as t
from hdfsstore.codecs.rocksdb_keys import key_codec
from hdfsstore.codecs.unsafe_row import RowCodec
from tests.support.row_strategies import plain_leaves, tables, to_arrow
from tests.support.rows import same

JAVA = Any
VALUE = t.StructType((t.StructField("value", t.LongType()),))
EDGES: dict[t.DataType, list[Any]] = {
    t.ByteType(): [-128, -1, 0, 1, 127, None],
    t.ShortType(): [-(2**15), -2, 0, 2, 2**15 - 1, None],
    t.IntegerType(): [-(2**31), -2, 0, 2, 2**31 - 1, None],
    t.LongType(): [-(2**63), -2, 0, 2, 2**63 - 1, None],
    t.FloatType(): [-math.inf, -1.5, -0.0, 0.0, 1.5, math.inf, math.nan, None],
    t.DoubleType(): [-math.inf, -1.5, -0.0, 0.0, 1e-300, math.inf, math.nan, None],
}


class SparksEncoder:
    """Spark's encoder of keys.

    Args:
        name: of its class and its specification, without "Encoder" and "EncoderSpec".
        parameters: what a specification takes behind the schema.
    """

    def __init__(self, spark: SparkSession, name: str, key_type: t.StructType, *parameters: Any) -> None:
        self._java: JAVA = spark._jvm.org.apache.spark.sql
        self._fields = len(key_type.fields)
        state = self._java.execution.streaming.state
        key_schema, value_schema = map(self._schema, (key_type, VALUE))
        spec = getattr(state, f"{name}EncoderSpec")(key_schema, *parameters)
        rows = state.UnsafeRowDataEncoder(spec, value_schema)
        self._encoder = getattr(state, f"{name}Encoder")(rows, key_schema, *parameters, False)

    def encode(self, keys: pa.StructArray, key_type: t.StructType) -> list[bytes]:
        found = []
        for data in RowCodec(key_type).encode(keys).to_pylist():
            row = self._java.catalyst.expressions.UnsafeRow(self._fields)
            row.pointTo(data, len(data))
            found.append(bytes(self._encoder.encodeKey(row)))
        return found

    def _schema(self, type_: t.StructType) -> JAVA:
        return self._java.types.DataType.fromJson(t.to_json(type_))


def check(spark: SparkSession, name: str, keys: pa.StructArray, key_type: t.StructType, **parameters: Any) -> None:
    given = [ordinals(spark, each) if isinstance(each, list) else each for each in parameters.values()]
    theirs = SparksEncoder(spark, name, key_type, *given).encode(keys, key_type)
    codec = key_codec(key_type, {"keyStateEncoderType": f"{name}EncoderSpec", **parameters}, b"")
    assert codec.encode(keys).to_pylist() == theirs
    assert same(codec.decode(*stored(theirs)), keys)


def stored(keys: list[bytes]) -> tuple[pa.Buffer, pa.Buffer]:
    """The keys one after the other, and their spans."""
    spans = [number for at, key in enumerate(keys) for number in (sum(map(len, keys[:at])), len(key))]
    return pa.py_buffer(b"".join(keys)), pa.py_buffer(struct.pack(f"{len(spans)}i", *spans))


def ordinals(spark: SparkSession, numbers: list[int]) -> JAVA:
    return spark._jvm.scala.jdk.javaapi.CollectionConverters.asScala(numbers).toSeq()


KEYS = tables(plain_leaves, min_size=1, null_rows=False, unique_names=True)


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(KEYS, st.data())
def test_keys_of_any_schema(
    spark: SparkSession, table: tuple[t.StructType, pa.StructArray], data: st.DataObject
) -> None:
    key_type, keys = table
    check(spark, "NoPrefixKeyState", keys, key_type)
    if len(key_type.fields) > 1:
        count = data.draw(st.integers(1, len(key_type.fields) - 1))
        check(spark, "PrefixKeyScanState", keys, key_type, numColsPrefixKey=count)


@pytest.mark.parametrize("type_", list(EDGES), ids=str)
def test_numbers_by_which_keys_are_ordered(spark: SparkSession, type_: t.DataType) -> None:
    n, m, word = t.StructField("n", type_), t.StructField("m", type_), t.StructField("word", t.StringType())
    for fields, rows in (
        ((n, word), [(each, "a") for each in EDGES[type_]]),
        ((word, n, m), [(None, first, second) for first in EDGES[type_] for second in EDGES[type_]]),
    ):
        key_type = t.StructType(fields)
        places = [place for place, field in enumerate(fields) if field is not word][::-1]
        check(spark, "RangeKeyScanState", to_arrow(key_type, rows), key_type, orderingOrdinals=places)


def test_keys_that_are_ordered_by_all_of_their_columns(spark: SparkSession) -> None:
    """Spark 4.3 puts a row of no columns behind them, and we none. No family of Spark's has such keys."""
    for type_, numbers in EDGES.items():
        key_type = t.StructType((t.StructField("n", type_),))
        keys = to_arrow(key_type, [(each,) for each in numbers])
        encoder = {"keyStateEncoderType": "RangeKeyScanStateEncoderSpec", "orderingOrdinals": [0]}
        codec = key_codec(key_type, encoder, b"")
        theirs = SparksEncoder(spark, "RangeKeyScanState", key_type, ordinals(spark, [0])).encode(keys, key_type)
        assert theirs == [key + b"\0" for key in codec.encode(keys).to_pylist()]
        assert same(codec.decode(*stored(theirs)), keys)


TIMES = st.integers(-(2**63), 2**63 - 1)


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(KEYS, st.data())
def test_keys_with_a_timestamp(
    spark: SparkSession, table: tuple[t.StructType, pa.StructArray], data: st.DataObject
) -> None:
    key_type, keys = table
    timed = t.StructType((*key_type.fields, t.StructField("__event_time", t.LongType(), False)))
    times = pa.array(data.draw(st.lists(TIMES, min_size=len(keys), max_size=len(keys))), pa.int64())
    whole = pa.StructArray.from_arrays([*keys.flatten(), times], fields=list(RowCodec(timed).arrow_type))
    for place in ("Prefix", "Postfix"):
        check(spark, f"TimestampAs{place}KeyState", whole, timed)
