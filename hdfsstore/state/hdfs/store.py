"""Opens one version of a store for reading or for updates, as a transaction on a cached version.

Damage of a local image shows when a block is touched. The call then loads the version from the checkpoint's files, adds
the updates so far, and goes on. The caller sees no more of it than a warning in the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar, cast

from hdfsstore._cext.versioned_map import Layer, LayerBuilder, Transaction
from hdfsstore.errors import ImageDamagedError
from hdfsstore.state.base import store
from hdfsstore.state.base.store import BaseReadStore, BaseStore
from hdfsstore.state.hdfs.cached_versions import HdfsVersion
from hdfsstore.state.maintenance.throttle import foreground
from hdfsstore.state.protocols import StateStoreCheckpointInfo
from hdfsstore.state.rows import BinaryRows

log = logging.getLogger("hdfsstore.state.hdfs.store")
T = TypeVar("T")


class HdfsOwner(store.Owner, Protocol):
    """The parts of a provider that its stores need."""

    row_checksums: bool

    def reload(self, damaged: HdfsVersion) -> HdfsVersion:
        """Loads a version whose image is damaged from the checkpoint's files."""

    def write(self, base: HdfsVersion, updates: Layer) -> StateStoreCheckpointInfo:
        """Writes the next version."""


class HdfsReadStateStore(BaseReadStore[HdfsOwner, Transaction]):
    """A version that is read; hdfsstore.state.protocols.ReadStateStore describes the methods."""

    def __init__(self, owner: HdfsOwner, base: HdfsVersion) -> None:
        super().__init__(owner, base.id, base.tree.map.transaction(base.layer))
        self._base = base
        # Updates made before an image was found damaged, oldest first.
        self._sealed: list[Layer] = []

    def get(self, key: bytes) -> bytes | None:
        while True:
            try:
                return self._transaction.get(key)
            except ImageDamagedError as error:
                self._recover(error)

    @property
    def _size(self) -> int:
        return self._base.tree.image.nbytes + self._base.tree.map.nbytes

    def _run(self, operation: Callable[[Transaction], T]) -> T:
        with foreground:
            while True:
                puts = self._transaction.num_puts
                try:
                    return operation(self._transaction)
                except ImageDamagedError as error:
                    self._recover(error, puts)

    def _scan(self) -> Iterator[tuple[BinaryRows, BinaryRows]]:
        def start(transaction: Transaction) -> Iterator[tuple[BinaryRows, BinaryRows]]:
            # An iterator could not repair damage half-way through: therefore all blocks are verified before.
            self._base.tree.image.verify()
            return transaction.scan()

        return self._run(start)

    def _recover(self, error: ImageDamagedError, puts: int | None = None) -> None:
        """Goes on with the base version from the checkpoint's files. The caller then repeats its operation.

        Args:
            puts: number of puts before that operation, if it may have begun.
        """
        damaged = self._transaction
        self._reload(error)
        self._puts += damaged.num_puts if puts is None else puts
        self._removes += damaged.num_removes
        updates = damaged.seal()
        if updates.num_records:
            self._sealed.append(updates)
        layer = self._base.layer
        for updates in self._sealed:
            layer = self._base.tree.map.add(layer, updates)
        self._transaction = self._base.tree.map.transaction(layer)

    def _reload(self, error: ImageDamagedError) -> None:
        log.warning("%s; version %d is loaded from the checkpoint's files", error, self.version)
        metrics = self._metrics()
        try:
            self._base = self._owner.reload(self._base)
        except BaseException:
            self._end("lost its image, and the checkpoint's files could not be read", metrics)
            raise

    def _end(self, how: str, metrics: dict[str, int | float] | None = None) -> None:
        super()._end(how, metrics)
        self._base = cast("HdfsVersion", self._transaction)  # the store may be kept for long
        self._sealed = []


class HdfsStateStore(HdfsReadStateStore, BaseStore[HdfsOwner, Transaction]):
    """A version and updates on top of it; hdfsstore.state.protocols.StateStore describes the methods."""

    def put(self, key: bytes, value: bytes) -> None:
        self._owner.limit.check(key, value)
        while True:
            try:
                return self._transaction.put(key, value)
            except ImageDamagedError as error:
                self._recover(error)

    def remove(self, key: bytes) -> None:
        while True:
            try:
                self._transaction.remove(key)
            except ImageDamagedError as error:
                self._recover(error)
            else:
                return

    def _write(self) -> StateStoreCheckpointInfo:
        updates = self._joined(self._transaction.seal())
        while True:
            try:
                return self._owner.write(self._base, updates)
            except ImageDamagedError as error:  # a full snapshot reads the image
                self._reload(error)

    def _joined(self, last: Layer) -> Layer:
        """All updates of the store as one layer."""
        if not self._sealed:
            return last
        builder = LayerBuilder(row_checksums=self._owner.row_checksums)
        for layer in (*self._sealed, last):
            builder.append_layer(layer)
        return builder.finish()
