"""The bytes and rows of a store that is looked at again and again, each partition as it was last seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from hdfsstore.checkpoint.checkpoint import Checkpoint
from hdfsstore.checkpoint.operator_state import OperatorState
from hdfsstore.checkpoint.operators import Operator, Store
from hdfsstore.codecs.records import DELTA_FILES, Extensions
from hdfsstore.errors import FileSystemTimeoutError, StateStoreError
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.in_order import in_order
from hdfsstore.report.facts import rows_by_family
from hdfsstore.state.rocksdb.archive import CHANGELOG_FILES
from hdfsstore.state.usage import files_of
from hdfsstore.state.versions.files import parse_name


@dataclass(frozen=True, slots=True)
class PartitionNow:
    """A partition as it was last seen. `rows` is None until they have been counted."""

    partition_id: int
    rows: int | None
    bytes: int


@dataclass(frozen=True, slots=True)
class StoreNow:
    """A store as it was last seen.

    Attributes:
        operator_name: None before Spark 4.0.
        partitions: each may have been seen at another batch.
        bytes_batch: the oldest batch after which a partition was listed.
        changed_bytes: of the deltas or changelogs of that batch; None if there are none.
        rows_batch: the oldest batch after which a partition was counted; None until all have been counted.
        first_rows: the first batch after which all have been counted, and the rows then; None as rows_batch.
        note: why rows are not counted; else None.
    """

    operator_id: int
    operator_name: str | None
    name: str
    partitions: list[PartitionNow]
    bytes_batch: int
    changed_bytes: int | None
    rows_batch: int | None
    first_rows: tuple[int, int] | None
    note: str | None

    @property
    def bytes(self) -> int:
        """Of all files of all partitions."""
        return sum(partition.bytes for partition in self.partitions)

    @property
    def rows(self) -> int | None:
        """Of all partitions; None until all have been counted."""
        return None if self.rows_batch is None else sum(partition.rows or 0 for partition in self.partitions)


class WatchedOperator:
    """Finds the state of an operator after one batch after the other.

    Args:
        operator: as it is at the first one.
    """

    def __init__(self, checkpoint: Checkpoint, operator: Operator) -> None:
        self.operator = operator
        self._checkpoint = checkpoint
        self._state: OperatorState | None = None

    def at(self, batch_id: int) -> OperatorState:
        """Its state after a committed batch. Raises what Checkpoint.operator_state does."""
        version = batch_id + 1
        if self._state is None or (self.operator.name is not None and self._state.version != version):
            self._state = self._checkpoint.operator_state(self.operator.operator_id, batch_id)
        elif self._state.version != version:
            # Before Spark 4.0 there are no metadata and no unique ids. To find it anew would list all partitions.
            self._state = replace(self._state, version=version)
        return self._state


class WatchedStore:
    """A store of an operator.

    Args:
        extensions: of its deltas and snapshots.
        partition_ids: those that have its state.
    """

    def __init__(
        self, of: WatchedOperator, store: Store, extensions: Extensions, partition_ids: Sequence[int], note: str | None
    ) -> None:
        self._of = of
        self._store = store
        self._note = note
        self._first_rows: tuple[int, int] | None = None
        self.partitions = [WatchedPartition(self, store, number, extensions) for number in partition_ids]

    def now(self) -> StoreNow:
        """What was seen last."""
        listed = min((partition.listed for partition in self.partitions), default=0)
        counted = min((partition.counted for partition in self.partitions), default=-1)
        if counted >= 0 and self._first_rows is None:
            self._first_rows = counted, sum(partition.rows or 0 for partition in self.partitions)
        changed = [partition.changed[listed] for partition in self.partitions if listed in partition.changed]
        return StoreNow(
            self._store.operator_id,
            self._of.operator.name,
            self._store.name,
            [PartitionNow(each.partition_id, each.rows, each.bytes) for each in self.partitions],
            listed,
            sum(changed) if changed else None,
            None if counted < 0 else counted,
            self._first_rows,
            self._note,
        )

    def count(self, partition: WatchedPartition, batch_id: int) -> None:
        """Counts the rows of a partition after a batch. It notes why, if they cannot be counted.

        Raises:
            FileSystemTimeoutError: the storage does not answer.
        """
        try:
            state = self._of.at(batch_id)
            rows = rows_by_family(state, state.operator.store(self._store.name), partition.partition_id)
        except FileSystemTimeoutError:
            raise
        except StateStoreError as error:
            partition.tried = batch_id
            self._note = f"rows are not counted: {error}"
            return
        partition.tried = batch_id
        partition.rows, partition.counted, self._note = rows.total(), batch_id, None


class WatchedPartition:
    """A partition of a store.

    Attributes:
        bytes: of its files.
        changed: batch -> bytes of its deltas.
        listed, counted, tried: the last batch after which it was listed, was counted, was to be counted; else -1.
        rows: at `counted`.
    """

    def __init__(self, of: WatchedStore, store: Store, partition_id: int, extensions: Extensions) -> None:
        self.of = of
        self.partition_id = partition_id
        self.bytes = 0
        self.changed: dict[int, int] = {}
        self.listed = self.counted = self.tried = -1
        self.rows: int | None = None
        self._folder = store.partition_path(partition_id)
        self._extensions = extensions

    def sizes(self, fs: FileManager) -> tuple[int, dict[int, int]]:
        """Lists its folder: the bytes of all files, and of the deltas by their batch."""
        files = files_of(fs, self._folder)
        changed: Counter[int] = Counter()
        for info in files:
            parsed = parse_name(info.base_name, self._extensions)
            if parsed and parsed[1] == "delta":
                changed[parsed[0][0] - 1] += info.size or 0
        return sum(info.size or 0 for info in files), dict(changed)


def list_partitions(fs: FileManager, partitions: Sequence[WatchedPartition], batch_id: int) -> None:
    """Lists these partitions after a batch."""
    with in_order(fs, [partial(partition.sizes, fs) for partition in partitions]) as sizes:
        for partition, (total, changed) in zip(partitions, sizes, strict=True):
            partition.bytes, partition.changed, partition.listed = total, changed, batch_id


def watched_stores(
    checkpoint: Checkpoint, operators: Sequence[Operator], rocksdb: bool, batch_id: int
) -> list[WatchedStore]:
    """The stores of operators, after a batch."""
    stores = []
    for operator in operators:
        of, state, note = WatchedOperator(checkpoint, operator), None, None
        try:
            state = of.at(batch_id)
        except StateStoreError as error:
            note = f"rows are not counted: {error}"
        for store in operator.stores:
            ids = store.partition_ids if state is None else state.partitions(store, store.key_type)
            stores.append(WatchedStore(of, store, CHANGELOG_FILES if rocksdb else DELTA_FILES, ids, note))
    return stores
