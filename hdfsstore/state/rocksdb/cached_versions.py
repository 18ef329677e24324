"""Keeps versions of one store as snapshots of RocksDBs, each of which holds consecutive versions."""

from __future__ import annotations

from collections.abc import Iterable

from hdfsstore.state.rocksdb.instance import Instance, keep_for_ever
from hdfsstore.state.rocksdb.transaction import RocksDbVersion
from hdfsstore.state.versions.cached import CachedVersions
from hdfsstore.state.versions.digest import FileDigest
from hdfsstore.state.versions.files import VersionId

# So many snapshots are kept for one RocksDB. A snapshot costs only the changes since, far less than another RocksDB.
_SNAPSHOTS = 8


class RocksDbVersions(CachedVersions[RocksDbVersion]):
    """The versions that were used last, in at most max_versions_to_retain_in_memory RocksDBs."""

    def __init__(self, max_retained: int) -> None:
        super().__init__(max_retained * _SNAPSHOTS)
        self._max_instances = max_retained

    @staticmethod
    def reached(
        instance: Instance,
        version_id: VersionId,
        lineage: tuple[VersionId, ...] = (),
        digest: FileDigest | None = None,
        *,
        committed: bool = False,
    ) -> RocksDbVersion:
        """Makes a version the tip of an instance that holds its rows. The caller has the instance's lock."""
        instance.tip = version_id
        return RocksDbVersion(
            version_id, instance, instance.snapshot(), instance.num_keys, lineage, digest, committed=committed
        )

    def forget_attempt(self, version_id: VersionId) -> None:
        """Drops the earlier attempt at a version without an id that was committed again, and newer versions."""
        if version_id[1] is None:
            with self._lock:
                self._forget([v for v in self._cached if v[1] is None and v[0] >= version_id[0]])

    def after_fork(self) -> None:
        """In a forked child: the cached versions are the parent's."""
        super().after_fork()
        keep_for_ever(self._cached)
        self._cached, self._recent = {}, []

    @property
    def nbytes(self) -> int:
        """Bytes of memory of the RocksDBs."""
        return sum(instance.nbytes for instance in _instances(self.cached()))

    def _use(self, number: int) -> None:
        super()._use(number)
        newest_first = sorted(self._cached.values(), key=lambda version: -self._recent.index(version.id[0]))
        over = _instances(newest_first)[self._max_instances :]
        self._forget([version.id for version in newest_first if version.instance in over])


def _instances(versions: Iterable[RocksDbVersion]) -> list[Instance]:
    """The RocksDBs of the versions, each once, in the same order."""
    return list({id(version.instance): version.instance for version in versions}.values())
