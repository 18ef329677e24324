"""Writes the next version as a changelog, or as a zip if the checkpoint format changes (state/base/committer.py)."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator

from hdfsstore.errors import StateStoreError
from hdfsstore.state.base.committer import Committer
from hdfsstore.state.rocksdb.archive_upload import Zips
from hdfsstore.state.rocksdb.cached_versions import RocksDbVersions
from hdfsstore.state.rocksdb.changelog import encode_updates
from hdfsstore.state.rocksdb.loader import RocksDbLoader
from hdfsstore.state.rocksdb.transaction import RocksDbTransaction, RocksDbVersion
from hdfsstore.state.versions.digest import FileDigest
from hdfsstore.state.versions.files import VersionId

log = logging.getLogger("hdfsstore.state.rocksdb.committer")


class RocksDbCommitter(Committer[RocksDbVersion, RocksDbTransaction]):
    """Writes versions of one store. Threads may share it.

    Args:
        zips: makes the zips.
        loader: loads the base into a RocksDB if there is none.
    """

    def __init__(
        self,
        zips: Zips,
        checkpoint_format_version: int,
        versions: RocksDbVersions,
        loader: RocksDbLoader,
        counts: Counter[str],
    ) -> None:
        super().__init__(zips.reader, checkpoint_format_version, versions.lineages, counts)
        self._versions = versions
        self._zips = zips
        self._loader = loader

    def _records(self, updates: RocksDbTransaction) -> Iterator[bytes]:
        return encode_updates(updates.updates)

    def _cache(
        self,
        base: RocksDbVersion,
        updates: RocksDbTransaction,
        version_id: VersionId,
        lineage: tuple[VersionId, ...],
        digest: FileDigest | None,
    ) -> None:
        instance = base.instance
        with instance.lock:
            if instance.tip != base.id:
                # The RocksDB holds another attempt by now. If the driver takes this one, it is loaded from its files.
                self._versions.forget_attempt(version_id)
                return
            try:
                with instance.changing():
                    instance.num_keys = updates.num_keys
                    instance.write(updates.updates)
                    version = self._versions.reached(instance, version_id, lineage, digest, committed=True)
                self._versions.add(version)
            except StateStoreError as error:  # the version is committed, and the local RocksDB can be made anew
                log.warning(
                    "version %d is committed, but not in the local RocksDB, and will be loaded again: %s",
                    version_id[0],
                    error,
                )
                self._versions.forget_attempt(version_id)

    def _write_whole(self, base: RocksDbVersion, updates: RocksDbTransaction, version_id: VersionId) -> None:
        tip = base if base.instance.tip == base.id else self._loader.load_alone(base.id)
        instance = tip.instance
        with instance.lock, instance.changing():
            instance.num_keys = updates.num_keys
            instance.write(updates.updates)
            with instance.checkpoint() as folder:
                content = self._zips.content(instance, folder, instance.num_keys, version_id)
                digest = self._publish_as_is(version_id, "snapshot", content)
            if not self._with_ids:
                self._remove_other(version_id, "delta")
            self._lineages.note_snapshot(version_id)
            version = self._versions.reached(instance, version_id, (), digest, committed=True)
        self._versions.add(version)
