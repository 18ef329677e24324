"""One version of a store, open for reading or for updates, on a local RocksDB."""

from __future__ import annotations

from typing import Protocol

from hdfsstore.state.base import store
from hdfsstore.state.base.store import BaseReadStore, BaseStore
from hdfsstore.state.protocols import StateStoreCheckpointInfo
from hdfsstore.state.rocksdb.encoding import RowEncoding
from hdfsstore.state.rocksdb.transaction import RocksDbTransaction, RocksDbVersion


class RocksDbOwner(store.Owner, Protocol):
    """The parts of a provider that its stores need."""

    encoding: RowEncoding

    def write(self, base: RocksDbVersion, updates: RocksDbTransaction) -> StateStoreCheckpointInfo:
        """Writes the next version."""


class RocksDbReadStateStore(BaseReadStore[RocksDbOwner, RocksDbTransaction]):
    """A version that is read; hdfsstore.state.protocols.ReadStateStore describes the methods."""

    def __init__(self, owner: RocksDbOwner, base: RocksDbVersion) -> None:
        super().__init__(owner, base.id, RocksDbTransaction(base, owner.encoding))

    @property
    def _size(self) -> int:
        return self._transaction.base.instance.disk_bytes


class RocksDbStateStore(RocksDbReadStateStore, BaseStore[RocksDbOwner, RocksDbTransaction]):
    """A version and updates on top of it; hdfsstore.state.protocols.StateStore describes the methods."""

    def _write(self) -> StateStoreCheckpointInfo:
        return self._owner.write(self._transaction.base, self._transaction)
