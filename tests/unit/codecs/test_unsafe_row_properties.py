"""Any rows of any schema: what is encoded decodes to the same, and damaged rows never do harm."""

from __future__ import annotations

import array

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from hdfsstore.codecs import types as t
from hdfsstore.codecs.unsafe_row import RowCodec
from hdfsstore.errors import StateStoreError
from tests.support.row_strategies import tables
from tests.support.rows import same


def spread(encoded: pa.BinaryArray) -> tuple[bytes, pa.Buffer]:
    """The rows with something between them, and their spans."""
    data = b""
    numbers = []
    for row in encoded.to_pylist():
        data += b"\xee" * 3
        numbers += [len(data), -1 if row is None else len(row)]
        data += row or b""
    return data, pa.py_buffer(array.array("i", numbers).tobytes())


@given(tables())
def test_what_is_encoded_decodes_to_the_same(table: tuple[t.StructType, pa.StructArray]) -> None:
    schema, rows = table
    codec = RowCodec(schema)
    encoded = codec.encode(rows)
    encoded.validate(full=True)
    decoded = codec.decode(*spread(encoded))
    decoded.validate(full=True)
    assert decoded.is_valid().equals(rows.is_valid())
    assert codec.encode(decoded).equals(encoded)
    assert same(decoded, rows)


@given(tables(), st.integers(0, 4), st.integers(0, 4))
def test_a_slice_is_encoded_as_its_rows_are(table: tuple[t.StructType, pa.StructArray], start: int, size: int) -> None:
    schema, rows = table
    codec = RowCodec(schema)
    assert codec.encode(rows[start : start + size]).equals(codec.encode(rows)[start : start + size])


@given(tables(null_rows=False), st.sampled_from([0x01, 0x81, 0xFF]))
def test_damaged_rows(table: tuple[t.StructType, pa.StructArray], flipped: int) -> None:
    """Each byte changed, and the row cut there: a row or a StateStoreError, and nothing worse."""
    schema, rows = table
    codec = RowCodec(schema)
    for row in codec.encode(rows[:1]).to_pylist():
        for at in range(len(row)):
            read(codec, row[:at] + bytes([row[at] ^ flipped]) + row[at + 1 :])
            read(codec, row[:at])


def read(codec: RowCodec, row: bytes) -> None:
    try:
        decoded = codec.decode(row, pa.py_buffer(array.array("i", [0, len(row)]).tobytes()))
    except StateStoreError:
        return
    decoded.validate()
    assert len(decoded) == 1
