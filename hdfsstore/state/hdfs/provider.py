"""Keeps a store's versions as deltas and snapshots in the checkpoint, as Spark's HDFS-backed provider does.

HDFSBackedStateStoreProvider.scala; versions are layers of a map in memory in the place of copies.
"""

from __future__ import annotations

import json
import logging
import os
import weakref
from collections import Counter
from collections.abc import Mapping
from functools import partial
from types import TracebackType

from pyarrow.fs import FileSystem

from hdfsstore._cext.versioned_map import Layer
from hdfsstore.codecs.lineage import UNIQUE_ID
from hdfsstore.codecs.records import RecordFormat
from hdfsstore.codecs.types import StructType
from hdfsstore.errors import CheckpointIdMismatchError, SchemaMismatchError, StateStoreClosedError
from hdfsstore.fs import read_file, resolve
from hdfsstore.state.conf import StateStoreConf
from hdfsstore.state.files import VersionId
from hdfsstore.state.hdfs.commit import HdfsCommitter
from hdfsstore.state.hdfs.held_images import HeldImages
from hdfsstore.state.hdfs.loading import VersionLoader
from hdfsstore.state.hdfs.reading import StoreReader
from hdfsstore.state.hdfs.snapshots import Snapshots
from hdfsstore.state.hdfs.store import HdfsReadStateStore, HdfsStateStore
from hdfsstore.state.hdfs.versions import HeldVersion, Versions
from hdfsstore.state.local_images import ImageCache
from hdfsstore.state.maintenance import maintenance
from hdfsstore.state.metrics import MaintenanceMetrics
from hdfsstore.state.pace import foreground
from hdfsstore.state.provider import StateStoreCheckpointInfo
from hdfsstore.state.retention import Retention
from hdfsstore.state.rows import BatchCodec, RecordLimit, prefix_plan
from hdfsstore.state.store_id import StateStoreId
from hdfsstore.state.upkeep import Upkeep

log = logging.getLogger(__name__)


