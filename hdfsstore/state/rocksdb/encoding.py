"""Encodes keys and values of a provider's stores for RocksDB and for changelogs, row by row, without column families.

hdfsstore/codecs/rocksdb_keys.py and rocksdb_values.py have the layouts.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pyarrow as pa

from hdfsstore.codecs.rocksdb_keys import VERSION, PrefixKeys
from hdfsstore.codecs.types import StructType
from hdfsstore.errors import CorruptFileError, StateStoreError, UnsupportedVersionError, remedied
from hdfsstore.state.rows import BatchCodec, BinaryRows, prefix_plan, spans_of

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
            self._keys = PrefixKeys(key_type, b"", range(num_cols_prefix_key))

    def key(self, row: bytes) -> bytes:
        """The stored bytes of a key's row."""
        return self.keys(pa.array([row], pa.binary()))[0] if self._columns else VERSION + row

    def keys(self, rows: BinaryRows) -> list[bytes]:
        """The stored bytes of keys' rows. ValueError: one is null."""
        if not self._columns or not len(rows):
            return stored(rows)
        _refuse_nulls(rows)
        keys: list[bytes] = self._keys.encode(self._whole.decode(rows)).to_pylist()
        return keys

    def rows(self, keys: Sequence[bytes]) -> list[bytes]:
        """The rows of stored keys.

        Raises:
            CorruptFileError, UnsupportedVersionError: a key does not have this encoding.
        """
        if not self._columns or not keys:
            return [row_of(key) for key in keys]
        with remedied("Open the provider with the num_cols_prefix_key that the store was written with"):
            decoded = self._keys.decode(*spans_of(binary_array(keys), "keys"))
        rows: list[bytes] = self._whole.encode_structs(decoded).to_pylist()
        return rows

    def prefix(self, row: bytes) -> bytes:
        """The first bytes of every stored key with that prefix."""
        if not self._columns:
            raise StateStoreError(
                "the store has no prefix to scan by",
                remedy="Open the provider with num_cols_prefix_key and the key schema",
            )
        return _LENGTH.pack(len(row) + 1) + VERSION + row


def value(row: bytes) -> bytes:
    """The stored bytes of a value's row."""
    return VERSION + row


def stored(rows: BinaryRows) -> list[bytes]:
    """The stored bytes of values, or of keys without a prefix. ValueError: one is null."""
    _refuse_nulls(rows)
    return [VERSION + row for row in rows.to_pylist()]


def row_of(data: bytes) -> bytes:
    """The row in stored bytes."""
    if not data.startswith(VERSION):
        if not data:
            raise CorruptFileError("a key or value in RocksDB is empty, and lacks its encoding's version")
        raise UnsupportedVersionError(
            f"a key or value in RocksDB has encoding version {data[0]}, this release reads 0",
            remedy="A store of column families, or of rows in Avro, cannot be opened: Checkpoint reads it",
        )
    return data[1:]


def binary_array(rows: Sequence[bytes | None]) -> BinaryRows:
    """An array of the rows; large if they have 2 GiB together."""
    large = sum(len(row) for row in rows if row is not None) > 0x7FFFFFFF
    return pa.array(rows, pa.large_binary() if large else pa.binary())


def _refuse_nulls(rows: BinaryRows) -> None:
    if rows.null_count:
        raise ValueError("keys and values are not null")
