"""Encodes and decodes the values of Spark's RocksDB stores (RocksDBStateEncoder.scala).

    value        byte 0 | row
    list value   int32 LE size | byte 0 | row; then the next element in the same way, after a comma or at once
    checksummed  the value, or each part of a list value that was put or merged, after its checksum and its size

cext/rocksdb_rows.pyx has the bytes of joints and checksums. Byte 0 is the encoding's version. Rows are UnsafeRows,
or as avro_rows.py has them.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from copy import copy

import pyarrow as pa

from hdfsstore._cext import rocksdb_rows, unsafe_values
from hdfsstore.codecs import types as t
from hdfsstore.codecs.arrow_types import to_arrow_type
from hdfsstore.codecs.rocksdb_keys import VERSION, Rows
from hdfsstore.codecs.unsafe_row import RowCodec

log = logging.getLogger("hdfsstore.codecs.rocksdb_values")


class ValueCodec:
    """Decodes the values of one family. It has no state, so threads may share it.

    Args:
        value_type: of a value's row, or of the row of an element.
        lists: whether a value is a list of rows.
        row_checksums: whether values carry checksums.
        key_start: so many bytes in front of the span of a key belong to it: the number of its family.
        rows: of the values; None: they are UnsafeRows.
        commas: whether elements of lists that are no UnsafeRows are joined with commas.
    """

    def __init__(
        self,
        value_type: t.StructType,
        *,
        lists: bool,
        row_checksums: bool,
        key_start: int = 0,
        rows: Rows | None = None,
        commas: bool = True,
    ) -> None:
        self._rows: Rows = rows or RowCodec(value_type)
        self._unsafe = rows is None
        self._commas = commas
        self._lists = lists
        self._row_checksums = row_checksums
        self._key_start = key_start
        self.arrow_type = to_arrow_type(t.ArrayType(value_type, True)) if lists else self._rows.arrow_type

    def only(self, fields: Collection[int]) -> ValueCodec:
        """The same codec, which decodes only the fields at these places, if rows are UnsafeRows."""
        narrow = copy(self)
        if isinstance(self._rows, RowCodec):
            narrow._rows = self._rows.only(fields)
        return narrow

    def decode(self, data: pa.Buffer, keys: pa.Buffer, spans: pa.Buffer) -> pa.StructArray | pa.ListArray:
        """The values as structs, or as lists of them; null where the size is -1.

        Args:
            keys, spans: the (offset, size) of each stored key and value in the data, pairs of int32.

        Raises:
            CorruptFileError, SchemaMismatchError, UnsupportedVersionError: a value does not have this layout; `offset`
                counts in the data.
        """
        return self._decode_lists(data, keys, spans) if self._lists else self._decode_rows(data, keys, spans)

    def _decode_rows(self, data: pa.Buffer, keys: pa.Buffer, spans: pa.Buffer) -> pa.StructArray:
        if self._row_checksums:
            offsets, parts = rocksdb_rows.checked(data, keys, spans, self._key_start)
            spans = rocksdb_rows.only(offsets, parts)
        return self._rows.decode(data, spans, VERSION)

    def _decode_lists(self, data: pa.Buffer, keys: pa.Buffer, spans: pa.Buffer) -> pa.ListArray:
        count, validity = spans.size // 8, unsafe_values.validity_of(spans, -1)
        offsets = None
        if self._row_checksums:
            offsets, spans = rocksdb_rows.checked(data, keys, spans, self._key_start)
        inner, elements, commas, closed = rocksdb_rows.elements(data, spans, self._unsafe, self._commas)
        if commas and closed:
            log.warning("elements of lists are joined with commas and without: another tool has compacted the store")
        offsets = inner if offsets is None else _int32(inner).take(_int32(offsets)).buffers()[1]
        rows = self._rows.decode(data, elements, VERSION)
        return pa.Array.from_buffers(self.arrow_type, count, [validity, offsets], children=[rows])


def _int32(buffer: pa.Buffer) -> pa.Int32Array:
    return pa.Array.from_buffers(pa.int32(), buffer.size // 4, [None, buffer], 0)
