"""Keeps a store's versions in RocksDBs on the local disk, and as changelogs and zips in the checkpoint.

RocksDBStateStoreProvider.scala, with changelog checkpointing. There are no column families, no range scans, no merge.
"""

from __future__ import annotations

from hdfsstore.codecs.records import RecordFormat
from hdfsstore.codecs.types import StructType
from hdfsstore.errors import UnsupportedProviderError
from hdfsstore.fs import resolve
from hdfsstore.state.base.provider import BaseProvider
from hdfsstore.state.conf import StateStoreConf
from hdfsstore.state.maintenance.provider_run import MaintenanceRun
from hdfsstore.state.rocksdb.archive import CHANGELOG_FILES
from hdfsstore.state.rocksdb.archive_upload import Zips
from hdfsstore.state.rocksdb.cached_versions import RocksDbVersions
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
from hdfsstore.state.versions.reader import VersionReader

# What an encoding adds to the size that a record declares: its versions, and for a prefix a length, a row's head more
# and what its rows are padded with.
_ENCODED_BYTES = 64


class RocksDbStateStoreProvider(
    BaseProvider[RocksDbVersion, RocksDbTransaction, RocksDbReadStateStore, RocksDbStateStore]
):
    """hdfsstore.state.protocols.StateStoreProvider on RocksDB.

    Attributes:
        versions: what is at hand.
        encoding: of keys and values.
    """

    def __init__(
        self,
        store_id: StateStoreId,
        conf: StateStoreConf,
        key_type: StructType | None = None,
        value_type: StructType | None = None,
        num_cols_prefix_key: int = 0,
        timeout_offset: int | None = None,
    ) -> None:
        super().__init__(store_id, conf, key_type, value_type, num_cols_prefix_key)
        if timeout_offset is not None:
            raise UnsupportedProviderError(
                "the RocksDB backend keeps no index of values: it has no timeout_offset",
                remedy='Use the backend "hdfs", or leave timeout_offset out',
            )
        rocksdict()
        if conf.row_checksum_enabled:
            raise UnsupportedProviderError(
                "the RocksDB backend writes no row checksums", remedy="Switch row_checksum_enabled off"
            )
        self.encoding = RowEncoding(key_type, num_cols_prefix_key)
        self.versions = versions = RocksDbVersions(conf.max_versions_to_retain_in_memory)
        fs, root = resolve(store_id.checkpoint_root)
        declared = conf.max_record_bytes + _ENCODED_BYTES
        file_format = RecordFormat(conf.compression_codec, max_record_bytes=declared, extensions=CHANGELOG_FILES)
        files = VersionReader(fs, f"{root}/{store_id.relative_folder}", file_format)
        self._work = InstanceDirs(conf.local_dir)
        zips = Zips(files, conf.min_versions_to_retain)
        loader = RocksDbLoader(files, versions, self._work, self._counts)
        retention = SstRetention(
            fs,
            files.folder,
            conf.min_versions_to_retain,
            files.lineage,
            loader.check_snapshot,
            self._done,
        )
        self._start(
            versions,
            loader,
            RocksDbCommitter(zips, conf.checkpoint_format_version, versions, loader, self._counts),
            MaintenanceRun(
                versions,
                RocksDbSnapshots(zips, conf, versions, self._done),
                retention,
                versions.lineage_of,
                self._work.clean,
                self._done,
                conf.maintenance_interval,
            ),
        )

    def after_fork(self) -> None:
        super().after_fork()
        self._work.after_fork()

    @property
    def _nbytes(self) -> int:
        return self.versions.nbytes

    def _store(self, base: RocksDbVersion) -> RocksDbStateStore:
        return RocksDbStateStore(self, base)

    def _read_store(self, base: RocksDbVersion) -> RocksDbReadStateStore:
        return RocksDbReadStateStore(self, base)

    def _let_go(self) -> None:
        self._work.let_go()
