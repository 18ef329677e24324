"""Implements what stores of every backend share: record batches on top of bytes, metrics, and a single use."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Generic, NoReturn, Protocol, Self, TypeVar, cast

import pyarrow as pa

from hdfsstore.conditions.names import unique_names, with_names
from hdfsstore.errors import StateStoreClosedError
from hdfsstore.state.maintenance.throttle import foreground
from hdfsstore.state.placement import check_placement
from hdfsstore.state.protocols import StateStoreCheckpointInfo
from hdfsstore.state.rows import BatchCodec, BinaryRows, RecordLimit, binary
from hdfsstore.state.store_id import StateStoreId
from hdfsstore.state.store_schema import StoreSchema
from hdfsstore.state.versions.files import VersionId

T = TypeVar("T")


class Owner(Protocol):
    """The parts of a provider that its stores need."""

    @property
    def id(self) -> StateStoreId: ...

    @property
    def schema(self) -> StoreSchema: ...

    @property
    def keys(self) -> BatchCodec: ...

    @property
    def values(self) -> BatchCodec: ...

    @property
    def limit(self) -> RecordLimit: ...

    @property
    def metrics(self) -> Mapping[str, int | float]: ...

    @property
    def request_metrics(self) -> Mapping[str, int | float]: ...


class Updates(Protocol):
    """A version and updates on top of it, in bytes: a backend's part of an open store."""

    @property
    def num_keys(self) -> int: ...

    @property
    def num_puts(self) -> int: ...

    @property
    def num_removes(self) -> int: ...

    def get(self, key: bytes) -> bytes | None: ...

    def get_many(self, keys: BinaryRows) -> BinaryRows: ...

    def put(self, key: bytes, value: bytes) -> None: ...

    def put_many(self, keys: BinaryRows, values: BinaryRows) -> None: ...

    def remove(self, key: bytes) -> bool: ...

    def remove_many(self, keys: BinaryRows) -> int: ...

    def scan(self) -> Iterator[tuple[BinaryRows, BinaryRows]]:
        """All keys and values at the time of the call, some at a time."""

    def prefix_scan(self, prefix: bytes) -> tuple[BinaryRows, BinaryRows]: ...

    def expired(self, before: int, max_rows: int, /) -> Iterator[tuple[BinaryRows, BinaryRows]]: ...

    def next_expiry(self) -> int | None: ...


O = TypeVar("O", bound=Owner)  # noqa: E741
U = TypeVar("U", bound=Updates)


class BaseReadStore(ABC, Generic[O, U]):
    """A version that is read; hdfsstore.state.protocols.ReadStateStore describes the methods.

    Args:
        version_id: the version.
        transaction: reads it.
    """

    def __init__(self, owner: O, version_id: VersionId, transaction: U) -> None:
        self._owner = owner
        self._version = version_id[0]
        self._transaction = transaction
        self._puts = self._removes = 0  # of earlier transactions, whose updates this one has, too
        self._final_metrics: dict[str, int | float] | None = None

    @property
    def id(self) -> StateStoreId:
        return self._owner.id

    @property
    def version(self) -> int:
        return self._version

    def get(self, key: bytes) -> bytes | None:
        return self._transaction.get(key)

    def get_many(self, keys: BinaryRows) -> BinaryRows:
        binary(keys)
        return self._run(lambda transaction: transaction.get_many(keys))

    def get_batch(self, keys: pa.RecordBatch) -> pa.RecordBatch:
        return self._owner.values.decode_columns(self.get_many(self._owner.keys.encode(keys)))

    def iterator(self) -> Iterator[tuple[bytes, bytes]]:
        return _pairs(self._scan())

    def prefix_scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        return _pairs(iter([self._run(lambda transaction: transaction.prefix_scan(prefix))]))

    def expired(self, before: int, max_rows: int = 10_000) -> Iterator[tuple[BinaryRows, BinaryRows]]:
        return self._run(lambda transaction: transaction.expired(before, max_rows))

    def next_expiry(self) -> int | None:
        return self._run(lambda transaction: transaction.next_expiry())

    def scan(self) -> Iterator[pa.RecordBatch]:
        keys, values = self._owner.keys, self._owner.values
        schema = pa.schema([pa.field("key", keys.arrow_type), pa.field("value", values.arrow_type)])

        def batches(found: Iterator[tuple[BinaryRows, BinaryRows]]) -> Iterator[pa.RecordBatch]:
            for some_keys, some_values in found:
                columns = [keys.decode(some_keys), values.decode(some_values)]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)

        return batches(self._scan())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        keys, values = self._owner.keys.arrow_type, self._owner.values.arrow_type
        schema = unique_names(pa.schema([pa.field("key", keys), pa.field("value", values)]))
        batches = (with_names(batch, schema) for batch in self.scan())
        return pa.RecordBatchReader.from_batches(schema, batches).__arrow_c_stream__(requested_schema)

    @property
    def metrics(self) -> Mapping[str, int | float]:
        """As hdfsstore.state.protocols says. After the end of the store they no longer change."""
        return self._final_metrics if self._final_metrics is not None else self._metrics()

    def close(self) -> None:
        if not self._closed:
            self._end("was closed")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._owner.id}, version={self.version})"

    @property
    @abstractmethod
    def _size(self) -> int:
        """Bytes that the version takes."""

    @property
    def _closed(self) -> bool:
        return isinstance(self._transaction, _Ended)

    def _run(self, operation: Callable[[U], T]) -> T:
        """Runs an operation on many rows as a call of the query."""
        with foreground:
            return operation(self._transaction)

    def _scan(self) -> Iterator[tuple[BinaryRows, BinaryRows]]:
        return self._run(lambda transaction: transaction.scan())

    def _metrics(self) -> dict[str, int | float]:
        transaction = self._transaction
        return {
            **self._owner.metrics,
            "numTotalStateRows": transaction.num_keys,
            "numUpdatedStateRows": self._puts + transaction.num_puts,
            "numRemovedStateRows": self._removes + transaction.num_removes,
            "stateOnCurrentVersionSizeBytes": self._size,
        }

    def _end(self, how: str, metrics: dict[str, int | float] | None = None) -> None:
        self._final_metrics = self._metrics() if metrics is None else metrics
        what = f"version {self.version} of the store in {self._owner.id.relative_folder}"
        self._transaction = cast("U", _Ended(f"{what} {how}"))


