"""Implements what providers of every backend share."""

from __future__ import annotations

import os
import weakref
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from types import TracebackType
from typing import Any, ClassVar, Generic, Self, TypeVar

from hdfsstore.codecs.lineage import UNIQUE_ID
from hdfsstore.errors import CheckpointIdMismatchError, StateStoreClosedError
from hdfsstore.fs.request_metrics import RequestMetrics, counted_in
from hdfsstore.state.base.committer import Committer
from hdfsstore.state.base.loader import Loader
from hdfsstore.state.conf import StateStoreConf
from hdfsstore.state.maintenance.provider_run import MaintenanceRun
from hdfsstore.state.maintenance.scheduler import maintenance
from hdfsstore.state.maintenance.throttle import foreground
from hdfsstore.state.metrics import named_requests
from hdfsstore.state.protocols import ReadStateStore, StateStore, StateStoreCheckpointInfo
from hdfsstore.state.rows import BatchCodec, RecordLimit
from hdfsstore.state.store_id import StateStoreId
from hdfsstore.state.store_schema import StoreSchema
from hdfsstore.state.versions.cached import CachedVersions, V
from hdfsstore.state.versions.files import VersionId

R = TypeVar("R", bound=ReadStateStore)
S = TypeVar("S", bound=StateStore)
U = TypeVar("U")


class BaseProvider(ABC, Generic[V, U, R, S]):
    """Opens versions of one partition of a store; hdfsstore.state.protocols.StateStoreProvider has its methods.

    Threads may share it, and a forked child can go on with it. A subclass sets its own attributes first: this
    constructor registers the provider for forks.

    Args:
        counts: counters of the parts.

    Attributes:
        id, conf: of the store.
        schema: of the rows.
        keys, values: codecs of the rows.
        limit: of their size.
        versions: the cached ones.
    """

    # The counters that metrics show from the start.
    _counted: ClassVar[tuple[str, ...]] = ("loadedMapCacheHitCount", "loadedMapCacheMissCount", "forceSnapshotCount")

    def __init__(
        self,
        store_id: StateStoreId,
        conf: StateStoreConf,
        schema: StoreSchema,
        *,
        versions: CachedVersions[V],
        loader: Loader[V],
        committer: Committer[V, U],
        maintenance_run: MaintenanceRun,
        counts: Counter[str],
    ) -> None:
        self.id = store_id
        self.conf = conf
        self.schema = schema
        self.keys = BatchCodec("key", schema.key_type)
        self.values = BatchCodec("value", schema.value_type)
        self.limit = RecordLimit(conf.max_record_bytes)
        self.versions = versions
        self._loader = loader
        self._committer = committer
        self._maintenance_run = maintenance_run
        self._counts = counts
        self._requests = RequestMetrics()
        self._closed = False
        _providers.add(self)

    def get_store(self, version: int, checkpoint_unique_id: str | None = None) -> S:
        store = self._store(self._open(version, checkpoint_unique_id))
        self.versions.driver_version = (version, checkpoint_unique_id)
        if self.conf.maintenance_interval > 0:
            is_due = self._maintenance_run.is_due()
            if is_due and self._maintenance_run.is_overdue() and not self._maintenance_run.is_running:
                self.do_maintenance()
                is_due = False
            maintenance.ensure(self, self.conf.maintenance_interval, soon=is_due)
        return store

    def get_read_store(self, version: int, checkpoint_unique_id: str | None = None) -> R:
        return self._read_store(self._open(version, checkpoint_unique_id))

    def do_maintenance(self) -> None:
        with counted_in(self._requests):
            self._maintenance_run.run()

    def release(self) -> None:
        self.versions.release()

    @property
    def metrics(self) -> Mapping[str, int | float]:
        return {
            **dict.fromkeys(self._counted, 0),
            **self._counts,
            **self._maintenance_run.metrics.named(self.id),
            **self.request_metrics,
            "memoryUsedBytes": self.versions.nbytes,
        }

    @property
    def request_metrics(self) -> dict[str, int | float]:
        """The part of `metrics` that counts requests to the storage."""
        return named_requests(self._requests.snapshot())

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._maintenance_run.stop()
        maintenance.forget(self)
        self._release_local()
        self.versions.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id})"

    def write(self, base: V, updates: U) -> StateStoreCheckpointInfo:
        """Writes and caches the version after `base`."""
        with counted_in(self._requests):
            version, unique_id = self._committer.commit(base, updates)
        return StateStoreCheckpointInfo(self.id.partition_id, version, unique_id, base.id[1])

    def after_fork(self) -> None:
        """In a forked child: no thread is left that could hold a lock."""
        self.versions.after_fork()
        self._committer.after_fork()
        self._loader.after_fork()
        self._maintenance_run.after_fork()

    @abstractmethod
    def _store(self, base: V) -> S:
        """A store that writes on top of a version."""

    @abstractmethod
    def _read_store(self, base: V) -> R:
        """A store that reads a version."""

    def _release_local(self) -> None:
        """Releases the provider's use of the local disk."""

    def _open(self, version: int, unique_id: str | None) -> V:
        if self._closed:
            raise StateStoreClosedError(f"{self} was closed", remedy="Open another provider")
        with foreground, counted_in(self._requests):
            return self._loader.load(_checked(version, unique_id))


def _checked(version: int, unique_id: str | None) -> VersionId:
    if version < 0:
        raise ValueError(f"there is no version {version}: 0 is the empty store")
    if unique_id is not None and version == 0:
        raise CheckpointIdMismatchError(f"version 0 is the empty store: it has no id, but {unique_id!r} was given")
    if unique_id is not None and not UNIQUE_ID.fullmatch(unique_id):
        raise ValueError(f"{unique_id!r} is not a unique id of a checkpoint")
    return version, unique_id


_providers: weakref.WeakSet[BaseProvider[Any, Any, Any, Any]] = weakref.WeakSet()


def _after_fork() -> None:
    for provider in list(_providers):
        provider.after_fork()


os.register_at_fork(after_in_child=_after_fork)
