"""One version of a store, open for reading or for updates: a transaction on a held version.

A damaged local image shows where it is touched. Every call then goes on with the version as the checkpoint's files have
it, with the updates made so far, and the caller sees no more of it than a warning in the log.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import NoReturn, Protocol, TypeVar, cast

import pyarrow as pa

from hdfsstore._cext.versioned_map import Layer, LayerBuilder, Transaction
from hdfsstore.codecs.records import decode_records
from hdfsstore.errors import ImageDamagedError, StateStoreClosedError
from hdfsstore.state.hdfs.versions import HeldVersion
from hdfsstore.state.pace import foreground
from hdfsstore.state.provider import StateStoreCheckpointInfo
from hdfsstore.state.rows import BatchCodec, BinaryRows, RecordLimit, binary
from hdfsstore.state.store_id import StateStoreId

log = logging.getLogger(__name__)
T = TypeVar("T")


class Owner(Protocol):
    """What a store needs of the provider that opened it."""

    id: StateStoreId
    keys: BatchCodec
    values: BatchCodec
    limit: RecordLimit
    row_checksums: bool

    @property
    def metrics(self) -> Mapping[str, int | float]: ...

    def reload(self, damaged: HeldVersion) -> HeldVersion:
        """The same version from the checkpoint's files, as its image is damaged."""

    def write(self, base: HeldVersion, updates: Layer) -> StateStoreCheckpointInfo:
        """Writes the next version."""


class HdfsReadStateStore:
    """A version that is read; hdfsstore.state.provider.ReadStateStore has its methods."""

    def __init__(self, owner: Owner, base: HeldVersion) -> None:
        self._owner = owner
        self._version = base.id[0]
        self._base = base
        self._transaction = base.tree.map.transaction(base.layer)
        # Updates made before an image was found damaged, oldest first, and how many puts and removals they are.
        self._sealed: list[Layer] = []
        self._puts = self._removes = 0
        self._final_metrics: dict[str, int | float] | None = None

    @property
    def id(self) -> StateStoreId:
        return self._owner.id

    @property
    def version(self) -> int:
        return self._version

    def get(self, key: bytes) -> bytes | None:
        while True:
            try:
                return self._transaction.get(key)
            except ImageDamagedError as error:
                self._recover(error)

    def get_many(self, keys: BinaryRows) -> BinaryRows:
        binary(keys)
        return self._run(lambda transaction: transaction.get_many(keys))

    def get_batch(self, keys: pa.RecordBatch) -> pa.RecordBatch:
        return self._owner.values.decode_columns(self.get_many(self._owner.keys.encode(keys)))

    def iterator(self) -> Iterator[tuple[bytes, bytes]]:
        return _pairs(self._scan())

    def prefix_scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        return _pairs(iter([self._run(lambda transaction: transaction.prefix_scan(prefix))]))

    def scan(self) -> Iterator[pa.RecordBatch]:
        keys, values = self._owner.keys, self._owner.values
        schema = pa.schema([pa.field("key", keys.arrow_type), pa.field("value", values.arrow_type)])

        def batches(found: Iterator[tuple[BinaryRows, BinaryRows]]) -> Iterator[pa.RecordBatch]:
            for some_keys, some_values in found:
                columns = [keys.decode(some_keys), values.decode(some_values)]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)

        return batches(self._scan())

    @property
    def metrics(self) -> Mapping[str, int | float]:
        """As hdfsstore.state.provider says; after the end of the store what they were then."""
        return self._final_metrics if self._final_metrics is not None else self._metrics()

    def close(self) -> None:
        if not self._closed:
            self._end("was closed")

    def __enter__(self) -> HdfsReadStateStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._owner.id}, version={self.version})"

    @property
    def _closed(self) -> bool:
        return isinstance(self._transaction, _Ended)

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
            # Damage half-way through would have to be repaired under the eyes of an iterator: look before.
            self._base.tree.image.verify()
            return transaction.scan()

        return self._run(start)

    def _recover(self, error: ImageDamagedError, puts: int | None = None) -> None:
        """Goes on with the base version from the checkpoint's files. An operation that failed is done once more.

        Args:
            puts: how many there were before that operation, if it may have begun.
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

    def _metrics(self) -> dict[str, int | float]:
        transaction = self._transaction
        return {
            **self._owner.metrics,
            "numTotalStateRows": transaction.num_keys,
            "numUpdatedStateRows": self._puts + transaction.num_puts,
            "numRemovedStateRows": self._removes + transaction.num_removes,
            "stateOnCurrentVersionSizeBytes": self._base.tree.image.nbytes + self._base.tree.map.nbytes,
        }

    def _end(self, how: str, metrics: dict[str, int | float] | None = None) -> None:
        """Lets go of everything; the store may be kept for long."""
        self._final_metrics = self._metrics() if metrics is None else metrics
        ended = _Ended(f"version {self.version} of the store in {self._owner.id.relative_folder} {how}")
        self._transaction, self._base = cast("Transaction", ended), cast("HeldVersion", ended)
        self._sealed = []


class HdfsStateStore(HdfsReadStateStore):
    """A version and updates on top of it; hdfsstore.state.provider.StateStore has its methods."""

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

    def put_many(self, keys: BinaryRows, values: BinaryRows) -> None:
        for rows in (binary(keys), binary(values)):
            self._owner.limit.check_many(rows)
        self._run(lambda transaction: transaction.put_many(keys, values))

    def remove_many(self, keys: BinaryRows) -> None:
        binary(keys)
        self._run(lambda transaction: transaction.remove_many(keys))

    def put_batch(self, keys: pa.RecordBatch, values: pa.RecordBatch) -> None:
        self.put_many(self._owner.keys.encode(keys), self._owner.values.encode(values))

    def remove_batch(self, keys: pa.RecordBatch) -> None:
        self.remove_many(self._owner.keys.encode(keys))

    def commit(self) -> StateStoreCheckpointInfo:
        with foreground:
            metrics = self._metrics()
            started = time.perf_counter()
            updates = self._joined(self._transaction.seal())
            while True:
                try:
                    info = self._owner.write(self._base, updates)
                    break
                except ImageDamagedError as error:  # a full snapshot reads the image
                    self._reload(error)
                except BaseException:
                    self._end("could not be committed", metrics)
                    raise
            metrics["commitTimeMs"] = 1000 * (time.perf_counter() - started)
            self._end("was committed", metrics)
            return info

    def abort(self) -> None:
        metrics = self._metrics()
        self._end("was aborted", metrics)

    def close(self) -> None:
        if not self._closed:
            self.abort()

    def _joined(self, last: Layer) -> Layer:
        """All updates of the store as one layer."""
        if not self._sealed:
            return last
        builder = LayerBuilder(row_checksums=self._owner.row_checksums)
        for layer in (*self._sealed, last):
            records = memoryview(layer.records).cast("B")
            keys, values, _ = decode_records(records, row_checksums=self._owner.row_checksums)
            builder.append(records, keys, values)
        return builder.finish()


class _Ended:
    """What stands in the place of a transaction that is over."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __getattr__(self, name: str) -> NoReturn:
        raise StateStoreClosedError(
            f"{self._what}: a store is used once", remedy="Get another one from the provider (get_store)"
        )


def _pairs(found: Iterator[tuple[BinaryRows, BinaryRows]]) -> Iterator[tuple[bytes, bytes]]:
    for keys, values in found:
        yield from zip(keys.to_pylist(), values.to_pylist(), strict=True)
