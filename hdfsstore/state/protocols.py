"""Declares the provider of one partition of a store, and the stores that read or write one of its versions.

Spark's StateStoreProvider, StateStore and ReadStateStore (StateStore.scala), with Arrow beside the single keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import NamedTuple, Protocol, Self, TypeVar

import pyarrow as pa

from hdfsstore.codecs.records import RecordChunk
from hdfsstore.state.store_id import StateStoreId

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StateStoreCheckpointInfo:
    """The result of a commit, which a task reports.

    Attributes:
        partition_id: of the store.
        version: the new version.
        checkpoint_unique_id: of the new version; None in checkpoint format version 1.
        base_checkpoint_unique_id: of the version below it; None for version 0, and in checkpoint format version 1.
    """

    partition_id: int
    version: int
    checkpoint_unique_id: str | None
    base_checkpoint_unique_id: str | None


class ReadStateStore(Protocol):
    """One version of a store, for reading by one thread. Byte keys and values; Arrow for many of them.

    Keys and values of the `batch` methods are structs by the provider's schemas, encoded as UnsafeRows.
    Every call after commit, abort or close raises StateStoreClosedError.
    """

    @property
    def id(self) -> StateStoreId: ...

    @property
    def version(self) -> int:
        """The version that is read, and on which a commit builds."""

    def get(self, key: bytes) -> bytes | None:
        """The key's value; None if the key is absent."""

    def get_many(self, keys: pa.BinaryArray | pa.LargeBinaryArray) -> pa.BinaryArray | pa.LargeBinaryArray:
        """The values of the keys, aligned, null where absent. `keys` must not hold nulls."""

    def get_batch(self, keys: pa.RecordBatch) -> pa.RecordBatch:
        """The values' columns for the keys' rows, aligned; every column is null where the key is absent."""

    def iterator(self) -> Iterator[tuple[bytes, bytes]]:
        """All keys and values as they are now, in no order. Later updates do not show."""

    def prefix_scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """All keys, with their values, whose first num_cols_prefix_key columns are the row `prefix`."""

    def expired(
        self, before: int, max_rows: int = 10_000
    ) -> Iterator[tuple[pa.BinaryArray | pa.LargeBinaryArray, pa.BinaryArray | pa.LargeBinaryArray]]:
        """All keys, with their values, whose long at timeout_offset is less than `before`, as they are now.

        In no order. Later updates do not show. A key whose long is -1 or null never expires. The cost depends on the
        number of these keys, not on the size of the store.

        Args:
            max_rows: most keys in one pair of arrays.

        Raises:
            ValueError: the provider was opened without an timeout_offset, or max_rows is less than 1.
        """

    def next_expiry(self) -> int | None:
        """The least long at timeout_offset of all keys now, without -1 and nulls; None: there is none."""

    def scan(self) -> Iterator[pa.RecordBatch]:
        """The same keys and values as `iterator`, as record batches with the struct columns `key` and `value`."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The batches of `scan` by Arrow's PyCapsule interface, for polars, DuckDB, pandas and nanoarrow.

        The second of two fields of one name is numbered, `sum_2`. Each call gives the rows as they are then.

        Args:
            requested_schema: the capsule of a schema of the same columns in other types; None: as they are.

        Raises:
            SchemaMismatchError: the provider was opened without schemas.
            ValueError, TypeError: Arrow cannot cast the rows to that schema.
        """

    @property
    def metrics(self) -> Mapping[str, int | float]:
        """By Spark's names: numTotalStateRows, numUpdatedStateRows, numRemovedStateRows, memoryUsedBytes, ..."""

    def close(self) -> None:
        """Releases the version. A writable store that was not committed is aborted."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class StateStore(ReadStateStore, Protocol):
    """One version of a store and updates on top of it, which `commit` writes as the next version."""

    def put(self, key: bytes, value: bytes) -> None:
        """Sets the key's value."""

    def remove(self, key: bytes) -> None:
        """Removes the key. An absent key writes nothing."""

    def put_many(
        self, keys: pa.BinaryArray | pa.LargeBinaryArray, values: pa.BinaryArray | pa.LargeBinaryArray
    ) -> None:
        """Sets the values of the keys, in their order: of a key that is there twice the last value counts. No nulls."""

    def remove_many(self, keys: pa.BinaryArray | pa.LargeBinaryArray) -> None:
        """Removes the keys."""

    def put_batch(self, keys: pa.RecordBatch, values: pa.RecordBatch) -> None:
        """put_many of rows. StateStoreError: a key is of another partition, and the provider knows their number."""

    def remove_batch(self, keys: pa.RecordBatch) -> None:
        """remove_many of rows, with the same check."""

    def commit(self) -> StateStoreCheckpointInfo:
        """Writes the next version, as durable as the filesystem allows, and ends the store."""

    def abort(self) -> None:
        """Drops the updates and ends the store."""


class StateStoreProvider(Protocol):
    """Opens versions of one partition of a store. Threads may share it; each store is for one thread."""

    @property
    def id(self) -> StateStoreId: ...

    def get_store(self, version: int, checkpoint_unique_id: str | None = None) -> StateStore:
        """A writable store on top of exactly that version.

        Args:
            version: 0 is the empty store.
            checkpoint_unique_id: of the version, if it was written in checkpoint format version 2.

        Raises:
            BatchNotAvailableError, MissingFileError: the files that make up the version are not there.
            CorruptFileError: one of them is damaged.
        """

    def get_read_store(self, version: int, checkpoint_unique_id: str | None = None) -> ReadStateStore:
        """The same for reading only."""

    def do_maintenance(self) -> None:
        """Makes snapshots, cleans up and updates the metrics, as the background thread does at each interval.

        A failure is logged, counted in the metrics and tried again. It raises nothing.
        """

    def release(self) -> None:
        """Drops all cached versions. Open stores keep theirs."""

    @property
    def metrics(self) -> Mapping[str, int | float]:
        """Counters of the provider since it was opened: snapshots, failures, files deleted, loads, ..."""

    def close(self) -> None:
        """Stops the background work and releases memory. Stores that are still open go on reading."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class KeyRange(NamedTuple):
    """Stored keys in their order as unsigned bytes, from `first` to `end` without the latter; None: no bound."""

    first: bytes | None = None
    end: bytes | None = None


ALL_KEYS = KeyRange()


class PartitionReader(Protocol):
    """Reads versions of one partition from the files of a store, which need not be open."""

    def load(self, version: int, convert: Callable[[RecordChunk], T], keys: KeyRange = ALL_KEYS) -> list[T]:
        """The state at `version`, each key once, as `convert` of one chunk of records after the other.

        Args:
            keys: the keys that are needed. Where files are not sorted, all others come, too.

        Raises:
            BatchNotAvailableError, MissingFileError: the files that make up the version are not there.
            CorruptFileError: they are damaged.
        """

    def stream(
        self,
        version: int,
        convert: Callable[[RecordChunk], T],
        keys: KeyRange = ALL_KEYS,
        memory: int | None = None,
    ) -> Iterator[T]:
        """The same in bounded memory. No record comes from a file, or a block with a checksum, before it is checked.

        Args:
            memory: bytes that the changes since the snapshot may take; files are read several times where they take
                more. None: as many as they take.
        """

    def changes(self, versions: Sequence[int], convert: Callable[[int, RecordChunk], T]) -> list[T]:
        """Every update and removal of `versions`, in their order, as `convert` of a version and its chunks."""
