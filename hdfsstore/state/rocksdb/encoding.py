"""Encodes keys and values for RocksDB and for changelogs (RocksDBStateEncoder.scala), without column families:

    value               byte 0 | row
    key                 byte 0 | row
    key with a prefix   int32 LE length n | n bytes: byte 0 and the row of the prefix's columns | byte 0
                        | row of the other columns

Byte 0 is the encoding's version. Rows are UnsafeRows. Those of a prefix and of the other columns are encoded from the
key's columns.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pyarrow as pa

from hdfsstore.codecs.types import StructType
from hdfsstore.errors import CorruptFileError, StateStoreError, UnsupportedVersionError
from hdfsstore.state.rows import BatchCodec, BinaryRows, prefix_plan

_VERSION = b"\0"
_LENGTH = struct.Struct("<i")


class RowEncoding:
    """Encodes and decodes the keys and values of a store. Threads may share it.

    Args:
        key_type: of the keys' rows; needed only with a prefix.
        num_cols_prefix_key: number of the key's first columns that are its prefix; 0: none.
    """

    def __init__(self, key_type: StructType | None, num_cols_prefix_key: int = 0) -> None:
        self._columns = num_cols_prefix_key
        if num_cols_prefix_key and key_type is not None:
            prefix_plan(key_type, num_cols_prefix_key)
            self._whole = BatchCodec("key", key_type)
            self._parts = (
                BatchCodec("key", StructType(key_type.fields[:num_cols_prefix_key])),
                BatchCodec("key", StructType(key_type.fields[num_cols_prefix_key:])),
            )

    def key(self, row: bytes) -> bytes:
        """The stored bytes of a key's row."""
        return self.keys(pa.array([row], pa.binary()))[0] if self._columns else _VERSION + row

    def keys(self, rows: BinaryRows) -> list[bytes]:
        """The stored bytes of keys' rows. ValueError: one is null."""
        if not self._columns or not len(rows):
            return stored(rows)
        _refuse_nulls(rows)
        columns = self._whole.decode(rows).flatten()
        parts = (columns[: self._columns], columns[self._columns :])
        prefixes, rests = (_encoded(codec, part) for codec, part in zip(self._parts, parts, strict=True))
        return [
            b"".join((_LENGTH.pack(len(prefix) + 1), _VERSION, prefix, _VERSION, rest))
            for prefix, rest in zip(prefixes, rests, strict=True)
        ]

    def rows(self, keys: Sequence[bytes]) -> list[bytes]:
        """The rows of stored keys.

        Raises:
            CorruptFileError, UnsupportedVersionError: a key does not have this encoding.
        """
        if not self._columns or not keys:
            return [row_of(key) for key in keys]
        ends = [_prefix_end(key) for key in keys]
        parts = (
            [row_of(key[_LENGTH.size : end]) for key, end in zip(keys, ends, strict=True)],
            [row_of(key[end:]) for key, end in zip(keys, ends, strict=True)],
        )
        columns = [
            column
            for codec, part in zip(self._parts, parts, strict=True)
            for column in codec.decode(binary_array(part)).flatten()
        ]
        return _encoded(self._whole, columns)

    def prefix(self, row: bytes) -> bytes:
        """The first bytes of every stored key with that prefix."""
        if not self._columns:
            raise StateStoreError(
                "the store has no prefix to scan by",
                remedy="Open the provider with num_cols_prefix_key and the key schema",
            )
        return _LENGTH.pack(len(row) + 1) + _VERSION + row


def value(row: bytes) -> bytes:
    """The stored bytes of a value's row."""
    return _VERSION + row


def stored(rows: BinaryRows) -> list[bytes]:
    """The stored bytes of values, or of keys without a prefix. ValueError: one is null."""
    _refuse_nulls(rows)
    return [_VERSION + row for row in rows.to_pylist()]


def row_of(data: bytes) -> bytes:
    """The row in stored bytes."""
    if not data.startswith(_VERSION):
        if not data:
            raise CorruptFileError("a key or value in RocksDB is empty, and lacks its encoding's version")
        raise UnsupportedVersionError(
            f"a key or value in RocksDB has encoding version {data[0]}, this release reads 0",
            remedy="Column families, and rows encoded with Avro, cannot be read yet",
        )
    return data[1:]


def binary_array(rows: Sequence[bytes | None]) -> BinaryRows:
    """An array of the rows; large if they have 2 GiB together."""
    large = sum(len(row) for row in rows if row is not None) > 0x7FFFFFFF
    return pa.array(rows, pa.large_binary() if large else pa.binary())


def _encoded(codec: BatchCodec, columns: Sequence[pa.Array]) -> list[bytes]:
    rows: list[bytes] = codec.encode(
        pa.RecordBatch.from_arrays(columns, schema=pa.schema(list(codec.arrow_type)))
    ).to_pylist()
    return rows


def _prefix_end(key: bytes) -> int:
    if len(key) >= _LENGTH.size:
        end = _LENGTH.size + int(_LENGTH.unpack_from(key)[0])
        if _LENGTH.size < end < len(key):
            return end
    raise CorruptFileError(
        "a key in RocksDB has no prefix of its declared length",
        remedy="Open the provider with the num_cols_prefix_key that the store was written with",
    )


def _refuse_nulls(rows: BinaryRows) -> None:
    if rows.null_count:
        raise ValueError("keys and values are not null")
