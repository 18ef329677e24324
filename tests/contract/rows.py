"""Rows for the methods that take record batches: a key of a string and a long, a value of a long and a string."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from hdfsstore.codecs.types import LongType, StringType, StructField, StructType
from hdfsstore.codecs.unsafe_row import RowCodec

KEY = StructType((StructField("word", StringType()), StructField("number", LongType())))
VALUE = StructType((StructField("count", LongType()), StructField("note", StringType())))
SCHEMAS: dict[str, Any] = {
    "key_schema": pa.schema({"word": pa.string(), "number": pa.int64()}),
    "value_schema": pa.schema({"count": pa.int64(), "note": pa.string()}),
    "num_cols_prefix_key": 1,
}


def keys(rows: list[tuple[str | None, int | None]]) -> pa.RecordBatch:
    words, numbers = ([row[at] for row in rows] for at in (0, 1))
    return pa.record_batch({"word": pa.array(words, pa.string()), "number": pa.array(numbers, pa.int64())})


def values(rows: list[tuple[int | None, str | None]]) -> pa.RecordBatch:
    counts, notes = ([row[at] for row in rows] for at in (0, 1))
    return pa.record_batch({"count": pa.array(counts, pa.int64()), "note": pa.array(notes, pa.string())})


def unsafe(schema: StructType, rows: pa.RecordBatch) -> list[bytes]:
    """The rows as Spark has them in the state."""
    return [row.as_py() for row in RowCodec(schema).encode(rows.to_struct_array())]


def prefix(word: str | None) -> bytes:
    """The row of the key's first column."""
    return unsafe(StructType(KEY.fields[:1]), keys([(word, None)]).select(["word"]))[0]
