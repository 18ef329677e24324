"""Converts UnsafeRows to Arrow and back, a column at a time; cext/common/unsafe_layout.pxd has the layout."""

from __future__ import annotations

from collections.abc import Collection
from copy import copy
from typing import Any

import pyarrow as pa

from hdfsstore.codecs import types as t
from hdfsstore.codecs.row_plan import plan
from hdfsstore.codecs.row_reader import read_struct
from hdfsstore.codecs.row_writer import write_rows


class RowCodec:
    """Decodes and encodes the rows of one schema. It has no state, so threads may share it.

    Errors: UnsupportedTypeError if the schema has an unknown type; it names the field's full path.
    """

    def __init__(self, struct_type: t.StructType) -> None:
        self._root = plan(struct_type, "")
        self._needed: Collection[int] | None = None
        self.arrow_type: Any = self._root.arrow

    def only(self, fields: Collection[int]) -> RowCodec:
        """The same codec, which decodes only the fields at these places: all others are null."""
        narrow = copy(self)
        narrow._needed = frozenset(fields)
        return narrow

    def decode(self, data: Any, spans: pa.Buffer, prefix: bytes = b"") -> pa.StructArray:
        """Rows to Arrow.

        Args:
            data: a C-contiguous bytes-like object of less than 2 GiB that contains the rows.
            spans: one (offset, size) pair of native int32 for each row; size -1 is a null row.
            prefix: the bytes in front of each row, which are part of its span.

        Neither Spark nor this function checks that strings are valid UTF-8.

        Errors: SchemaMismatchError if a row does not fit the schema; its `offset` is that of the row, or of the
        nested value, in `data`. CorruptFileError, UnsupportedVersionError if a row has another prefix.
        """
        buffer = pa.py_buffer(data)
        if spans.address % 4:
            spans = pa.py_buffer(spans.to_pybytes())
        return read_struct(self._root, buffer, spans, self._needed, prefix)

    def encode(self, rows: pa.StructArray) -> pa.BinaryArray | pa.LargeBinaryArray:
        """Arrow to rows, byte for byte as Spark 4.3's UnsafeProjection writes them.

        `rows` has the fields of `arrow_type`, matched by position; a null row becomes a null. Large, view and
        dictionary-encoded strings and binaries, decimals of other types, and times of other units are cast. The result
        is a LargeBinaryArray if the rows together are 2 GiB or more.

        Errors: SchemaMismatchError, with the field's name, if a column has another type or a value does not fit: a
        decimal with too many digits, an interval with a fraction of a microsecond, a row of 2 GiB.
        """
        return write_rows(self._root, rows)
