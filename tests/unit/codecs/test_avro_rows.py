"""Rows in Avro: every type, schemas that have changed, damage, and no fastavro."""

from __future__ import annotations

import datetime as dt
import sys
from decimal import Decimal
from functools import partial
from itertools import product
from typing import Any

import pyarrow as pa
import pytest

from hdfsstore import Checkpoint
from hdfsstore.codecs import types as t
from hdfsstore.codecs.arrow_types import to_arrow_type
from hdfsstore.codecs.avro_rows import AvroRows
from hdfsstore.codecs.records import RecordChunk
from hdfsstore.codecs.rocksdb_keys import key_codec
from hdfsstore.errors import (
    CorruptFileError,
    SchemaMismatchError,
    StateStoreError,
    UnsupportedTypeError,
    UnsupportedVersionError,
)
from hdfsstore.state.rows import spans_of
from tests.support.truth import DATA


def struct(**fields: t.DataType) -> t.StructType:
    return t.StructType(tuple(t.StructField(name, type_) for name, type_ in fields.items()))


def decoded(rows: AvroRows, *encoded: bytes | None) -> Any:
    return rows.decode(*spans_of(pa.array(encoded, pa.binary()), "rows")).to_pylist()


INNER = struct(n=t.ByteType(), words=t.ArrayType(t.StringType()))
ALL = struct(
    nothing=t.NullType(),
    yes=t.BooleanType(),
    short=t.ShortType(),
    number=t.IntegerType(),
    long=t.LongType(),
    single=t.FloatType(),
    double=t.DoubleType(),
    text=t.StringType(),
    data=t.BinaryType(),
    day=t.DateType(),
    time=t.TimestampType(),
    local=t.TimestampNTZType(),
    small=t.DecimalType(4, 2),
    large=t.DecimalType(38, 10),
    inner=INNER,
    inners=t.ArrayType(INNER),
    lists=t.ArrayType(t.ArrayType(t.DateType())),
)
TIME = dt.datetime(2026, 3, 2, 9, 0, 0, 5)
ROW = {
    "nothing": None,
    "yes": True,
    "short": -(2**15),
    "number": -1,
    "long": 2**63 - 1,
    "single": 0.5,
    "double": -0.1,
    "text": "日本語",
    "data": b"\0\xff",
    "day": dt.date(1969, 12, 31),
    "time": TIME.replace(tzinfo=dt.UTC),
    "local": TIME,
    "small": Decimal("-99.99"),
    "large": Decimal("1234567890123456789012345678.0123456789"),
    "inner": {"n": -128, "words": ["", "a"]},
    "inners": [{"n": None, "words": None}, None],
    "lists": [[dt.date(2026, 3, 2)], None, []],
}
NULLS = dict.fromkeys(ROW)


def test_every_type_comes_back() -> None:
    rows = AvroRows(ALL, schema_id=3)
    encoded = rows.encode(pa.array([ROW, NULLS], rows.arrow_type)).to_pylist()
    assert encoded[1] == b"\3\0" + bytes(len(ROW) - 1)  # a void has no union, and no bytes
    assert decoded(rows, *encoded, None) == [ROW, NULLS, None]


@pytest.mark.parametrize(
    ("type_", "value", "encoded"),
    [
        (t.IntegerType(), -1, b"\2\1"),
        (t.DecimalType(4, 2), Decimal("-0.01"), b"\2\xff\xff"),
        (t.DecimalType(5, 0), Decimal(1), b"\2\0\0\1"),
        (t.ArrayType(t.StringType()), ["a"], b"\2\2\2a\0"),
        (t.ArrayType(t.ArrayType(t.LongType())), [None], b"\2\2\0\0"),
        (t.MapType(t.StringType(), t.IntegerType()), [("a", 1), ("b", 2)], b"\2\4\2a\2\2b\4\0"),
        (t.MapType(t.StringType(), struct(n=t.IntegerType())), [("a", None)], b"\2\2\2a\0\0"),
        # A block whose size is told: a negative count, the size.
        (t.MapType(t.StringType(), t.IntegerType()), [("a", 1)], b"\2\1\6\2a\2\0"),
    ],
)
def test_bytes_as_avro_has_them(type_: t.DataType, value: Any, encoded: bytes) -> None:
    assert decoded(AvroRows(struct(v=type_)), encoded) == [{"v": value}]


