"""What does not fit the 32-bit numbers of rows and records, and memory where an encoding fails half-way."""

from __future__ import annotations

import mmap
import os
import resource
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from hdfsstore._cext import unsafe_row
from hdfsstore._cext.records import RecordParser, encode_records
from hdfsstore.codecs import types as t
from hdfsstore.codecs.unsafe_row import RowCodec
from hdfsstore.errors import SchemaMismatchError, SizeLimitError
from tests.support.maps import binary, large_key, zeros
from tests.support.unsafe_rows import schema, spans_of

pytestmark = pytest.mark.skipif(
    not os.environ.get("CI") and sys.platform != "linux", reason="address space without memory can be had on Linux"
)

FIELDS = 5000
KINDS = b"s" * FIELDS
COLUMN = (0, None, None, None)


def test_a_chunk_of_2_gib() -> None:
    parser = RecordParser(row_checksums=False, tombstones=True, max_record_bytes=100)
    with pytest.raises(SizeLimitError, match="2147483648 bytes"):
        parser.parse(memoryview(zeros(1 << 31)).cast("B"), 1 << 31)
    with pytest.raises(ValueError, match="does not hold -1"):
        parser.parse(bytes(8), -1)


def test_a_key_and_a_value_of_2_gib() -> None:
    for keys, values in ((large_key(), binary([b"value"])), (binary([b"key"]), large_key())):
        with pytest.raises(SizeLimitError, match="record 0 is 2 GiB or more"):
            encode_records(keys, values)


def test_a_row_that_ends_behind_the_first_2_gib() -> None:
    """Its string begins where an int32 does not tell."""
    start, row = (1 << 31) - 64, struct.pack("<QII", 0, 8, 64) + bytes(48) + b"a string"
    data = mmap.mmap(-1, start + 4096)
    data[start : start + len(row)] = row
    with pytest.raises(SchemaMismatchError, match="outside of the first 2147483647 bytes") as error:
        RowCodec(schema(t.StringType())).decode(data, spans_of((start, len(row))))
    assert error.value.offset == start


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def sizes_that_do_not_fit_memory() -> None:
    unsafe_row.row_sizes(1 << 60, 0, None, KINDS, bytes(FIELDS), [COLUMN] * FIELDS)


def sizes_of_no_columns() -> None:
    unsafe_row.row_sizes(1, 0, None, KINDS, bytes(FIELDS), [*[COLUMN] * (FIELDS - 1), None])


def places_that_do_not_fit_memory() -> None:
    places = pa.foreign_buffer(0, 1 << 60, None)
    unsafe_row.write_fields(pa.py_buffer(b""), places, KINDS, bytes(FIELDS), [COLUMN] * FIELDS)


def places_of_no_columns() -> None:
    columns = [*[COLUMN] * (FIELDS - 1), None]
    unsafe_row.write_fields(pa.py_buffer(b""), pa.py_buffer(b""), KINDS, bytes(FIELDS), columns)


@pytest.mark.resident_memory
@pytest.mark.parametrize(
    ("call", "error"),
    [
        (sizes_that_do_not_fit_memory, MemoryError),
        (sizes_of_no_columns, TypeError),
        (places_that_do_not_fit_memory, MemoryError),
        (places_of_no_columns, TypeError),
    ],
)
def test_a_call_that_fails_leaves_no_memory_behind(call: Callable[[], None], error: type[Exception]) -> None:
    for repeat in range(120):
        if repeat == 20:
            before = resident()
        with pytest.raises(error):
            call()
    assert resident() - before < 10 << 20  # a hundred times the fields' 280,000 bytes would be 28 MB
