"""Turns the keys and values of one state store provider into those of the other.

              HDFS-backed    RocksDB
    key       row            byte 0 | row, or in two parts with a prefix (codecs/rocksdb_keys.py)
    value     row            byte 0 | row; with row checksums after a checksum and a size (codecs/rocksdb_values.py)

In HDFS-backed files checksums of rows are part of a record, and not of its value. Stores with column families exist in
RocksDB only.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from hdfsstore._cext import rocksdb_rows
from hdfsstore.checkpoint import conf as confs
from hdfsstore.checkpoint.operator_state import OperatorState
from hdfsstore.checkpoint.operators import Store
from hdfsstore.checkpoint.spark_quirks import prefix_encoder
from hdfsstore.codecs.records import RecordChunk
from hdfsstore.codecs.rocksdb_keys import VERSION, key_codec
from hdfsstore.codecs.unsafe_row import RowCodec
from hdfsstore.errors import RepairError, SizeLimitError, StateStoreError
from hdfsstore.state.rows import BinaryRows, spans_of

_MOST_BYTES = (1 << 31) - 1


class RowsOfProvider:
    """Converts the rows of one store. It has no state, so threads may share it.

    Args:
        target: the class of the provider that the rows are for, as in the offset log.

    Raises:
        RepairError: the HDFS-backed provider has no such stores; or the store has no schema file.
    """

    def __init__(self, state: OperatorState, store: Store, target: str) -> None:
        self._same = target == state.provider
        self._to_rocksdb = target == confs.ROCKSDB_PROVIDER
        self._row_checksums = confs.row_checksum(state.conf)
        if self._same:
            return
        if store.has_families:
            raise RepairError(
                f"operator {state.operator.operator_id} ({state.operator.name}) keeps column families, which only "
                "RocksDB has",
                store.schema_path,
                remedy="A stream-stream join of state format 3 or 4 and transformWithState stay with RocksDB",
            )
        if store.key_type is None:
            raise RepairError(
                "the store has no schema file, so nothing tells whether its keys have a prefix",
                store.schema_path,
                remedy="Spark 3.0 and later write it when the query is started once",
            )
        self._rows = RowCodec(store.key_type)
        encoder = prefix_encoder(store, store.key_type)
        # None: a key is one row in both providers.
        self._prefixed = key_codec(store.key_type, encoder, b"") if encoder else None

    def convert(self, chunk: RecordChunk) -> RecordChunk:
        """The same rows for the target, in the same order. RocksDB sorts keys by their bytes; HDFS-backed files do not.

        Raises:
            CorruptFileError, SchemaMismatchError, UnsupportedVersionError: a row is none of the store.
            SizeLimitError: the rows take 2 GiB or more.
        """
        if self._same:
            return chunk
        try:
            return self._stored(chunk) if self._to_rocksdb else self._plain(chunk)
        except StateStoreError as error:
            raise chunk.locate(error) from None

    def _stored(self, chunk: RecordChunk) -> RecordChunk:
        data = pa.py_buffer(chunk.data)
        key_data, keys, version = data, chunk.keys, VERSION
        if self._prefixed is not None:
            encoded = self._prefixed.encode(self._rows.decode(data, chunk.keys))
            (key_data, keys), version = spans_of(encoded, "keys"), b""
        joined, keys, values = rocksdb_rows.stored(key_data, keys, version, data, chunk.values, self._row_checksums)
        return replace(chunk, data=memoryview(joined).cast("B"), keys=keys, values=values, last=True)

    def _plain(self, chunk: RecordChunk) -> RecordChunk:
        data = pa.py_buffer(chunk.data)
        values = chunk.values
        if self._row_checksums:
            values = rocksdb_rows.only(*rocksdb_rows.checked(data, chunk.keys, values, 0))
        values = rocksdb_rows.strip(data, values, VERSION)
        if self._prefixed is None:
            return replace(chunk, keys=rocksdb_rows.strip(data, chunk.keys, VERSION), values=values)
        rows = self._rows.encode(self._prefixed.decode(data, chunk.keys))
        key_data, keys = spans_of(rows, "keys")
        return replace(
            chunk,
            data=memoryview(b"".join((key_data, data))),
            keys=keys,
            values=_moved(values, key_data.size),
            last=True,
        )


def plain_chunk(keys: BinaryRows, values: BinaryRows) -> RecordChunk:
    """Rows as those of an HDFS-backed store. Raises SizeLimitError where they take 2 GiB or more."""
    (key_data, key_spans), (value_data, value_spans) = spans_of(keys, "keys"), spans_of(values, "values")
    if key_data.size + value_data.size > _MOST_BYTES:
        raise SizeLimitError(f"{len(keys)} rows take 2 GiB or more", remedy="Give fewer rows at a time")
    data = memoryview(b"".join((key_data, value_data)))
    return RecordChunk(data, key_spans, _moved(value_spans, key_data.size), "", 0, last=True)


def _moved(spans: pa.Buffer, by: int) -> pa.Buffer:
    """The spans of the same bytes behind `by` others."""
    pairs = pa.Array.from_buffers(pa.int64(), spans.size // 8, [None, spans])
    return pc.add(pairs, by).buffers()[1]  # the offset is the lower half, and the bytes are less than 2 GiB