def test_rows_of_an_older_schema_are_read_as_the_newer_one() -> None:
    old = struct(gone=t.StringType(), n=t.IntegerType(), inner=struct(n=t.IntegerType()))
    new = struct(inner=struct(n=t.LongType(), more=t.StringType()), n=t.DoubleType(), fresh=t.LongType())
    before = AvroRows(old, 0)
    rows = AvroRows(new, 1, {0: old, 1: new})
    (encoded,) = before.encode(pa.array([{"gone": "x", "n": 7, "inner": {"n": 8}}], before.arrow_type)).to_pylist()
    assert decoded(rows, encoded) == [{"inner": {"n": 8, "more": None}, "n": 7.0, "fresh": None}]
    with pytest.raises(SchemaMismatchError, match="newer schema"):
        decoded(AvroRows(struct(n=t.BooleanType()), 1, {0: old}), encoded)


@pytest.mark.parametrize("name", ["transform_avro_ttl", "transform_avro_timers"])
def test_keys_that_spark_orders_are_equal_to_the_byte(name: str) -> None:
    state = Checkpoint(DATA / "spark-4.3.0" / name / "checkpoint").operator_state()
    (store,) = state.operator.stores
    ordered = [each for each in store.column_families if each.key_encoder["keyStateEncoderType"].startswith("Range")]
    records = 0
    for family, partition in product(ordered, store.partition_ids):
        codec, _ = state.family_codecs(store, family, lists=False)
        for chunk in state.reader(store, partition, family.name).stream(state.version, RecordChunk.copy):
            spans = pa.Array.from_buffers(pa.int32(), 2 * len(chunk), [None, chunk.keys]).to_pylist()
            keys = codec.decode(pa.py_buffer(chunk.data), chunk.keys)
            stored = [bytes(chunk.data[at : at + size]) for at, size in zip(spans[::2], spans[1::2], strict=True)]
            assert codec.encode(keys).to_pylist() == stored
            records += len(keys)
    assert records


def test_ordered_numbers_and_nulls_there_and_back() -> None:
    type_ = struct(n=t.LongType(), d=t.DoubleType(), k=t.StringType())
    ordered = {"keyStateEncoderType": "RangeKeyScanStateEncoderSpec", "orderingOrdinals": [0, 1]}
    codec = key_codec(type_, ordered, b"", partial(AvroRows, schema_id=0), AvroRows)
    rows = [{"n": -1, "d": None, "k": "a"}, {"n": None, "d": -0.5, "k": None}, {"n": 2**40, "d": 1.5, "k": ""}]
    encoded = codec.encode(pa.array(rows, to_arrow_type(type_)))
    assert codec.decode(*spans_of(encoded, "keys")).to_pylist() == rows


def test_damage() -> None:
    rows = AvroRows(struct(word=t.StringType(), n=t.ByteType()), 0)
    good = b"\0\0\2\2a\2\2"
    assert decoded(rows, good) == [{"word": "a", "n": 1}]
    for size in range(len(good)):
        with pytest.raises(CorruptFileError) as found:
            decoded(rows, good, good[:size])
        assert found.value.offset == len(good)
    with pytest.raises(CorruptFileError, match="6 bytes, but ends after 5"):
        decoded(rows, good + b"\0")
    with pytest.raises(CorruptFileError, match="schema id 1, and the schema files have 0"):
        decoded(rows, b"\1" + good[1:])
    with pytest.raises(CorruptFileError, match="damaged"):
        decoded(rows, b"\0\0\2\2\xff\2\2")  # no UTF-8
    with pytest.raises(CorruptFileError, match="damaged"):
        decoded(rows, b"\0\0\6\2a\2\2")  # no such branch of a union
    with pytest.raises(CorruptFileError, match="damaged"):
        decoded(rows, b"\0\0\2\xfe\xff\xff\xff\xff\xff\xff\xff\xff\1a\2\2")  # a length of 2**63 - 1
    with pytest.raises(CorruptFileError, match="too large"):
        decoded(rows, b"\0\0\2\2a\2\x80\2")


def test_types_that_avro_does_not_have() -> None:
    for type_ in (t.DayTimeIntervalType(), t.MapType(t.LongType(), t.LongType()), t.ArrayType(t.NullType())):
        with pytest.raises(UnsupportedTypeError, match="Avro"):
            AvroRows(struct(v=type_))
    ordered = {"keyStateEncoderType": "TimestampAsPrefixKeyStateEncoderSpec"}
    with pytest.raises(UnsupportedVersionError, match="UnsafeRows only"):
        key_codec(struct(n=t.LongType()), ordered, b"", AvroRows)


def test_without_fastavro_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastavro", None)
    monkeypatch.setitem(sys.modules, "fastavro.read", None)
    with pytest.raises(StateStoreError, match=r"hdfsstore\[avro\]"):
        AvroRows(struct(n=t.LongType()))