class BaseStore(BaseReadStore[O, U]):
    """A version and updates on top of it; hdfsstore.state.protocols.StateStore describes the methods."""

    def put(self, key: bytes, value: bytes) -> None:
        self._owner.limit.check(key, value)
        self._transaction.put(key, value)

    def remove(self, key: bytes) -> None:
        self._transaction.remove(key)

    def put_many(self, keys: BinaryRows, values: BinaryRows) -> None:
        for rows in (binary(keys), binary(values)):
            self._owner.limit.check_many(rows)
        self._run(lambda transaction: transaction.put_many(keys, values))

    def remove_many(self, keys: BinaryRows) -> None:
        binary(keys)
        self._run(lambda transaction: transaction.remove_many(keys))

    def put_batch(self, keys: pa.RecordBatch, values: pa.RecordBatch) -> None:
        self.put_many(self._placed(keys), self._owner.values.encode(values))

    def remove_batch(self, keys: pa.RecordBatch) -> None:
        self.remove_many(self._placed(keys))

    def commit(self) -> StateStoreCheckpointInfo:
        with foreground:
            metrics = self._metrics()
            started = time.perf_counter()
            try:
                info = self._write()
            except BaseException:
                if not self._closed:
                    self._end("could not be committed", {**metrics, **self._owner.request_metrics})
                raise
            metrics["commitTimeMs"] = 1000 * (time.perf_counter() - started)
            self._end("was committed", {**metrics, **self._owner.request_metrics})
            return info

    def abort(self) -> None:
        metrics = self._metrics()
        self._end("was aborted", metrics)

    def close(self) -> None:
        if not self._closed:
            self.abort()

    def _placed(self, keys: pa.RecordBatch) -> BinaryRows:
        """The keys as bytes. StateStoreError: one is of another partition, where their number is known."""
        rows, schema = self._owner.keys.encode(keys), self._owner.schema
        if schema.num_partitions is not None and schema.key_type is not None:
            check_placement(keys, schema.key_type, self.id.partition_id, schema.num_partitions)
        return rows

    @abstractmethod
    def _write(self) -> StateStoreCheckpointInfo:
        """Writes the next version."""


class _Ended:
    """Replaces a transaction that is over: every use of it raises StateStoreClosedError."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __getattr__(self, name: str) -> NoReturn:
        raise StateStoreClosedError(
            f"{self._what}: a store is used once", remedy="Get another one from the provider (get_store)"
        )


def _pairs(found: Iterator[tuple[BinaryRows, BinaryRows]]) -> Iterator[tuple[bytes, bytes]]:
    for keys, values in found:
        yield from zip(keys.to_pylist(), values.to_pylist(), strict=True)
