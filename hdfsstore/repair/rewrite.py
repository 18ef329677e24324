"""The engine of a repair: reads each store of a source, moves and encodes its rows, and writes them as one new version.

    read      raw keys and values of a partition, in chunks (OperatorState.files)
    place     the partition of each row by the rule of its operator, which is proved on all rows of the source; without
              another number of partitions all rows stay where they are
    encode    the keys and values of another provider
    write     a snapshot or a zip of each partition (store_writer.py), which is then read back

No row becomes an object of Python.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from hdfsstore._cext.records import digest_spans
from hdfsstore.checkpoint import conf as confs
from hdfsstore.checkpoint.operator_state import OperatorState
from hdfsstore.checkpoint.operators import Operator, Store
from hdfsstore.codecs.records import RecordChunk
from hdfsstore.errors import CheckpointNotFoundError, CorruptFileError
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.repair.families import family_numbers
from hdfsstore.repair.limits import Limits, Progress, silent
from hdfsstore.repair.plan import OperatorPlan, StorePlan
from hdfsstore.repair.source import Source
from hdfsstore.repair.store_writer import StoreFormat, StoreWriter, Written
from hdfsstore.state.parallel import run_all
from hdfsstore.state.rocksdb.database_writer import DEFAULT_FAMILY

# operator -> partition -> the unique id of each store; empty in checkpoint format version 1
UniqueIds = dict[int, list[list[str]]]


@dataclass(frozen=True, slots=True)
class Rewrite:
    """What is done to the state of a source.

    Attributes:
        source: from where the rows come.
        limits: what the work may take.
        progress: is told of it.
    """

    source: Source
    limits: Limits = field(default_factory=Limits)
    progress: Progress = silent

    @property
    def conf_changes(self) -> dict[str, str]:
        """The settings that the entry of the offset log gets."""
        return {}

    def plan(self) -> list[OperatorPlan]:
        """What happens to each store. Schemas and numbers of families are read, and no rows."""
        return [
            OperatorPlan(
                state.operator.operator_id,
                state.operator.name,
                [self._job(state, store).plan() for store in state.operator.stores],
            )
            for state in self.source.states
        ]

    def count(self, plans: list[OperatorPlan]) -> None:
        """Reads all rows, and completes the plan with what was counted, as `write` would. Nothing is written.

        Raises:
            PlacementError: rows are not where the rule of their operator puts them.
            StateStoreError: the state cannot be read.
        """
        for state, operator in zip(self.source.states, plans, strict=True):
            for store, plan in zip(state.operator.stores, operator.stores, strict=True):
                self._job(state, store).read(plan, None, self.limits, self.progress)

    def write(self, fs: FileManager, root: str, version: int, plans: list[OperatorPlan]) -> UniqueIds:
        """Writes the state as a version of the checkpoint at `root`, reads it back, and completes the plan.

        Every partition of every store gets a file that is whole by itself. Names are of that version, so nothing counts
        before the logs name it.

        Raises:
            CorruptFileError: what is read back is not what was to be written.
            PlacementError: rows are not where the rule of their operator puts them.
            StateStoreError: the state cannot be read, or the files cannot be written.
        """
        ids: UniqueIds = {}
        for state, operator in zip(self.source.states, plans, strict=True):
            written = []
            for store, plan in zip(state.operator.stores, operator.stores, strict=True):
                written.append(self._job(state, store).write(fs, root, version, plan, self.limits, self.progress))
            by_partition = [[each.version_id[1] or "" for each in stores] for stores in zip(*written, strict=True)]
            if any(any(stores) for stores in by_partition):
                ids[state.operator.operator_id] = by_partition
            result = _result_of(state, fs, root, version, by_partition)
            for store, partitions in zip(result.operator.stores, written, strict=True):
                _check(result, store, partitions, self.limits, self.progress)
        return ids

    def _job(self, state: OperatorState, store: Store) -> _Job:
        return _Job(state, store)


class _Job:
    """The work on one store."""

    def __init__(self, state: OperatorState, store: Store) -> None:
        self._state = state
        self._store = store
        self._name = f"operator {state.operator.operator_id}, {store.name}"
        self._partitions = partitions_of(state, store)

    def plan(self) -> StorePlan:
        count = len(self._partitions)
        return StorePlan(self._store.name, None, count, count)

    def read(self, plan: StorePlan, writer: StoreWriter | None, limits: Limits, progress: Progress) -> None:
        """Reads all rows, gives them to the writer if there is one, and counts them."""

        def read(index: int) -> tuple[int, int]:
            rows = nbytes = 0
            files = self._state.files(self._store, self._partitions[index])
            for count, size in files.stream(self._state.version, partial(self._take, index, writer)):
                progress(f"{self._name}: reading", count)
                rows, nbytes = rows + count, nbytes + size
            return rows, nbytes

        counted = run_all([partial(read, index) for index in range(len(self._partitions))], limits.workers)
        plan.rows_in = plan.rows_out = sum(rows for rows, _ in counted)
        plan.bytes_in = sum(nbytes for _, nbytes in counted)

    def write(
        self, fs: FileManager, root: str, version: int, plan: StorePlan, limits: Limits, progress: Progress
    ) -> list[Written]:
        """Writes the store; what was written, by partition."""
        store = _store_at(self._store, fs, root, self._partitions)
        folders = [store.partition_path(partition_id) for partition_id in self._partitions]
        with StoreWriter(fs, folders, self._format(version), limits.memory, limits.tmp) as writer:
            self.read(plan, writer, limits, progress)
            progress(f"{self._name}: writing", 0)
            written = writer.finish(limits.workers)
        plan.rows_out = sum(each.rows for each in written)
        plan.bytes_out = sum(each.size for each in written)
        return written

    def _take(self, index: int, writer: StoreWriter | None, chunk: RecordChunk) -> tuple[int, int]:
        """Hands a chunk of a partition on; its rows and bytes."""
        if writer is not None:
            writer.add(index, chunk)
        return len(chunk), _bytes_of(chunk)

    def _format(self, version: int) -> StoreFormat:
        state = self._state
        families: Mapping[str, int] = family_numbers(state, self._store) or DEFAULT_FAMILY
        return StoreFormat(
            state.provider,
            version,
            bool(state.unique_ids.get(state.version)),
            confs.compression_codec(state.conf),
            confs.row_checksum(state.conf),
            families,
        )


def partitions_of(state: OperatorState, store: Store) -> list[int]:
    """The partitions of a store whose rows make up its state.

    Raises:
        CheckpointNotFoundError: one of them has no folder.
    """
    there = [partition_id for partition_id in store.partition_ids if partition_id < store.num_partitions]
    for partition_id in store.needed_partitions(store.key_type):
        if partition_id not in there:
            raise CheckpointNotFoundError(
                f"operator {state.operator.operator_id} has no partition {partition_id}",
                store.partition_path(partition_id),
                remedy="The checkpoint was not copied whole: its state would be lost",
            )
    return sorted(there)


def _bytes_of(chunk: RecordChunk) -> int:
    halves = [pa.Array.from_buffers(pa.int64(), len(chunk), [None, spans]) for spans in (chunk.keys, chunk.values)]
    return sum(pc.sum(pc.shift_right(each, 32)).as_py() or 0 for each in halves)


def _store_at(store: Store, fs: FileManager, root: str, partition_ids: list[int]) -> Store:
    """The store of that name in another checkpoint."""
    folder = f"{root}/state/{store.operator_id}"
    return Store(fs, folder, store.operator_id, store.name, partition_ids, len(partition_ids))


def _result_of(state: OperatorState, fs: FileManager, root: str, version: int, ids: list[list[str]]) -> OperatorState:
    """The state that was written, for reading it back."""
    operator = state.operator
    stores = [_store_at(store, fs, root, list(range(len(ids)))) for store in operator.stores]
    return replace(
        state,
        fs=fs,
        operator=Operator(operator.operator_id, operator.name, stores, operator.properties),
        version=version,
        unique_ids={version: ids} if any(map(any, ids)) else {},
        empty_folders=False,
    )


def _check(state: OperatorState, store: Store, written: list[Written], limits: Limits, progress: Progress) -> None:
    """Reads a store back. Raises CorruptFileError unless its rows are those that were written."""

    def check(partition_id: int) -> None:
        rows = digest = 0
        for count, of_chunk in state.files(store, partition_id).stream(version, _counted):
            progress(f"operator {store.operator_id}, {store.name}: reading back", count)
            rows, digest = rows + count, (digest + of_chunk) % (1 << 64)
        expected = written[partition_id]
        if (rows, digest) != (expected.rows, expected.digest):
            raise CorruptFileError(
                f"{rows} rows were read back, and {expected.rows} were written; the rows are not the same",
                store.partition_path(partition_id),
                remedy="The storage does not keep what is written to it",
            )

    version = state.version
    run_all([partial(check, partition_id) for partition_id in store.partition_ids], limits.workers)


def _counted(chunk: RecordChunk) -> tuple[int, int]:
    return len(chunk), digest_spans(chunk.data, chunk.keys, chunk.values)
