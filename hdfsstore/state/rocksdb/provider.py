"""Keeps a store's versions in RocksDBs on the local disk, and as changelogs and zips in the checkpoint.

It follows RocksDBStateStoreProvider.scala with changelog checkpointing, without column families, range scans and merge.
"""

from __future__ import annotations

from collections import Counter

from hdfsstore.errors import UnsupportedProviderError
from hdfsstore.state.base.provider import BaseProvider
from hdfsstore.state.conf import StateStoreConf
from hdfsstore.state.maintenance.provider_run import MaintenanceRun
from hdfsstore.state.metrics import MaintenanceMetrics
from hdfsstore.state.rocksdb.archive_upload import Zips
from hdfsstore.state.rocksdb.cached_versions import RocksDbVersions
from hdfsstore.state.rocksdb.changelog import changelog_format
from hdfsstore.state.rocksdb.committer import RocksDbCommitter
from hdfsstore.state.rocksdb.encoding import RowEncoding
from hdfsstore.state.rocksdb.instance import rocksdict
from hdfsstore.state.rocksdb.instance_dir import InstanceDirs
from hdfsstore.state.rocksdb.loader import RocksDbLoader
from hdfsstore.state.rocksdb.snapshots import RocksDbSnapshots
from hdfsstore.state.rocksdb.sst_retention import SstRetention
from hdfsstore.state.rocksdb.store import RocksDbReadStateStore, RocksDbStateStore
from hdfsstore.state.rocksdb.transaction import RocksDbTransaction, RocksDbVersion
from hdfsstore.state.store_id import StateStoreId
from hdfsstore.state.store_schema import StoreSchema
from hdfsstore.state.versions.reader import VersionReader

# Bytes that an encoding adds at most to the size that a record declares: its versions and, for a prefix, a length,
# the head of one more row, and padding.
_ENCODED_BYTES = 64


class RocksDbStateStoreProvider(
    BaseProvider[RocksDbVersion, RocksDbTransaction, RocksDbReadStateStore, RocksDbStateStore]
):
    """hdfsstore.state.protocols.StateStoreProvider on RocksDB.

    Attributes:
        versions: those in local RocksDBs.
        encoding: of keys and values.
    """

    versions: RocksDbVersions

    def __init__(self, store_id: StateStoreId, conf: StateStoreConf, schema: StoreSchema) -> None:
        if schema.timeout_offset is not None:
            raise UnsupportedProviderError(
                "the RocksDB backend keeps no index of values: it has no timeout_offset",
                remedy='Use the backend "hdfs", or leave timeout_offset out',
            )
        rocksdict()
        if conf.row_checksum_enabled:
            raise UnsupportedProviderError(
                "the RocksDB backend writes no row checksums", remedy="Switch row_checksum_enabled off"
            )
        counts, metrics = Counter[str](), MaintenanceMetrics()
        versions = RocksDbVersions(conf.max_versions_to_retain_in_memory)
        fs, root = store_id.open()
        declared = conf.max_record_bytes + _ENCODED_BYTES
        file_format = changelog_format(conf.compression_codec, declared)
        reader = VersionReader(fs, f"{root}/{store_id.relative_folder}", file_format)
        instance_dirs = InstanceDirs(conf.local_dir)
        zips = Zips(reader, conf.min_versions_to_retain)
        loader = RocksDbLoader(reader, versions, instance_dirs, counts)
        committer = RocksDbCommitter(zips, conf.checkpoint_format_version, versions, loader, counts)
        snapshots = RocksDbSnapshots(zips, conf, versions, metrics)
        retention = SstRetention(
            fs, reader.folder, conf.min_versions_to_retain, reader.lineage, loader.check_snapshot, metrics
        )
        maintenance_run = MaintenanceRun(
            versions, snapshots, retention, instance_dirs.clean, metrics, conf.maintenance_interval
        )
        self.encoding = RowEncoding(schema.key_type, schema.num_cols_prefix_key)
        self._instance_dirs = instance_dirs
        super().__init__(
            store_id,
            conf,
            schema,
            versions=versions,
            loader=loader,
            committer=committer,
            maintenance_run=maintenance_run,
            counts=counts,
        )

    def after_fork(self) -> None:
        super().after_fork()
        self._instance_dirs.after_fork()

    def _store(self, base: RocksDbVersion) -> RocksDbStateStore:
        return RocksDbStateStore(self, base)

    def _read_store(self, base: RocksDbVersion) -> RocksDbReadStateStore:
        return RocksDbReadStateStore(self, base)

    def _release_local(self) -> None:
        self._instance_dirs.release()
