"""The engine of a repair: reads each store of a source, moves and encodes its rows, and writes them as one new version.

    read      raw keys and values of a partition, in chunks (OperatorState.files)
    place     the partition of each row by the rule of its operator, which is proved on all rows of the source; without
              another number of partitions all rows stay where they are
    encode    the keys and values of another provider
    write     a snapshot or a zip of each partition (store_writer.py), which is then read back

No row becomes an object of Python.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
from hdfsstore.repair.placement import Placement, placement_of
from hdfsstore.repair.plan import OperatorPlan, StorePlan
from hdfsstore.repair.provider_rows import RowsOfProvider
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
        partitions: the number of state partitions of every operator; None: as it is.
        provider: the class of the state store provider; None: as it is.
        kinds: operator -> what the user says it is, for placement_of.
        limits: what the work may take.
        progress: is told of it.
    """

    source: Source
    partitions: int | None = None
    provider: str | None = None
    kinds: Mapping[int, str] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    progress: Progress = silent

    @property
    def conf_changes(self) -> dict[str, str]:
        """The settings that the entry of the offset log gets, as far as they differ."""
        wanted = {}
        if self.partitions is not None:
            wanted[confs.SHUFFLE_PARTITIONS] = str(self.partitions)
        if self.provider is not None:
            wanted[confs.PROVIDER] = self.provider
        return {name: value for name, value in wanted.items() if self.source.conf.get(name) != value}

    def plan(self) -> list[OperatorPlan]:
        """What happens to each store. Schemas and numbers of families are read, and rows where only they can tell.

        Raises:
            PlacementError: the rule of an operator is not known.
            RepairError: the provider has no such stores.
        """
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
                self._job(state, store).read(plan, None)

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
            target = self._target(state)
            written = [
                self._job(state, store).write(fs, root, version, plan)
                for store, plan in zip(state.operator.stores, operator.stores, strict=True)
            ]
            by_partition = [[each.version_id[1] or "" for each in stores] for stores in zip(*written, strict=True)]
            if any(map(any, by_partition)):
                ids[state.operator.operator_id] = by_partition
            result = _result_of(target, fs, root, version, by_partition)
            for store, partitions in zip(result.operator.stores, written, strict=True):
                _check(result, store, partitions, self.limits, self.progress)
        return ids

    def _job(self, state: OperatorState, store: Store) -> _Job:
        kind = self.kinds.get(state.operator.operator_id)
        moves = self.partitions is not None and self.partitions != store.num_partitions
        placement = placement_of(state, store, kind) if moves else None
        return _Job(state, store, self._target(state), placement, self.partitions, self.limits, self.progress)

    def _target(self, state: OperatorState) -> OperatorState:
        """The same state with the provider and the settings of what is written."""
        return replace(state, provider=self.provider or state.provider, conf={**state.conf, **self.conf_changes})


