"""What providers of every backend do alike."""

from __future__ import annotations

import os
import weakref
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from types import TracebackType
from typing import Any, ClassVar, Generic, TypeVar

from hdfsstore.codecs.lineage import UNIQUE_ID
from hdfsstore.codecs.types import StructType
from hdfsstore.errors import CheckpointIdMismatchError, SchemaMismatchError, StateStoreClosedError
from hdfsstore.state.base.committer import Committer
from hdfsstore.state.base.loader import Loader
from hdfsstore.state.conf import StateStoreConf
from hdfsstore.state.maintenance.provider_run import MaintenanceRun
from hdfsstore.state.maintenance.scheduler import maintenance
from hdfsstore.state.maintenance.throttle import foreground
from hdfsstore.state.metrics import MaintenanceMetrics
from hdfsstore.state.protocols import ReadStateStore, StateStore, StateStoreCheckpointInfo
from hdfsstore.state.rows import BatchCodec, RecordLimit
from hdfsstore.state.store_id import StateStoreId
from hdfsstore.state.versions.cached import CachedVersions, V
from hdfsstore.state.versions.files import VersionId

R = TypeVar("R", bound=ReadStateStore)
S = TypeVar("S", bound=StateStore)
U = TypeVar("U")
Self = TypeVar("Self", bound="BaseProvider[Any, Any, Any, Any]")


class BaseProvider(ABC, Generic[V, U, R, S]):
    """Opens versions of one partition of a store; hdfsstore.state.protocols.StateStoreProvider has its methods.

    Threads may share it, and a forked child can go on with it.

    Args:
        key_type, value_type: of the rows, for the calls with record batches; None: those raise SchemaMismatchError.
        num_cols_prefix_key: how many of the key's first columns prefix_scan finds rows by; 0: there is no prefix_scan.

    Attributes:
        id, conf: what it was opened with.
        keys, values: what encodes and decodes the rows.
        limit: of their size.
    """

    # What is counted, and shows from the start.
    _counted: ClassVar[tuple[str, ...]] = ("loadedMapCacheHitCount", "loadedMapCacheMissCount", "forceSnapshotCount")

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
        self._closed = False
        self._counts: Counter[str] = Counter()
        self._done = MaintenanceMetrics()

    def _start(
        self, held: CachedVersions[V], loader: Loader[V], committer: Committer[V, U], maintenance_run: MaintenanceRun
    ) -> None:
        """The parts, which the end of a subclass' constructor gives."""
        self._cached, self._loader, self._committer, self._maintenance_run = held, loader, committer, maintenance_run
        _providers.add(self)

    def get_store(self, version: int, checkpoint_unique_id: str | None = None) -> S:
        store = self._store(self._open(version, checkpoint_unique_id))
        self._cached.driver_version = (version, checkpoint_unique_id)
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
        self._maintenance_run.run()

    def release(self) -> None:
        self._cached.release()

    @property
    def metrics(self) -> Mapping[str, int | float]:
        return {
            **dict.fromkeys(self._counted, 0),
            **self._counts,
            **self._done.named(self.id),
            "memoryUsedBytes": self._nbytes,
        }

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._maintenance_run.stop()
        maintenance.forget(self)
        self._let_go()
        self._cached.clear()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id})"

    def write(self, base: V, updates: U) -> StateStoreCheckpointInfo:
        """Writes and holds the version after `base`."""
        version, unique_id = self._committer.commit(base, updates)
        return StateStoreCheckpointInfo(self.id.partition_id, version, unique_id, base.id[1])

    def after_fork(self) -> None:
        """In a forked child: no thread is left that could hold a lock."""
        self._cached.after_fork()
        self._committer.after_fork()
        self._loader.after_fork()
        self._maintenance_run.after_fork()

    @property
    @abstractmethod
    def _nbytes(self) -> int:
        """Bytes of memory that the versions at hand take."""

    @abstractmethod
    def _store(self, base: V) -> S:
        """A store that writes on top of a version."""

    @abstractmethod
    def _read_store(self, base: V) -> R:
        """A store that reads a version."""

    def _let_go(self) -> None:
        """Closes what is neither a version nor maintenance."""

    def _open(self, version: int, unique_id: str | None) -> V:
        if self._closed:
            raise StateStoreClosedError(f"{self} was closed", remedy="Open another provider")
        with foreground:
            return self._loader.load(_checked(version, unique_id))


def _checked(version: int, unique_id: str | None) -> VersionId:
    if version < 0:
        raise ValueError(f"there is no version {version}: 0 is the empty store")
    if unique_id is not None and version == 0:
        raise CheckpointIdMismatchError(f"version 0 is the empty store: it has no id, but {unique_id!r} was given")
    if unique_id is not None and not UNIQUE_ID.fullmatch(unique_id):
        raise ValueError(f"{unique_id!r} is no unique id of a checkpoint")
    return version, unique_id


_providers: weakref.WeakSet[BaseProvider[Any, Any, Any, Any]] = weakref.WeakSet()


def _after_fork() -> None:
    for provider in list(_providers):
        provider.after_fork()


os.register_at_fork(after_in_child=_after_fork)
