"""One version of a store, open for reading or for updates, on a local RocksDB."""

from __future__ import annotations

from typing import Protocol

from hdfsstore.state.base import store
from hdfsstore.state.base.store import BaseReadStore, BaseStore
from hdfsstore.state.protocols import StateStoreCheckpointInfo
from hdfsstore.state.rocksdb.encoding import RowEncoding
from hdfsstore.state.rocksdb.transaction import HeldVersion, RocksDbTransaction


class Owner(store.Owner, Protocol):
    """What a store needs of the provider that opened it."""

    encoding: RowEncoding

    def write(self, base: HeldVersion, updates: RocksDbTransaction) -> StateStoreCheckpointInfo:
        """Writes the next version."""


class RocksDbReadStateStore(BaseReadStore[Owner, RocksDbTransaction]):
    """A version that is read; hdfsstore.state.protocols.ReadStateStore has its methods."""

    def __init__(self, owner: Owner, base: HeldVersion) -> None:
        super().__init__(owner, base.id, RocksDbTransaction(base, owner.encoding))

    @property
    def _size(self) -> int:
        return self._transaction.base.instance.disk_bytes


class RocksDbStateStore(RocksDbReadStateStore, BaseStore[Owner, RocksDbTransaction]):
    """A version and updates on top of it; hdfsstore.state.protocols.StateStore has its methods."""

    def _write(self) -> StateStoreCheckpointInfo:
        return self._owner.write(self._transaction.base, self._transaction)
