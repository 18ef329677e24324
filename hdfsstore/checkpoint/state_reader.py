"""What a read of state needs, gathered from a checkpoint: files, their format, and the types of keys and values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyarrow.fs import FileSystem, FileType

from hdfsstore.checkpoint.conf import compression_codec, row_checksum
from hdfsstore.checkpoint.join_state import JoinSideConverter, side_stores
from hdfsstore.checkpoint.operators import Operator, Store
from hdfsstore.checkpoint.reading import (
    Converter,
    RowConverter,
    StorePartition,
    describe_rows,
    open_reader,
    read_changes,
    read_table,
)
from hdfsstore.checkpoint.spark_quirks import kept_value_type
from hdfsstore.codecs.arrow_types import from_arrow_schema
from hdfsstore.codecs.records import RecordChunk, RecordFormat
from hdfsstore.errors import CheckpointNotFoundError, CorruptFileError, SchemaMismatchError, UnsupportedTypeError
from hdfsstore.fs import file_types
from hdfsstore.state.hdfs.partition_reader import HdfsPartitionReader
from hdfsstore.state.protocols import PartitionReader


class StateReader:
    """Reads one store of an operator, or one side of a join, at a version.

    Args:
        fs: the checkpoint's filesystem.
        operator: the operator.
        store_name: the store; not looked at with a join side.
        version: the version that the batch wrote.
        unique_ids: version -> partition -> the id of each of the operator's stores, where the versions that are read
            have ids.
        join_side: "left", "right" or None.
        partitions: those that are wanted; None = all.
        conf: what the offset log pins for the batch that wrote the version.
        max_record_bytes: a key or value that declares more than this is refused.
        schemas: of keys and of values, where they are not to be the store's own.

    Raises:
        CheckpointNotFoundError: there is no such store or partition.
        SchemaMismatchError: there is no schema; the message says what the rows look like.
        StateStoreError: the operator is no stream-stream join, or there is no such side.
    """

    def __init__(
        self,
        fs: FileSystem,
        operator: Operator,
        store_name: str,
        *,
        version: int,
        unique_ids: Mapping[int, Sequence[Sequence[str]]],
        join_side: str | None,
        partitions: Sequence[int] | None,
        conf: Mapping[str, str],
        max_record_bytes: int,
        schemas: tuple[pa.Schema | None, pa.Schema | None],
    ) -> None:
        self._fs = fs
        self._operator = operator
        self._version = version
        self._unique_ids = unique_ids
        self._conf = conf
        self._format = RecordFormat(compression_codec(conf), row_checksum(conf), max_record_bytes)
        self._converter: Converter
        if join_side is None:
            store = operator.store(store_name)
            self._converter = self._rows = self._row_converter(store, *schemas)
        else:
            count_store, store = (operator.store(name) for name in side_stores(join_side, operator))
            self._rows = self._row_converter(store, None, schemas[1])
            counts = self._row_converter(count_store, schemas[0], None)
            readers = {i: self._reader(count_store, i) for i in count_store.partition_ids}
            self._converter = JoinSideConverter(counts, self._rows, readers)
        self._partitions = self._choose(store, partitions)

    def read(self, threads: int) -> pa.Table:
        """The rows as a table."""
        return read_table(self._partitions, self._converter, self._version, threads)

    def stream(self, threads: int) -> pa.RecordBatchReader:
        """The rows as a stream of record batches."""
        return open_reader(self._partitions, self._converter, self._version, threads)

    def changes(self, versions: range, threads: int) -> pa.Table:
        """The records of the deltas of some versions."""
        return read_changes(self._partitions, self._rows, versions, threads)

    def _choose(self, store: Store, wanted: Sequence[int] | None) -> list[StorePartition]:
        found, declared = set(store.partition_ids), range(store.num_partitions)
        expected = store.needed_partitions(self._rows.key_type)
        needed = expected if wanted is None else [i for i in sorted(set(wanted)) if i in expected or i not in declared]
        partition_id = next((i for i in needed if i not in found), None)
        if partition_id is not None:
            raise CheckpointNotFoundError(
                f"operator {self._operator.operator_id} has no partition {partition_id}",
                store.partition_path(partition_id),
                remedy=f"Its partitions are {sorted(found)}; {store.num_partitions} are declared",
            )
        self._check_folders(store)
        ids = sorted(found if wanted is None else found & set(wanted))
        return [StorePartition(i, self._reader(store, i)) for i in ids]

    def _check_folders(self, store: Store) -> None:
        """A store that has a folder in no partition does not exist, whatever the metadata says."""
        folders = [store.partition_path(partition_id) for partition_id in store.partition_ids]
        if folders and FileType.Directory not in file_types(self._fs, folders):
            raise CheckpointNotFoundError(
                f"no partition has a folder of the store {store.name!r}, which the operator metadata names",
                folders[0],
                remedy="The checkpoint was not copied whole, or its metadata is damaged",
            )

    def _row_converter(
        self, store: Store, key_schema: pa.Schema | None, value_schema: pa.Schema | None
    ) -> RowConverter:
        key_type = store.key_type if key_schema is None else from_arrow_schema(key_schema)
        value_type = store.value_type if value_schema is None else from_arrow_schema(value_schema)
        if key_type is None or value_type is None:
            raise self._no_schema(store, key_type is None, value_type is None)
        if value_schema is None:
            value_type = kept_value_type(self._operator, store, value_type, self._conf, lambda: self._first(store))
        try:
            return RowConverter(key_type, value_type)
        except UnsupportedTypeError as error:
            raise UnsupportedTypeError(error.message, store.schema_path, remedy=error.remedy) from None

    def _reader(self, store: Store, partition_id: int) -> PartitionReader:
        position = [other.name for other in self._operator.stores].index(store.name)
        ids = {}
        for version, partitions in self._unique_ids.items():
            try:
                unique_id = partitions[partition_id][position]
            except IndexError:
                raise CorruptFileError(
                    f"the commit log of batch {version - 1} has no unique id for this store",
                    store.partition_path(partition_id),
                    remedy="The commit log, or the operator's metadata, is of another query",
                ) from None
            if unique_id:  # a store that was written without one, beside others that were not
                ids[version] = unique_id
        return HdfsPartitionReader(self._fs, store.partition_path(partition_id), self._format, ids)

    def _first(self, store: Store) -> RecordChunk | None:
        """Some records of the store."""
        for partition_id in store.partition_ids:
            for chunk in self._reader(store, partition_id).stream(self._version, RecordChunk.copy):
                return chunk
        return None

    def _no_schema(self, store: Store, no_key: bool, no_value: bool) -> SchemaMismatchError:
        first = self._first(store)
        looks = "it has no rows at this batch"
        if first is not None:
            looks = f"keys: {describe_rows(first.keys)}; values: {describe_rows(first.values)}"
        missing = [f"{part}_schema=pyarrow.schema([...])" for part, no in (("key", no_key), ("value", no_value)) if no]
        return SchemaMismatchError(
            f"the store has no schema file; {looks}", store.schema_path, remedy=f"Give {' and '.join(missing)}"
        )
