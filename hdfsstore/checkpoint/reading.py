"""Reads the rows of a store after a batch, or its changes over a range of batches, into Arrow.

Columns are those of Spark's `statestore` source: key struct, value struct, partition_id int32; with changes, batch_id
int64 and change_type ("update", "delete" or, where values are merged in RocksDB, "append") come first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.fs import FileType

from hdfsstore.checkpoint.join_state import JoinSideConverter, side_stores
from hdfsstore.checkpoint.operator_state import OperatorState
from hdfsstore.checkpoint.operators import Store
from hdfsstore.checkpoint.row_converter import Constant, Converter, Key, OneKey, RowConverter, describe_rows
from hdfsstore.checkpoint.spark_quirks import stored_value_type
from hdfsstore.codecs.arrow_types import from_arrow_schema
from hdfsstore.codecs.records import RecordChunk
from hdfsstore.codecs.types import StructType
from hdfsstore.errors import BatchNotAvailableError, CheckpointNotFoundError, SchemaMismatchError, UnsupportedTypeError
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.reading import file_types
from hdfsstore.state.parallel import run_all, stream_all
from hdfsstore.state.protocols import ALL_KEYS, KeyRange, PartitionReader

UPDATE, DELETE, APPEND = "update", "delete", "append"
RANGE_DELETION = 15


@dataclass(frozen=True, slots=True)
class StateRequest:
    """The rows that a caller asks a checkpoint for.

    Attributes:
        operator_id, store_name: the store; a request with a join side ignores the name.
        batch_id: a committed batch; None = the newest.
        join_side: "left" or "right" of a stream-stream join, or None.
        partitions: the partitions to read; None = all.
        key_schema, value_schema: replace those of the store.
        key: the only key whose row is wanted; None = all.
    """

    operator_id: int
    store_name: str
    batch_id: int | None
    join_side: str | None
    partitions: Sequence[int] | None
    key_schema: pa.Schema | None
    value_schema: pa.Schema | None
    key: Key | None = None


def read_state(state: OperatorState, request: StateRequest, threads: int) -> pa.Table:
    """The rows as a table."""
    converter, readers, keys = _converter_and_readers(state, request)

    def load(partition_id: int) -> list[pa.RecordBatch]:
        return readers[partition_id].load(state.version, converter.of_partition(partition_id), keys)

    loaded = run_all([partial(load, partition_id) for partition_id in readers], threads)
    return pa.Table.from_batches(chain.from_iterable(loaded), converter.schema)


def open_state(state: OperatorState, request: StateRequest, threads: int) -> pa.RecordBatchReader:
    """The rows as a stream of record batches, in bounded memory. Batches of several partitions alternate."""
    converter, readers, keys = _converter_and_readers(state, request)

    def stream(partition_id: int) -> Iterator[pa.RecordBatch]:
        return readers[partition_id].stream(state.version, converter.of_partition(partition_id), keys)

    streams = [partial(stream, partition_id) for partition_id in readers]
    return pa.RecordBatchReader.from_batches(converter.schema, stream_all(streams, threads))


def read_changes(state: OperatorState, request: StateRequest, versions: range, threads: int) -> pa.Table:
    """Every record of the deltas of `versions`, partition by partition, in their order."""
    rows, readers = _of_store(state, request)
    schema = pa.schema([pa.field("batch_id", pa.int64()), pa.field("change_type", pa.string()), *rows.schema])

    def read(partition_id: int) -> list[pa.RecordBatch]:
        ids = Constant(pa.scalar(partition_id, pa.int32()))

        def convert(version: int, chunk: RecordChunk) -> pa.RecordBatch:
            keys, values = rows.decode(chunk)
            batch_ids = pa.repeat(pa.scalar(version - 1, pa.int64()), len(chunk))
            columns = [batch_ids, _change_types(chunk, values), keys, values, ids.array(len(chunk))]
            return pa.RecordBatch.from_arrays(columns, schema=schema)

        return readers[partition_id].changes(versions, convert)

    changed = run_all([partial(read, partition_id) for partition_id in readers], threads)
    return pa.Table.from_batches(chain.from_iterable(changed), schema)


def _change_types(chunk: RecordChunk, values: pa.StructArray) -> pa.StringArray:
    """The change_type of each record of a delta, as Spark names it; without types, by its decoded value.

    Raises:
        BatchNotAvailableError: a range of keys was deleted, of which nobody knows the keys.
    """
    if chunk.kinds is None:
        return pa.array([UPDATE, DELETE]).take(values.is_null().cast(pa.int8()))
    kinds = pa.Array.from_buffers(pa.uint8(), len(chunk), [None, chunk.kinds])
    if pc.any(pc.equal(kinds, RANGE_DELETION)).as_py():
        raise BatchNotAvailableError(
            "a range of keys was deleted, which cannot be told as changes of single keys",
            chunk.path,
            remedy="Read the state of the batch and of the one before",
        )
    return pa.array([DELETE, UPDATE, APPEND]).take(kinds)


Readers: TypeAlias = dict[int, PartitionReader]


def _converter_and_readers(state: OperatorState, request: StateRequest) -> tuple[Converter, Readers, KeyRange]:
    if request.join_side is not None:
        if request.key is not None:
            raise ValueError("give a key or a join side: the keys of a side's store are not those of its rows")
        return *_of_join_side(state, request, request.join_side), ALL_KEYS
    rows, readers = _of_store(state, request)
    if request.key is None:
        return rows, readers, ALL_KEYS
    stored = rows.stored_key(request.key)
    return OneKey(rows, stored), readers, KeyRange(stored, stored + b"\0")


def _of_store(state: OperatorState, request: StateRequest) -> tuple[RowConverter, Readers]:
    store = state.operator.store(request.store_name)
    rows = _row_converter(state, store, request.key_schema, request.value_schema)
    return rows, _readers(state, store, rows.key_type, request.partitions)


def _of_join_side(state: OperatorState, request: StateRequest, side: str) -> tuple[JoinSideConverter, Readers]:
    count_store, row_store = (state.operator.store(name) for name in side_stores(side, state.operator))
    rows = _row_converter(state, row_store, None, request.value_schema)
    counts = _row_converter(state, count_store, request.key_schema, None)
    count_readers = {i: state.reader(count_store, i) for i in count_store.partition_ids}
    converter = JoinSideConverter(counts, rows, count_readers, state.version)
    return converter, _readers(state, row_store, rows.key_type, request.partitions)


def _readers(state: OperatorState, store: Store, key_type: StructType, wanted: Sequence[int] | None) -> Readers:
    """Reads the wanted partitions. Raises CheckpointNotFoundError where one has no folder."""
    found, declared = set(store.partition_ids), range(store.num_partitions)
    expected = store.needed_partitions(key_type)
    needed = expected if wanted is None else [i for i in sorted(set(wanted)) if i in expected or i not in declared]
    partition_id = next((i for i in needed if i not in found), None)
    if partition_id is not None:
        raise CheckpointNotFoundError(
            f"operator {state.operator.operator_id} has no partition {partition_id}",
            store.partition_path(partition_id),
            remedy=f"Its partitions are {sorted(found)}; {store.num_partitions} are declared",
        )
    _check_folders(state.fs, store)
    return {i: state.reader(store, i) for i in sorted(found if wanted is None else found & set(wanted))}


def _check_folders(fs: FileManager, store: Store) -> None:
    """Refuses a store that has a folder in no partition: it does not exist, whatever the metadata says."""
    folders = [store.partition_path(partition_id) for partition_id in store.partition_ids]
    if folders and FileType.Directory not in file_types(fs, folders):
        raise CheckpointNotFoundError(
            f"no partition has a folder of the store {store.name!r}, which the operator metadata names",
            folders[0],
            remedy="The checkpoint was not copied whole, or its metadata is damaged",
        )


def _row_converter(
    state: OperatorState, store: Store, key_schema: pa.Schema | None, value_schema: pa.Schema | None
) -> RowConverter:
    state.check_families(store)
    key_type = store.key_type if key_schema is None else from_arrow_schema(key_schema)
    value_type = store.value_type if value_schema is None else from_arrow_schema(value_schema)
    if key_type is None or value_type is None:
        raise _no_schema(state, store, key_type is None, value_type is None)
    if value_schema is None:
        value_type = stored_value_type(state.operator, store, value_type, state.conf, lambda: state.first_chunk(store))
    try:
        return RowConverter(key_type, value_type, state.codecs(store, key_type, value_type))
    except UnsupportedTypeError as error:
        raise UnsupportedTypeError(error.message, store.schema_path, remedy=error.remedy) from None


def _no_schema(state: OperatorState, store: Store, no_key: bool, no_value: bool) -> SchemaMismatchError:
    first = state.first_chunk(store)
    looks = "it has no rows at this batch"
    if first is not None:
        looks = f"keys: {describe_rows(first.keys)}; values: {describe_rows(first.values)}"
    missing = [f"{part}_schema=pyarrow.schema([...])" for part, no in (("key", no_key), ("value", no_value)) if no]
    return SchemaMismatchError(
        f"the store has no schema file; {looks}", store.schema_path, remedy=f"Give {' and '.join(missing)}"
    )
