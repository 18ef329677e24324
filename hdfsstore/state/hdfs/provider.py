"""Keeps a store's versions as deltas and snapshots in the checkpoint, as Spark's HDFS-backed provider does.

HDFSBackedStateStoreProvider.scala; versions are layers of a map in memory in the place of copies.
"""

from __future__ import annotations

import json
import logging
from functools import partial

from pyarrow.fs import FileSystem

from hdfsstore._cext.versioned_map import Layer
from hdfsstore.codecs.records import RecordFormat
from hdfsstore.codecs.types import StructType
from hdfsstore.fs import read_file, resolve
from hdfsstore.state.base.provider import BaseProvider
from hdfsstore.state.conf import StateStoreConf
from hdfsstore.state.hdfs.cached_versions import HdfsVersion, HdfsVersions
from hdfsstore.state.hdfs.commit_images import CommitImages
from hdfsstore.state.hdfs.committer import HdfsCommitter
from hdfsstore.state.hdfs.layer_reader import StoreReader
from hdfsstore.state.hdfs.loader import HdfsLoader
from hdfsstore.state.hdfs.snapshots import HdfsSnapshots
from hdfsstore.state.hdfs.store import HdfsReadStateStore, HdfsStateStore
from hdfsstore.state.hdfs.version_images import VersionImages
from hdfsstore.state.indexes import indexes_of
from hdfsstore.state.local.image_cache import ImageCache
from hdfsstore.state.maintenance.provider_run import MaintenanceRun
from hdfsstore.state.maintenance.retention import Retention
from hdfsstore.state.store_id import StateStoreId

log = logging.getLogger("hdfsstore.state.hdfs.provider")


class HdfsStateStoreProvider(BaseProvider[HdfsVersion, Layer, HdfsReadStateStore, HdfsStateStore]):
    """hdfsstore.state.protocols.StateStoreProvider on deltas and snapshots.

    Args:
        shared_across_workers: whether other processes of the host may open the store next. A load from the checkpoint
            then keeps the snapshot as a local image at once, and so does a commit that changes much.

    Attributes:
        versions: what is in memory.
        images: what is on the local disk.
    """

    _counted = (
        *BaseProvider._counted,
        "numSnapshotsAutoRepaired",
        "snapshotsLoaded",
        "deltasLoaded",
        "localImageHitCount",
        "localImagesDamaged",
    )

    def __init__(
        self,
        store_id: StateStoreId,
        conf: StateStoreConf,
        key_type: StructType | None = None,
        value_type: StructType | None = None,
        num_cols_prefix_key: int = 0,
        timeout_offset: int | None = None,
        *,
        shared_across_workers: bool = False,
    ) -> None:
        super().__init__(store_id, conf, key_type, value_type, num_cols_prefix_key)
        self.row_checksums = conf.row_checksum_enabled
        self.versions = HdfsVersions(conf.max_versions_to_retain_in_memory)
        fs, root = resolve(store_id.checkpoint_root)
        declared = conf.max_record_bytes + (CHECKSUM_BYTES if conf.row_checksum_enabled else 0)
        file_format = RecordFormat(conf.compression_codec, conf.row_checksum_enabled, declared)
        folder = f"{root}/{store_id.relative_folder}"
        indexes = indexes_of(key_type, value_type, num_cols_prefix_key, timeout_offset)
        reader = StoreReader(fs, folder, file_format, indexes)
        self._cache = ImageCache(conf.local_dir, conf.local_dir_max_bytes)
        self.images = VersionImages(
            self._cache.store(store_id, indexes), reader, partial(query_id_of, fs, root), self._counts
        )
        images = CommitImages(self.images, indexes, conf, self.versions, self._done)
        committer = HdfsCommitter(
            reader,
            conf.checkpoint_format_version,
            self.versions,
            indexes,
            self._counts,
            images if shared_across_workers else None,
        )
        self._version_loader = HdfsLoader(
            reader, self.versions, self.images, self._counts, shared_across_workers=shared_across_workers
        )
        keep = conf.min_versions_to_retain
        snapshots = HdfsSnapshots(
            reader,
            indexes,
            conf,
            store_id.partition_id,
            self.versions,
            self.images,
            self._version_loader.load,
            self._version_loader.reload,
            self._done,
        )
        maintenance_run = MaintenanceRun(
            self.versions,
            snapshots,
            Retention(fs, folder, keep, reader.lineage, reader.check_snapshot, self._done),
            self.versions.lineage_of,
            self._cache.clean,
            self._done,
            conf.maintenance_interval,
        )
        self._start(self.versions, self._version_loader, committer, maintenance_run)

    def reload(self, version: HdfsVersion) -> HdfsVersion:
        """The same version from the checkpoint's files, after its image was found damaged."""
        return self._version_loader.reload(version)

    def drop_resident_pages(self) -> None:
        """Takes the pages of local images out of this process's memory, not out of the system's page cache.

        What is read later is mapped again, a few microseconds for each 64 KiB. For processes that go on to other work.
        """
        self.versions.drop_resident_pages()

    @property
    def _nbytes(self) -> int:
        return self.versions.nbytes

    def _store(self, base: HdfsVersion) -> HdfsStateStore:
        return HdfsStateStore(self, base)

    def _read_store(self, base: HdfsVersion) -> HdfsReadStateStore:
        return HdfsReadStateStore(self, base)

    def _let_go(self) -> None:
        self.images.close()


def query_id_of(fs: FileSystem, state_root: str) -> str | None:
    """The id in `<checkpoint>/metadata`; None where there is none, as for a store without a query."""
    path = f"{state_root.rpartition('/')[0]}/metadata"
    try:
        return str(json.loads(read_file(fs, path, ()))["id"])
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError) as error:
        log.warning("%s holds no query id: %r", path, error)
        return None


# What a row checksum adds to the size that a record declares.
CHECKSUM_BYTES = 4
