"""Keeps a store's versions as deltas and snapshots in the checkpoint, as Spark's HDFS-backed provider does.

Spark's HDFSBackedStateStoreProvider.scala copies its map for each version; here versions are layers of one map.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from functools import partial

from hdfsstore._cext.versioned_map import Layer
from hdfsstore.codecs.records import RecordFormat
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.local_files import LocalFileManager
from hdfsstore.fs.location import place_of
from hdfsstore.fs.reading import read_file
from hdfsstore.fs.request_metrics import counted_in
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
from hdfsstore.state.local.store_deltas import StoreDeltas
from hdfsstore.state.maintenance.provider_run import MaintenanceRun
from hdfsstore.state.maintenance.retention import Retention
from hdfsstore.state.metrics import MaintenanceMetrics
from hdfsstore.state.store_id import StateStoreId
from hdfsstore.state.store_schema import StoreSchema

log = logging.getLogger("hdfsstore.state.hdfs.provider")


class HdfsStateStoreProvider(BaseProvider[HdfsVersion, Layer, HdfsReadStateStore, HdfsStateStore]):
    """hdfsstore.state.protocols.StateStoreProvider on deltas and snapshots.

    Args:
        shared_across_workers: whether other processes of the host may open the store next. A load from the checkpoint
            then keeps the snapshot as a local image at once, and so does a commit that changes much. A commit to a
            remote filesystem keeps its delta on the local disk.

    Attributes:
        versions: those in memory.
        images: those on the local disk.
    """

    versions: HdfsVersions
    _loader: HdfsLoader

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
        schema: StoreSchema,
        *,
        shared_across_workers: bool = False,
    ) -> None:
        counts, metrics = Counter[str](), MaintenanceMetrics()
        versions = HdfsVersions(conf.max_versions_to_retain_in_memory)
        fs, root = store_id.open()
        declared = conf.max_record_bytes + (CHECKSUM_BYTES if conf.row_checksum_enabled else 0)
        file_format = RecordFormat(conf.compression_codec, conf.row_checksum_enabled, declared)
        folder = f"{root}/{store_id.relative_folder}"
        indexes = indexes_of(schema)
        cache = ImageCache(conf.local_dir, conf.local_dir_max_bytes)
        # For files: two endpoints share no image, and a new key keeps them.
        local_images = cache.store(store_id.at(place_of(fs, root)), indexes)
        # A delta on a local disk is as near as a copy of it.
        keeps_deltas = shared_across_workers and not isinstance(fs, LocalFileManager)
        local_deltas = StoreDeltas(local_images.folder) if keeps_deltas else None
        reader = StoreReader(fs, folder, file_format, indexes, local_deltas)
        images = VersionImages(local_images, reader, partial(query_id_of, fs, root), counts)
        commit_images = CommitImages(images, indexes, conf, versions.lineages, metrics)
        loader = HdfsLoader(reader, versions, images, counts, shared_across_workers=shared_across_workers)
        committer = HdfsCommitter(
            reader,
            conf.checkpoint_format_version,
            versions,
            indexes,
            counts,
            commit_images if shared_across_workers else None,
            local_deltas,
        )
        snapshots = HdfsSnapshots(reader, indexes, conf, store_id.partition_id, versions, images, loader, metrics)
        retention = Retention(fs, folder, conf.min_versions_to_retain, reader.lineage, reader.check_snapshot, metrics)
        maintenance_run = MaintenanceRun(
            versions, snapshots, retention, cache.clean, metrics, conf.maintenance_interval
        )
        self.images = images
        self.row_checksums = conf.row_checksum_enabled
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

    def reload(self, version: HdfsVersion) -> HdfsVersion:
        """Loads a version whose image is damaged from the checkpoint's files."""
        with counted_in(self._requests):
            return self._loader.reload(version)

    def drop_resident_pages(self) -> None:
        """Takes the pages of local images out of this process's memory, not out of the system's page cache.

        For a process that goes on to other work. A page that is read later is mapped again, at a few microseconds for
        each 64 KiB.
        """
        self.versions.drop_resident_pages()

    def _store(self, base: HdfsVersion) -> HdfsStateStore:
        return HdfsStateStore(self, base)

    def _read_store(self, base: HdfsVersion) -> HdfsReadStateStore:
        return HdfsReadStateStore(self, base)

    def _release_local(self) -> None:
        self.images.close()


def query_id_of(fs: FileManager, state_root: str) -> str | None:
    """The query's id in `<checkpoint>/metadata`; None where there is none, as for a store without a query."""
    path = f"{state_root.rpartition('/')[0]}/metadata"
    try:
        return str(json.loads(read_file(fs, path, ()))["id"])
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError) as error:
        log.warning("%s holds no query id: %r", path, error)
        return None


# Bytes that a row checksum adds to the size that a record declares.
CHECKSUM_BYTES = 4
