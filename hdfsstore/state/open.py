"""Opens a provider of any backend."""

from __future__ import annotations

from collections.abc import Callable

from hdfsstore.state.conf import StateStoreConf
from hdfsstore.state.hdfs.provider import HdfsStateStoreProvider
from hdfsstore.state.protocols import StateStoreProvider
from hdfsstore.state.rocksdb.provider import RocksDbStateStoreProvider
from hdfsstore.state.rows import Schema, struct_type
from hdfsstore.state.store_id import StateStoreId
from hdfsstore.state.store_schema import StoreSchema

Backend = Callable[[StateStoreId, StateStoreConf, StoreSchema], StateStoreProvider]

BACKENDS: dict[str, Backend] = {"hdfs": HdfsStateStoreProvider, "rocksdb": RocksDbStateStoreProvider}


def open_provider(
    store_id: StateStoreId,
    backend: str = "hdfs",
    conf: StateStoreConf | None = None,
    key_schema: Schema | None = None,
    value_schema: Schema | None = None,
    num_cols_prefix_key: int = 0,
    timeout_offset: int | None = None,
    num_partitions: int | None = None,
) -> StateStoreProvider:
    """Opens one partition of a store. It reads and writes nothing in the checkpoint until a version is opened.

    Args:
        store_id: the store and partition.
        backend: "hdfs": deltas and snapshots, as Spark's HDFS-backed provider. "rocksdb": changelogs and zips, as
            Spark's RocksDB provider; it needs the extra `rocksdb`.
        conf: the settings; None: the defaults.
        key_schema, value_schema: of the rows that keys and values are: a pyarrow.Schema, or Spark's JSON of a struct.
            Only the calls with record batches need them.
        num_cols_prefix_key: number of the key's first columns by which prefix_scan finds rows; 0: none.
        timeout_offset: the offset in a value of the column that holds the timeout, as a long: 8 for the first column,
            16 for the second, ...; of at most 64 columns. None: there is no `expired`.
        num_partitions: of the store, where its keys are partitioned by all of their columns (partition_ids).
            Then put_batch and remove_batch refuse keys of other partitions. None: they are not checked.

    Raises:
        ValueError: there is no such backend, num_cols_prefix_key is not less than the number of the key's columns,
            there is no column at timeout_offset, or store_id is of none of num_partitions.
        SchemaMismatchError: a schema is not one of a struct, num_cols_prefix_key or num_partitions is given without a
            key schema, or the column at timeout_offset holds no longs.
        UnsupportedProviderError: the backend has no such index.
        StateStoreError: checkpoint_root cannot be opened.
    """
    if backend not in BACKENDS:
        raise ValueError(f"there is no backend {backend!r}: it is one of {', '.join(BACKENDS)}")
    if num_partitions is not None and not 0 <= store_id.partition_id < num_partitions:
        raise ValueError(f"there is no partition {store_id.partition_id} among {num_partitions}")
    key_type, value_type = (None if schema is None else struct_type(schema) for schema in (key_schema, value_schema))
    schema = StoreSchema(key_type, value_type, num_cols_prefix_key, timeout_offset, num_partitions)
    return BACKENDS[backend](store_id, conf or StateStoreConf(), schema)