class _Job:
    """The work on one store.

    Args:
        state: where it is read.
        target: the provider and the settings of what is written.
        placement: the rule by which rows move; None: all stay.
        partitions: into so many.
    """

    def __init__(
        self,
        state: OperatorState,
        store: Store,
        target: OperatorState,
        placement: Placement | None,
        partitions: int | None,
        limits: Limits,
        progress: Progress,
    ) -> None:
        self._state = state
        self._store = store
        self._target = target
        self._placement = placement
        self._limits = limits
        self._progress = progress
        self._name = f"operator {state.operator.operator_id}, {store.name}"
        self._from = partitions_of(state, store)
        self._to = self._from
        if placement is not None and partitions is not None:
            self._to = list(range(1 if placement.keyless else partitions))
        self._rows = RowsOfProvider(state, store, target.provider)

    def plan(self) -> StorePlan:
        rule = None if self._placement is None else self._placement.name
        return StorePlan(self._store.name, rule, len(self._from), len(self._to))

    def read(self, plan: StorePlan, writer: StoreWriter | None) -> None:
        """Reads all rows, gives them to the writer if there is one, and counts them."""

        def read(partition_id: int) -> tuple[int, int]:
            rows = nbytes = 0
            files = self._state.files(self._store, partition_id)
            for count, size in files.stream(self._state.version, partial(self._take, partition_id, writer)):
                self._progress(f"{self._name}: reading", count)
                rows, nbytes = rows + count, nbytes + size
            return rows, nbytes

        counted = run_all([partial(read, partition_id) for partition_id in self._from], self._limits.workers)
        plan.rows_in = plan.rows_out = sum(rows for rows, _ in counted)
        plan.bytes_in = sum(nbytes for _, nbytes in counted)

    def write(self, fs: FileManager, root: str, version: int, plan: StorePlan) -> list[Written]:
        """Writes the store; what was written, by partition."""
        store = _store_at(self._store, fs, root, self._to)
        folders = [store.partition_path(partition_id) for partition_id in self._to]
        with StoreWriter(fs, folders, self._format(version), self._limits.memory, self._limits.tmp) as writer:
            self.read(plan, writer)
            self._progress(f"{self._name}: writing", 0)
            written = writer.finish(self._limits.workers)
        plan.rows_out = sum(each.rows for each in written)
        plan.bytes_out = sum(each.size for each in written)
        return written

    def _take(self, partition_id: int, writer: StoreWriter | None, chunk: RecordChunk) -> tuple[int, int]:
        """Hands a chunk of a partition on; its rows and bytes."""
        size = _bytes_of(chunk)
        places = None
        if self._placement is not None:
            self._placement.check(chunk, partition_id)
            places = self._placement.partitions(chunk, len(self._to))
        rows = self._rows.convert(chunk)
        if writer is not None and places is None:
            writer.add(self._to.index(partition_id), rows)
        elif writer is not None and places is not None:
            for place, part in _by_place(rows, places):
                writer.add(place, part)
        return len(chunk), size

    def _format(self, version: int) -> StoreFormat:
        state, target = self._state, self._target
        families: Mapping[str, int] = family_numbers(state, self._store) or DEFAULT_FAMILY
        has_ids = bool(state.unique_ids.get(state.version)) and target.provider != confs.HDFS_PROVIDER
        codec, row_checksums = confs.compression_codec(target.conf), confs.row_checksum(target.conf)
        return StoreFormat(target.provider, version, has_ids, codec, row_checksums, families)


def _by_place(chunk: RecordChunk, places: pa.Int32Array) -> Iterator[tuple[int, RecordChunk]]:
    """The rows of each place, in their order."""
    order = pc.array_sort_indices(places)
    keys, values = (
        pa.Array.from_buffers(pa.int64(), len(chunk), [None, spans]).take(order).buffers()[1]
        for spans in (chunk.keys, chunk.values)
    )
    start = 0
    for counted in pc.value_counts(places.take(order)).to_pylist():
        size = 8 * counted["counts"]
        yield counted["values"], replace(chunk, keys=keys.slice(start, size), values=values.slice(start, size))
        start += size


def partitions_of(state: OperatorState, store: Store) -> list[int]:
    """The partitions of a store whose rows make up its state.

    Raises:
        CheckpointNotFoundError: one of them has no folder.
    """
    there = state.partitions(store, store.key_type)
    for partition_id in store.needed_partitions(store.key_type):
        if partition_id not in there:
            raise CheckpointNotFoundError(
                f"operator {state.operator.operator_id} has no partition {partition_id}",
                store.partition_path(partition_id),
                remedy="The checkpoint was not copied whole: its state would be lost",
            )
    return there


def _bytes_of(chunk: RecordChunk) -> int:
    halves = [pa.Array.from_buffers(pa.int64(), len(chunk), [None, spans]) for spans in (chunk.keys, chunk.values)]
    return sum(pc.sum(pc.shift_right(each, 32)).as_py() or 0 for each in halves)


def _store_at(store: Store, fs: FileManager, root: str, partition_ids: list[int]) -> Store:
    """The store of that name in another checkpoint."""
    folder = f"{root}/state/{store.operator_id}"
    return Store(fs, folder, store.operator_id, store.name, partition_ids, len(partition_ids))


def _result_of(state: OperatorState, fs: FileManager, root: str, version: int, ids: list[list[str]]) -> OperatorState:
    """The state that was written, for reading it back.

    Args:
        state: its provider and settings.
        ids: partition -> the unique id of each store, empty without ids.
    """
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