class HdfsStateStoreProvider:
    """Opens versions of one partition of a store; hdfsstore.state.provider.StateStoreProvider has its methods.

    Threads may share it, and a forked child can go on with it.

    Args:
        key_type, value_type: of the rows, for the calls with record batches; None: those raise SchemaMismatchError.
        num_cols_prefix_key: how many of the key's first columns prefix_scan finds rows by; 0: there is no prefix_scan.

    Attributes:
        id, conf: what it was opened with.
        versions: what is in memory.
        keys, values: what encodes and decodes the rows.
    """

    def __init__(
        self,
        store_id: StateStoreId,
        conf: StateStoreConf,
        key_type: StructType | None = None,
        value_type: StructType | None = None,
        num_cols_prefix_key: int = 0,
    ) -> None:
        if num_cols_prefix_key and key_type is None:
            raise SchemaMismatchError(
                "num_cols_prefix_key needs the key schema, by which a prefix is found in the keys",
                remedy="Open the provider with key_schema=pyarrow.schema([...])",
            )
        self.id = store_id
        self.conf = conf
        self.keys = BatchCodec("key", key_type)
        self.values = BatchCodec("value", value_type)
        self.limit = RecordLimit(conf.max_record_bytes)
        self.row_checksums = conf.row_checksum_enabled
        self.versions = Versions(conf.max_versions_to_retain_in_memory)
        fs, root = resolve(store_id.checkpoint_root)
        self._closed = False
        self._counts: Counter[str] = Counter()
        declared = conf.max_record_bytes + (CHECKSUM_BYTES if conf.row_checksum_enabled else 0)
        file_format = RecordFormat(conf.compression_codec, conf.row_checksum_enabled, declared)
        folder = f"{root}/{store_id.relative_folder}"
        prefix = None if key_type is None or not num_cols_prefix_key else prefix_plan(key_type, num_cols_prefix_key)
        reader = StoreReader(fs, folder, file_format, prefix)
        self._cache = ImageCache(conf.local_dir, conf.local_dir_max_bytes)
        self.images = HeldImages(
            self._cache.store(store_id, prefix), reader, partial(query_id_of, fs, root), self._counts
        )
        self._committer = HdfsCommitter(reader, conf.checkpoint_format_version, self.versions, prefix, self._counts)
        self._loader = VersionLoader(reader, self.versions, self.images, self._counts)
        self._done = MaintenanceMetrics()
        keep = conf.min_versions_to_retain
        self._upkeep = Upkeep(
            self.versions,
            Snapshots(
                fs,
                folder,
                file_format,
                prefix,
                conf,
                self.versions,
                self.images,
                self._loader.load,
                self._loader.reload,
                reader.is_unchanged,
                self._done,
            ),
            Retention(fs, folder, keep, reader.lineage, reader.check_snapshot, self._done),
            self.versions.lineage_of,
            self._cache.clean,
            self._done,
        )
        _providers.add(self)

    def get_store(self, version: int, checkpoint_unique_id: str | None = None) -> HdfsStateStore:
        store = HdfsStateStore(self, self._open(version, checkpoint_unique_id))
        self.versions.confirmed = (version, checkpoint_unique_id)
        maintenance.ensure(self, self.conf.maintenance_interval)
        return store

    def get_read_store(self, version: int, checkpoint_unique_id: str | None = None) -> HdfsReadStateStore:
        return HdfsReadStateStore(self, self._open(version, checkpoint_unique_id))

    def do_maintenance(self) -> None:
        self._upkeep.run()

    @property
    def metrics(self) -> Mapping[str, int | float]:
        return {
            **_ZERO,
            **self._counts,
            **self._done.named(self.id),
            "maintenanceRunsFailed": maintenance.failures(self),
            "memoryUsedBytes": self.versions.nbytes,
        }

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._upkeep.stop()
        maintenance.forget(self)
        self.images.close()
        self.versions.clear()

    def __enter__(self) -> HdfsStateStoreProvider:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"HdfsStateStoreProvider({self.id})"

    def reload(self, version: HeldVersion) -> HeldVersion:
        """The same version from the checkpoint's files, after its image was found damaged."""
        return self._loader.reload(version)

    def write(self, base: HeldVersion, updates: Layer) -> StateStoreCheckpointInfo:
        """Writes and holds the version after `base`."""
        version, unique_id = self._committer.commit(base, updates)
        return StateStoreCheckpointInfo(self.id.partition_id, version, unique_id, base.id[1])

    def after_fork(self) -> None:
        """In a forked child: no thread is left that could hold a lock."""
        self.versions.after_fork()
        self._committer.after_fork()
        self._loader.after_fork()
        self._upkeep.after_fork()

    def _open(self, version: int, unique_id: str | None) -> HeldVersion:
        if self._closed:
            raise StateStoreClosedError(f"{self} was closed", remedy="Open another provider")
        with foreground:
            return self._loader.load(_checked(version, unique_id))


def query_id_of(fs: FileSystem, state_root: str) -> str | None:
    """The id in `<checkpoint>/metadata`; None where there is none, as for a store without a query."""
    path = f"{state_root.rpartition('/')[0]}/metadata"
    try:
        return str(json.loads(read_file(fs, path, ()))["id"])
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError) as error:
        log.warning("%s: no query's id is in it: %r", path, error)
        return None


def _checked(version: int, unique_id: str | None) -> VersionId:
    if version < 0:
        raise ValueError(f"there is no version {version}: 0 is the empty store")
    if unique_id is not None and version == 0:
        raise CheckpointIdMismatchError(f"version 0 is the empty store and has no id, and not {unique_id!r}")
    if unique_id is not None and not UNIQUE_ID.fullmatch(unique_id):
        raise ValueError(f"{unique_id!r} is no unique id of a checkpoint")
    return version, unique_id


# What a row checksum adds to the size that a record declares.
CHECKSUM_BYTES = 4
# What is counted shows from the start.
_ZERO = dict.fromkeys(
    (
        "loadedMapCacheHitCount",
        "loadedMapCacheMissCount",
        "numSnapshotsAutoRepaired",
        "forceSnapshotCount",
        "localImageHitCount",
        "localImagesDamaged",
    ),
    0,
)
_providers: weakref.WeakSet[HdfsStateStoreProvider] = weakref.WeakSet()


def _after_fork() -> None:
    for provider in _providers:
        provider.after_fork()


os.register_at_fork(after_in_child=_after_fork)
