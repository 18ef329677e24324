"""Reads the rows of a store after a batch, or its changes over a range of batches, into Arrow.

Columns are those of Spark's `statestore` source: key struct, value struct, partition_id int32; with changes, batch_id
int64 and change_type come first: "update", "delete", and in RocksDB "append" where values are merged, and
"delete_range" where a range of keys is deleted, whose key is the first one and whose value has the bytes of the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from hdfsstore.checkpoint.operator_state import OperatorState
from hdfsstore.checkpoint.row_converter import (
    APPEND,
    DELETE,
    DELETE_RANGE,
    UPDATE,
    Convert,
    Converter,
    PartitionIds,
    RowConverter,
)
from hdfsstore.checkpoint.row_shape import RowShaper
from hdfsstore.checkpoint.state_request import StateRequest
from hdfsstore.checkpoint.state_variables import VariableConverter
from hdfsstore.checkpoint.stored_rows import Readers, has_join_families, rows_of_request, rows_of_store
from hdfsstore.codecs.records import RecordChunk
from hdfsstore.errors import BatchNotAvailableError, StateStoreError, remedied
from hdfsstore.fs.ahead import reading
from hdfsstore.state.parallel import run_all, stream_all
from hdfsstore.state.protocols import KeyRange

RANGE_DELETION = 15
# Those of records, by their kinds.
_NAMES_OF_KINDS = [DELETE, UPDATE, APPEND, *[None] * (RANGE_DELETION - 3), DELETE_RANGE]
_RESTORE = "Restore the file, or read a batch that does not need it"


def read_table(rows: RowsToRead | ChangesToRead, threads: int) -> pa.Table:
    """The rows, or every record of some deltas, as a table: partition by partition, in their order."""
    loaded = run_all([partial(rows.load, partition_id) for partition_id in rows.partition_ids], threads)
    return pa.Table.from_batches(chain.from_iterable(loaded), rows.schema)


def read_changes_of_keys(changes: ChangesToRead, threads: int) -> pa.Table:
    """The same of changes of whole rows, each of one key. BatchNotAvailableError: there is one of a range of keys."""
    table = read_table(changes, threads)
    if pc.any(pc.equal(table["change_type"], DELETE_RANGE)).as_py():
        raise _range_deleted()
    return table


def open_state(rows: RowsToRead, threads: int) -> pa.RecordBatchReader:
    """The rows as a stream of record batches, in bounded memory. Batches of several partitions alternate."""
    streams = [partial(rows.stream, partition_id) for partition_id in rows.partition_ids]
    return pa.RecordBatchReader.from_batches(rows.schema, stream_all(streams, threads))


@dataclass(frozen=True, slots=True)
class RowsToRead:
    """The rows of a store after a batch, partition by partition.

    Attributes:
        schema: of the rows.
        partition_ids: the partitions that may have such rows.
    """

    _version: int
    _converter: Converter
    _readers: Readers
    _keys: KeyRange
    _shaper: RowShaper

    @property
    def schema(self) -> pa.Schema:
        return self._shaper.schema

    @property
    def partition_ids(self) -> list[int]:
        return list(self._readers)

    def load(self, partition_id: int) -> list[pa.RecordBatch]:
        """The rows of a partition."""
        with reading(), remedied(_RESTORE):
            rows = self._readers[partition_id].load(self._version, self._convert(partition_id), self._keys)
            return [*self._finish(rows)]

    def stream(self, partition_id: int) -> Iterator[pa.RecordBatch]:
        """The same in bounded memory."""
        with reading(), remedied(_RESTORE):
            rows = self._readers[partition_id].stream(self._version, self._convert(partition_id), self._keys)
            yield from self._finish(rows)

    def _convert(self, partition_id: int) -> Convert:
        convert = self._converter.of_partition(partition_id)
        return convert if self._converter.joins_rows else lambda chunk: self._shaper(convert(chunk))

    def _finish(self, batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        finished = self._converter.finish(batches)
        return map(self._shaper, finished) if self._converter.joins_rows else finished


def rows_to_read(state: OperatorState, request: StateRequest) -> RowsToRead:
    """Finds what has to be read for a request. Raises what Checkpoint.read_state does, but for damage."""
    converter, readers, keys = rows_of_request(state, request)
    shaper = RowShaper(converter.schema, request.shape)
    if request.key is None and (key := shaper.key()) is not None:
        of_key = replace(request, near_key=key) if request.join_side else replace(request, key=key)
        converter, readers, keys = rows_of_request(state, of_key)
    only = shaper.partition_id()
    readers = {i: reader for i, reader in readers.items() if only in (None, i)}
    if isinstance(converter, RowConverter):
        converter = converter.only(shaper.needed())
    return RowsToRead(state.version, converter, readers, keys, shaper)


@dataclass(frozen=True, slots=True)
class ChangesToRead:
    """The changes of a store over some versions, partition by partition.

    Attributes:
        partition_ids: the partitions that may have such changes.
    """

    _versions: range
    _converter: RowConverter | VariableConverter
    _readers: Readers
    _shaper: RowShaper

    @property
    def schema(self) -> pa.Schema:
        """Of the changes."""
        return self._shaper.schema

    @property
    def partition_ids(self) -> list[int]:
        return list(self._readers)

    def load(self, partition_id: int) -> list[pa.RecordBatch]:
        """The changes of a partition, in their order."""
        ids = PartitionIds(partition_id)
        schema = _changes_schema(self._converter.schema)

        def convert(version: int, chunk: RecordChunk) -> pa.RecordBatch:
            types, columns = self._changes(chunk)
            batch_ids = pa.repeat(pa.scalar(version - 1, pa.int64()), len(types))
            batch = pa.RecordBatch.from_arrays([batch_ids, types, *columns, ids.array(len(types))], schema=schema)
            return self._shaper(batch)

        with reading(), remedied(_RESTORE):
            return self._readers[partition_id].changes(self._versions, convert)

    def _changes(self, chunk: RecordChunk) -> tuple[pa.StringArray, list[pa.Array]]:
        """The types and columns of a delta's records.

        Raises:
            BatchNotAvailableError: a range of keys was deleted whose end does not look like a value. Spark shows
                whatever it finds there.
        """
        types = _change_types(chunk)
        ranges = pc.equal(types, DELETE_RANGE)
        try:
            return self._converter.changes(chunk, types)
        except StateStoreError as error:
            if not pc.any(ranges).as_py():
                raise
            others = pc.indices_nonzero(pc.invert(ranges))
            self._converter.changes(chunk.take(others.cast(pa.int64())), types.take(others))
            raise _range_deleted(chunk.path) from error


def _range_deleted(path: str | None = None) -> BatchNotAvailableError:
    return BatchNotAvailableError(
        "a range of keys was deleted, which cannot be told as changes of single keys",
        path,
        remedy="Read the state of the batch and of the one before",
    )


def changes_to_read(state: OperatorState, request: StateRequest, versions: range) -> ChangesToRead:
    """Finds what has to be read for the changes. Raises what Checkpoint.read_changes does, but for damage."""
    store = state.operator.store(request.store_name)
    if has_join_families(store):
        raise StateStoreError(
            f"nothing tells the changes of the rows of operator {state.operator.operator_id}, a stream-stream join",
            store.schema_path,
            remedy="Give diff or history the side that is meant: they compare the states, batch by batch",
        )
    converter, readers = rows_of_store(state, replace(request, flatten_collections=True))
    shaper = RowShaper(_changes_schema(converter.schema), request.shape)
    only = shaper.partition_id()
    readers = {i: reader for i, reader in readers.items() if only in (None, i)}
    if isinstance(converter, RowConverter):
        converter = converter.only(shaper.needed())
    return ChangesToRead(versions, converter, readers, shaper)


def _changes_schema(rows: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field("batch_id", pa.int64()), pa.field("change_type", pa.string()), *rows])


def _change_types(chunk: RecordChunk) -> pa.StringArray:
    """The change_type of each record of a delta, as Spark names it; without types, a record without value deletes."""
    if chunk.kinds is None:
        spans = pa.Array.from_buffers(pa.int64(), len(chunk), [None, chunk.values])
        return pa.array([UPDATE, DELETE]).take(pc.less(spans, 0).cast(pa.int8()))
    kinds = pa.Array.from_buffers(pa.uint8(), len(chunk), [None, chunk.kinds])
    return pa.array(_NAMES_OF_KINDS).take(kinds)
