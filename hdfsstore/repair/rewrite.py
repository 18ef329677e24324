"""The engine of a repair: reads each store of a source, moves and encodes its rows, and writes them as one new version.

    read      raw keys and values of a partition, in chunks (OperatorState.files)
    edit      rows that are removed, put or made anew (edit.py)
    place     the partition of each row by the rule of its operator, which is proved on all rows of the source; without
              another number of partitions all rows stay where they are
    encode    the keys and values of another provider
    write     a snapshot or a zip of each partition (store_writer.py), which is then read back

No row becomes an object of Python.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import pyarrow as pa
import pyarrow.compute as pc

from hdfsstore._cext.records import digest_spans
from hdfsstore.checkpoint import conf as confs
from hdfsstore.checkpoint.operator_state import OperatorState
from hdfsstore.checkpoint.operators import Operator, Store
from hdfsstore.codecs.records import RecordChunk
from hdfsstore.errors import CheckpointNotFoundError, CorruptFileError, RepairError
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.repair.checked_files import without_checks
from hdfsstore.repair.edit import Edit, StoreEdit
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


@dataclass(frozen=True)
class Rewrite:
    """What is done to the state of a source.

    Attributes:
        source: from where the rows come.
        partitions: the number of state partitions of every operator; None: as it is.
        provider: the class of the state store provider; None: as it is.
        edits: changes of rows, at most one of each store. They come first.
        kinds: operator -> what the user says it is, for placement_of.
        limits: what the work may take.
        progress: is told of it.
    """

    source: Source
    partitions: int | None = None
    provider: str | None = None
    edits: Sequence[Edit] = ()
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
            OperatorPlan(state.operator.operator_id, state.operator.name, [job.plan() for job in jobs])
            for state, jobs in zip(self.source.states, self._jobs, strict=True)
        ]

    def count(self, plans: list[OperatorPlan]) -> None:
        """Reads all rows, and completes the plan with what was counted, as `write` would. Nothing is written.

        Raises:
            PlacementError: rows are not where the rule of their operator puts them.
            StateStoreError: the state cannot be read.
        """
        for jobs, operator in zip(self._jobs, plans, strict=True):
            for job, plan in zip(jobs, operator.stores, strict=True):
                job.read(plan, None)

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
        for state, jobs, operator in zip(self.source.states, self._jobs, plans, strict=True):
            target = self._target(state)
            written = [job.write(fs, root, version, plan) for job, plan in zip(jobs, operator.stores, strict=True)]
            by_partition = [[each.version_id[1] or "" for each in stores] for stores in zip(*written, strict=True)]
            if any(map(any, by_partition)):
                ids[state.operator.operator_id] = by_partition
            result = _result_of(target, without_checks(fs), root, version, by_partition)
            for store, partitions in zip(result.operator.stores, written, strict=True):
                _check(result, store, partitions, self.limits, self.progress)
        return ids

    @cached_property
    def _jobs(self) -> list[list[_Job]]:
        """The work on each store of each operator."""
        edits = {(edit.operator_id, edit.store_name): edit for edit in self.edits}
        if len(edits) < len(self.edits):
            raise RepairError("there are two edits of one store", self.source.path, remedy="Give one after the other")
        jobs = []
        for state in self.source.states:
            of = state.operator
            jobs.append([self._job(state, store, edits.pop((of.operator_id, store.name), None)) for store in of.stores])
        for operator_id, name in edits:
            raise RepairError(f"there is no store {name!r} of an operator {operator_id} to edit", self.source.path)
        return jobs

    def _job(self, state: OperatorState, store: Store, edit: Edit | None) -> _Job:
        kind = self.kinds.get(state.operator.operator_id)
        moves = self.partitions is not None and self.partitions != store.num_partitions
        placement = placement_of(state, store, kind) if moves or edit is not None else None
        edits = None if edit is None or placement is None else StoreEdit(state, store, edit, placement.kind)
        return _Job(state, store, self._target(state), placement, self.partitions, edits, self.limits, self.progress)

    def _target(self, state: OperatorState) -> OperatorState:
        """The same state with the provider and the settings of what is written."""
        return replace(state, provider=self.provider or state.provider, conf={**state.conf, **self.conf_changes})


class _Job:
    """The work on one store.

    Args:
        state: where it is read.
        target: the provider and the settings of what is written.
        placement: the rule by which rows move; None: all stay.
        partitions: into so many; None: as many as there are.
        edit: of the rows.
    """

    def __init__(
        self,
        state: OperatorState,
        store: Store,
        target: OperatorState,
        placement: Placement | None,
        partitions: int | None,
        edit: StoreEdit | None,
        limits: Limits,
        progress: Progress,
    ) -> None:
        self._state = state
        self._store = store
        self._target = target
        self._placement = placement
        self._edit = edit
        self._limits = limits
        self._progress = progress
        self._name = f"operator {state.operator.operator_id}, {store.name}"
        self._from = partitions_of(state, store)
        self._to = self._from
        if placement is not None:
            self._to = list(range(1 if placement.keyless else partitions or store.num_partitions))
        self._rows = RowsOfProvider(state, store, target.provider)

    def plan(self) -> StorePlan:
        rule = None if self._placement is None else self._placement.name
        return StorePlan(self._store.name, rule, len(self._from), len(self._to))

    def read(self, plan: StorePlan, writer: StoreWriter | None) -> None:
        """Reads all rows, gives what becomes of them to the writer if there is one, and counts."""

        def read(partition_id: int) -> tuple[int, int, int]:
            total = (0, 0, 0)
            files = self._state.files(self._store, partition_id)
            for counts in files.stream(self._state.version, partial(self._take, partition_id, writer)):
                self._progress(f"{self._name}: reading", counts[0])
                total = (total[0] + counts[0], total[1] + counts[1], total[2] + counts[2])
            return total

        counted = run_all([partial(read, partition_id) for partition_id in self._from], self._limits.workers)
        plan.rows_in, plan.bytes_in, plan.rows_out = (sum(column) for column in zip(*counted, strict=True))
        if self._edit is not None:
            for chunk in self._edit.added():
                self._hand_on(chunk, None, writer)
                plan.rows_out += len(chunk)

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

    def _take(self, partition_id: int, writer: StoreWriter | None, chunk: RecordChunk) -> tuple[int, int, int]:
        """Takes a chunk of a partition: its rows and bytes, and how many rows of it are left."""
        size, rows = _bytes_of(chunk), len(chunk)
        if self._placement is not None:
            self._placement.check(chunk, partition_id)
        if self._edit is not None:
            chunk = self._edit.kept(chunk, partition_id)
        stays = self._placement is None or len(self._to) == self._store.num_partitions
        self._hand_on(chunk, partition_id if stays else None, writer)
        return rows, size, len(chunk)

    def _hand_on(self, chunk: RecordChunk, partition_id: int | None, writer: StoreWriter | None) -> None:
        """Gives rows to the writer.

        Args:
            partition_id: where they stay; None: their keys tell.
        """
        if writer is None or not len(chunk):
            return
        if partition_id is not None:
            writer.add(self._to.index(partition_id), self._rows.convert(chunk))
            return
        assert self._placement is not None
        places = self._placement.partitions(chunk, len(self._to))
        for place, part in _by_place(self._rows.convert(chunk), places):
            writer.add(place, part)

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
