"""Record batches by the schemas to the bytes of keys and values, and back."""

from __future__ import annotations

import pyarrow as pa
import pytest

from hdfsstore.codecs import types as t
from hdfsstore.codecs.unsafe_row import RowCodec
from hdfsstore.errors import SchemaMismatchError, StateStoreError, UnsupportedTypeError
from hdfsstore.state.rows import BatchCodec, RecordLimit, binary, prefix_plan, struct_type

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.string())])
STRUCT = t.StructType((t.StructField("a", t.LongType()), t.StructField("b", t.StringType())))
BATCH = pa.RecordBatch.from_pydict({"a": [1, None, 3], "b": ["x", "y" * 100, None]}, schema=SCHEMA)


@pytest.mark.parametrize("schema", [SCHEMA, STRUCT, t.to_json(STRUCT)], ids=["pyarrow", "struct", "json"])
def test_a_schema_in_each_form(schema: pa.Schema | t.StructType | str) -> None:
    assert struct_type(schema) == STRUCT


def test_what_is_no_schema_of_rows() -> None:
    for schema in ('"long"', "no JSON", t.LongType()):
        with pytest.raises(SchemaMismatchError):
            struct_type(schema)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedTypeError, match="a"):
        struct_type(pa.schema([("a", pa.uint8())]))


def test_rows_are_those_of_the_codec() -> None:
    codec = BatchCodec("key", STRUCT)
    rows = codec.encode(BATCH)
    assert rows.equals(RowCodec(STRUCT).encode(BATCH.to_struct_array()))
    assert codec.decode_columns(rows).equals(BATCH)
    assert codec.decode(rows).to_pylist() == BATCH.to_pylist()


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_nulls_slices_and_large_arrays(kind: pa.DataType) -> None:
    codec = BatchCodec("value", STRUCT)
    rows = pa.concat_arrays([codec.encode(BATCH).cast(kind), pa.array([None], kind), codec.encode(BATCH).cast(kind)])
    none = {"a": None, "b": None}
    expected = [*BATCH.to_pylist(), none, *BATCH.to_pylist()]
    for start, length in ((0, 7), (1, 5), (3, 1), (4, 3), (7, 0)):
        found = codec.decode_columns(rows.slice(start, length))
        found.validate(full=True)
        assert found.to_pylist() == expected[start : start + length]
    assert codec.decode(rows.slice(3, 1)).null_count == 1
    assert codec.decode_columns(pa.array([], kind)).num_rows == 0


def test_a_column_that_is_never_null_is_null_where_there_is_no_row() -> None:
    codec = BatchCodec("value", struct_type(pa.schema([pa.field("a", pa.int64(), nullable=False)])))
    found = codec.decode_columns(pa.array([None], pa.binary()))
    assert found.schema.field("a").nullable
    assert found.to_pylist() == [{"a": None}]


def test_errors_name_the_part() -> None:
    codec = BatchCodec("value", STRUCT)
    with pytest.raises(SchemaMismatchError, match=r"the value schema does not fit.*'a'"):
        codec.encode(pa.RecordBatch.from_pydict({"a": ["text"], "b": ["text"]}))
    with pytest.raises(SchemaMismatchError, match="the value schema does not fit"):
        codec.decode(pa.array([b"short"], pa.binary()))
    unknown = BatchCodec("value", None)
    for call in (lambda: unknown.encode(BATCH), lambda: unknown.decode(pa.array([b""])), lambda: unknown.arrow_type):
        with pytest.raises(SchemaMismatchError, match=r"value_schema=pyarrow\.schema"):
            call()


def test_where_a_prefix_is_in_a_key() -> None:
    fields = {
        "long": pa.int64(),
        "text": pa.string(),
        "small": pa.decimal128(18, 2),
        "wide": pa.decimal128(30, 2),
        "interval": pa.month_day_nano_interval(),
        "list": pa.list_(pa.int32()),
        "flag": pa.bool_(),
        "last": pa.int64(),
    }
    key = struct_type(pa.schema(fields))
    assert prefix_plan(key, 7) == (8, bytes([0, 1, 0, 2, 2, 1, 0]))
    assert prefix_plan(key, 1) == (8, b"\0")
    for number in (0, 8, -1):
        with pytest.raises(ValueError, match="num_cols_prefix_key"):
            prefix_plan(key, number)


def test_a_limit_of_records() -> None:
    limit = RecordLimit(10)
    limit.check(bytes(10), bytes(10))
    limit.check_many(pa.array([bytes(10)] * 5 + [None]))
    for size in (11, 1000):
        with pytest.raises(StateStoreError, match=f"{size} bytes"):
            limit.check(b"", bytes(size))
        with pytest.raises(StateStoreError, match=f"{size} bytes"):
            limit.check_many(pa.array([b"", bytes(size)], pa.large_binary()))


def test_only_arrays_of_bytes() -> None:
    assert binary(pa.array([b""])) == pa.array([b""])
    assert binary(pa.array([b""], pa.large_binary())).type == pa.large_binary()
    for other in ([b""], pa.array([""]), pa.chunked_array([[b""]]), None, pa.array([b"k"], pa.binary(1))):
        with pytest.raises(TypeError, match="binary array"):
            binary(other)


def test_only_record_batches() -> None:
    for other in (pa.Table.from_batches([BATCH]), BATCH.to_struct_array(), BATCH.to_pylist(), None):
        with pytest.raises(TypeError, match="RecordBatch of keys"):
            BatchCodec("key", STRUCT).encode(other)
