"""Encodes and decodes the keys of Spark's RocksDB stores (RocksDBStateEncoder.scala).

    key                    family | byte 0 | row
    key with a prefix      family | int32 LE n | n bytes: byte 0 and the row of the prefix's columns
                           | byte 0 | row of the other columns
    ordered key            the same with the columns that it is ordered by in front: the row has them as binaries, which
                           cext/rocksdb_rows.pyx shows; the second row is left out if there is no other column (Spark
                           4.3 puts one of no columns there; none of its families has such keys)
    ordered key in Avro    the same, and the first row has two binaries for each: marker, number or null
    timestamp in front     family | timestamp | byte 0 | row of all columns but the last, which is the timestamp
    timestamp at the end   family | byte 0 | row of all columns but the last | timestamp

A family is an int16 LE, in stores with column families only. Byte 0 is the encoding's version. Rows are UnsafeRows, or
as avro_rows.py has them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from typing import Any, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from hdfsstore._cext import rocksdb_rows
from hdfsstore.codecs import types as t
from hdfsstore.codecs.unsafe_row import RowCodec
from hdfsstore.errors import UnsupportedTypeError, UnsupportedVersionError

BinaryRows: TypeAlias = "pa.BinaryArray | pa.LargeBinaryArray"

VERSION = b"\0"
NULL_MARKER = b"\2"
_WORD = 8  # bytes of the null bits of up to 64 fields, and of each field
_PAIR = "marker", "number"
_FAMILY = struct.Struct("<h")
# Bytes of a number by which keys may be ordered, and whether it is a float.
_ORDERED: dict[type[t.DataType], tuple[int, bool]] = {
    t.ByteType: (1, False),
    t.ShortType: (2, False),
    t.IntegerType: (4, False),
    t.LongType: (8, False),
    t.FloatType: (4, True),
    t.DoubleType: (8, True),
}


class Rows(Protocol):
    """Converts the rows of one schema, as RowCodec does."""

    arrow_type: Any

    def decode(self, data: pa.Buffer, spans: pa.Buffer, prefix: bytes = b"", /) -> pa.StructArray:
        """Rows as structs; `spans` are the (offset, size) in the data of each prefix with its row."""

    def encode(self, rows: pa.StructArray, /) -> BinaryRows:
        """The bytes of rows."""


RowsOf: TypeAlias = Callable[[t.StructType], Rows]


class KeyCodec(Protocol):
    """Converts the keys of one family. It has no state, so threads may share it."""

    def decode(self, data: pa.Buffer, spans: pa.Buffer) -> pa.StructArray:
        """The keys as structs.

        Args:
            spans: the (offset, size) of each key in the data, pairs of int32.

        Raises:
            CorruptFileError, SchemaMismatchError, UnsupportedVersionError: a key does not have this layout; `offset`
                counts in the data.
        """

    def encode(self, keys: pa.StructArray) -> BinaryRows:
        """The stored bytes of keys that are not null."""

    def prefix(self, columns: pa.StructArray) -> BinaryRows:
        """The first bytes of every stored key whose first columns, in the order of the layout, are these.

        Raises:
            ValueError: keys with these columns do not begin alike.
        """


def family_prefix(family_id: int | None) -> bytes:
    """The bytes that all keys of a family begin with; None: the store has no families."""
    return b"" if family_id is None else _FAMILY.pack(family_id)


def after(prefix: bytes) -> bytes | None:
    """The first bytes after all that begin with `prefix`; None: there are none."""
    number = int.from_bytes(prefix, "big") + 1
    return None if number >> (8 * len(prefix)) else number.to_bytes(len(prefix), "big")


def key_codec(
    key_type: t.StructType,
    encoder: Mapping[str, Any],
    family: bytes,
    rows: RowsOf = RowCodec,
    prefix_rows: RowsOf = RowCodec,
) -> KeyCodec:
    """The codec of a family's keys.

    Args:
        encoder: the family's keyStateEncoderType and its parameters; empty: none.
        family: family_prefix of its id.
        rows, prefix_rows: of the keys, and of the columns that are a prefix.

    Raises:
        UnsupportedTypeError: keys cannot be ordered by a column of that type.
        UnsupportedVersionError: there is no such layout.
    """
    layout = encoder.get("keyStateEncoderType", "NoPrefixKeyStateEncoderSpec")
    match layout:
        case "NoPrefixKeyStateEncoderSpec":
            return PlainKeys(key_type, family, rows)
        case "PrefixKeyScanStateEncoderSpec":
            return PrefixKeys(key_type, family, range(int(encoder["numColsPrefixKey"])), rows, prefix_rows)
        case "RangeKeyScanStateEncoderSpec":
            ordinals = [int(ordinal) for ordinal in encoder["orderingOrdinals"]]
            return OrderedKeys(key_type, family, ordinals, rows, prefix_rows)
    if rows is not RowCodec:
        raise UnsupportedVersionError(f"keys by {layout!r} are read as UnsafeRows only")
    match layout:
        case "TimestampAsPrefixKeyStateEncoderSpec":
            return TimestampKeys(key_type, family, at_end=False)
        case "TimestampAsPostfixKeyStateEncoderSpec":
            return TimestampKeys(key_type, family, at_end=True)
        case other:
            raise UnsupportedVersionError(f"keys are encoded by {other!r}, which this release does not know")


class PlainKeys:
    """A key is one row."""

    def __init__(self, key_type: t.StructType, family: bytes, rows: RowsOf = RowCodec) -> None:
        self._rows = rows(key_type)
        self._start = family + VERSION

    def only(self, fields: Collection[int]) -> PlainKeys:
        """The same codec, which decodes only the fields at these places, if rows are UnsafeRows."""
        narrow = copy(self)
        if isinstance(self._rows, RowCodec):
            narrow._rows = self._rows.only(fields)
        return narrow

    def decode(self, data: pa.Buffer, spans: pa.Buffer) -> pa.StructArray:
        return self._rows.decode(data, spans, self._start)

    def encode(self, keys: pa.StructArray) -> BinaryRows:
        return joined(self._start, self._rows.encode(keys))

    def prefix(self, columns: pa.StructArray) -> BinaryRows:
        if columns.type.num_fields != self._rows.arrow_type.num_fields:
            raise ValueError("keys of this layout begin alike only if all of their columns are alike")
        return self.encode(columns)

    def beginning(self, key: pa.StructArray, count: int) -> bytes:
        """The first bytes of every stored key whose first columns, so many, are those of this one.

        Some other keys may begin with them, too: of a column without a fixed width, they have no more than the size.
        """
        (stored,) = self.encode(key).to_pylist()
        if not isinstance(self._rows, RowCodec):
            return self._start
        null_bits = (self._rows.arrow_type.num_fields + 63) // 64
        return bytes(stored[: len(self._start) + _WORD * (null_bits + count)])


class PrefixKeys:
    """Some columns of a key are a row of their own, in front of that of the other columns.

    Args:
        ordinals: the places of these columns in the key.
        rows, prefix_rows: of the other columns, and of these.
    """

    def __init__(
        self,
        key_type: t.StructType,
        family: bytes,
        ordinals: Sequence[int],
        rows: RowsOf = RowCodec,
        prefix_rows: RowsOf = RowCodec,
    ) -> None:
        rest = [i for i in range(len(key_type.fields)) if i not in ordinals]
        self._family = family
        self._order = [*ordinals, *rest]
        self._count = len(ordinals)
        self._fields = list(RowCodec(key_type).arrow_type)
        self._in_pairs = prefix_rows is not RowCodec  # of a marker and a number each: OrderedKeys
        self._first = prefix_rows(self._first_type([key_type.fields[i] for i in ordinals]))
        self._rest = rows(t.StructType(tuple(key_type.fields[i] for i in rest))) if rest else None

    def decode(self, data: pa.Buffer, spans: pa.Buffer) -> pa.StructArray:
        first, rest = rocksdb_rows.split(data, rocksdb_rows.strip(data, spans, self._family))
        columns = self._from_first(self._first.decode(data, first, VERSION).flatten())
        if self._rest is not None:
            columns += self._rest.decode(data, rest, VERSION).flatten()
        by_place = dict(zip(self._order, columns, strict=True))
        return pa.StructArray.from_arrays([by_place[i] for i in range(len(by_place))], fields=self._fields)

    def encode(self, keys: pa.StructArray) -> BinaryRows:
        columns = [keys.field(i) for i in self._order]
        first = self._encode_first(columns[: self._count])
        if self._rest is None:
            return joined(self._family, *first)
        rest = pa.StructArray.from_arrays(columns[self._count :], fields=list(self._rest.arrow_type))
        return joined(self._family, *first, VERSION, self._rest.encode(rest))

    def prefix(self, columns: pa.StructArray) -> BinaryRows:
        if columns.type.num_fields != self._count:
            raise ValueError(f"keys of this layout begin alike by {self._count} columns")
        return joined(self._family, *self._encode_first([columns.field(i) for i in range(columns.type.num_fields)]))

    def _encode_first(self, columns: list[pa.Array]) -> tuple[BinaryRows, bytes, BinaryRows]:
        fields = list(self._first.arrow_type)
        rows = self._first.encode(pa.StructArray.from_arrays(self._to_first(columns), fields=fields))
        sizes = pc.add(pc.binary_length(rows), len(VERSION)).cast(pa.int32())
        return _fixed(sizes.buffers()[1], len(sizes), 4), VERSION, rows

    def _first_type(self, fields: Sequence[t.StructField]) -> t.StructType:
        return t.StructType(tuple(fields))

    def _from_first(self, columns: list[pa.Array]) -> list[pa.Array]:
        return columns

    def _to_first(self, columns: list[pa.Array]) -> list[pa.Array]:
        return columns


class OrderedKeys(PrefixKeys):
    """The first row has numbers in an encoding whose bytes have the order of the numbers."""

    def _first_type(self, fields: Sequence[t.StructField]) -> t.StructType:
        self._numbers = [(RowCodec(t.StructType((field,))).arrow_type[0].type, *_ordered(field)) for field in fields]
        names = [f"{part}{i}" for i in range(len(fields)) for part in _PAIR] if self._in_pairs else map(_name, fields)
        return t.StructType(tuple(t.StructField(name, t.BinaryType()) for name in names))

    def _from_first(self, columns: list[pa.Array]) -> list[pa.Array]:
        if self._in_pairs:
            columns = [
                _paired(marker, number, width)
                for marker, number, (_, width, _) in zip(columns[::2], columns[1::2], self._numbers, strict=True)
            ]
        numbers = []
        for column, (arrow, width, floating) in zip(columns, self._numbers, strict=True):
            count, (_, offsets, data) = len(column), column.buffers()
            nulls, validity, values = rocksdb_rows.read_ordered(offsets, data, column.offset, count, width, floating)
            numbers.append(pa.Array.from_buffers(arrow, count, [validity, values], nulls))
        return numbers

    def _to_first(self, columns: list[pa.Array]) -> list[pa.Array]:
        binaries = []
        for column, (arrow, width, floating) in zip(columns, self._numbers, strict=True):
            validity, values = column.cast(arrow).buffers()
            count = len(column)
            data = rocksdb_rows.write_ordered(values, validity, column.offset, count, width, floating)
            binaries.append(_fixed(data, count, width + 1))
        return [part for each in binaries for part in _pair(each)] if self._in_pairs else binaries


class TimestampKeys:
    """The last column of a key is a timestamp, which lies beside the row of the others."""

    def __init__(self, key_type: t.StructType, family: bytes, at_end: bool) -> None:
        self._rows = RowCodec(t.StructType(key_type.fields[:-1]))
        self._fields = list(RowCodec(key_type).arrow_type)
        self._family = family
        self._at_end = at_end

    def decode(self, data: pa.Buffer, spans: pa.Buffer) -> pa.StructArray:
        spans = rocksdb_rows.strip(data, spans, self._family)
        values, rest = rocksdb_rows.read_timestamps(data, spans, self._at_end)
        columns = self._rows.decode(data, rest, VERSION).flatten()
        timestamps = pa.Array.from_buffers(self._fields[-1].type, values.size // 8, [None, values], 0)
        return pa.StructArray.from_arrays([*columns, timestamps], fields=self._fields)

    def encode(self, keys: pa.StructArray) -> BinaryRows:
        timestamps = keys.field(keys.type.num_fields - 1)
        count = len(keys)
        data = rocksdb_rows.write_timestamps(timestamps.buffers()[1], timestamps.offset, count)
        row, timestamp = self._row(keys), _fixed(data, count, 8)
        if self._at_end:
            return joined(self._family, VERSION, row, timestamp)
        return joined(self._family, timestamp, VERSION, row)

    def prefix(self, columns: pa.StructArray) -> BinaryRows:
        if not self._at_end or columns.type.num_fields not in (len(self._fields) - 1, len(self._fields)):
            raise ValueError("only keys with the timestamp at their end begin with their columns")
        if columns.type.num_fields == len(self._fields):
            return self.encode(columns)
        return joined(self._family, VERSION, self._row(columns))

    def _row(self, keys: pa.StructArray) -> BinaryRows:
        columns = [keys.field(i) for i in range(len(self._fields) - 1)]
        return self._rows.encode(pa.StructArray.from_arrays(columns, fields=self._fields[:-1]))


def joined(*parts: bytes | BinaryRows) -> BinaryRows:
    """The parts of each row one after the other; bytes are the same in all rows."""
    large = any(not isinstance(part, bytes) and pa.types.is_large_binary(part.type) for part in parts)
    total = sum(len(part) if isinstance(part, bytes) else 0 for part in parts)
    arrays = [part for part in parts if not isinstance(part, bytes)]
    size = sum(array.nbytes for array in arrays) + total * max((len(array) for array in arrays), default=0)
    arrow = pa.large_binary() if large or size > 0x7FFFFFFF else pa.binary()
    same = [pa.scalar(part, arrow) if isinstance(part, bytes) else part.cast(arrow) for part in parts]
    return pc.binary_join_element_wise(*same, pa.scalar(b"", arrow))


def _fixed(data: pa.Buffer, count: int, width: int) -> BinaryRows:
    return pa.Array.from_buffers(pa.binary(width), count, [None, data], 0).cast(pa.binary())


def _paired(marker: BinaryRows, number: BinaryRows, width: int) -> BinaryRows:
    return pc.binary_join_element_wise(marker, pc.fill_null(number, bytes(width)), b"")


def _pair(binaries: BinaryRows) -> tuple[BinaryRows, BinaryRows]:
    marker, number = pc.binary_slice(binaries, 0, 1), pc.binary_slice(binaries, 1, 9)  # pyarrow 26 needs the stop
    return marker, pc.if_else(pc.equal(marker, NULL_MARKER), None, number)


def _name(field: t.StructField) -> str:
    return field.name


def _ordered(field: t.StructField) -> tuple[int, bool]:
    try:
        return _ORDERED[type(field.type)]
    except KeyError:
        raise UnsupportedTypeError(
            f"keys are ordered by {field.name!r}, whose type {field.type} has no order"
        ) from None
