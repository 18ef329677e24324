"""The engine of a repair: reads each store of a source, moves and encodes its rows, and writes them as one new version.

    read      raw keys and values of a partition, in chunks (OperatorState.files)
    edit      rows that are removed, put or made anew (edit.py)
    place     the partition of each row by the rule of its operator, which is proved on all rows of the source; without
              another number of partitions all rows stay where they are
    encode    the keys and values of another provider
    write     a snapshot or a zip of each partition, or what is put on top of it (store_job.py), which is then read back

No row becomes an object of Python.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from hdfsstore._cext.records import digest_spans
from hdfsstore.checkpoint import conf as confs
from hdfsstore.checkpoint.operator_state import OperatorState
from hdfsstore.checkpoint.operators import Operator, Store
from hdfsstore.codecs.records import RecordChunk
from hdfsstore.errors import CorruptFileError, RepairError
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.repair.checked_files import without_checks
from hdfsstore.repair.edit import Edit, StoreEdit
from hdfsstore.repair.limits import Limits, Progress, silent
from hdfsstore.repair.placement import placement_of
from hdfsstore.repair.plan import OperatorPlan
from hdfsstore.repair.source import Source
from hdfsstore.repair.store_job import StoreJob, store_at
from hdfsstore.repair.store_writer import Written
from hdfsstore.state.parallel import run_all

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
        on_top: the state is written beside that of the source, as the version after it. So edits that only put rows
            need no more than a delta or changelog, where the store may have one.
    """

    source: Source
    partitions: int | None = None
    provider: str | None = None
    edits: Sequence[Edit] = ()
    kinds: Mapping[int, str] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    progress: Progress = silent
    on_top: bool = False

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
                job.count(plan)

    def write(self, fs: FileManager, root: str, version: int, plans: list[OperatorPlan]) -> UniqueIds:
        """Writes the state as a version of the checkpoint at `root`, reads it back, and completes the plan.

        Every partition of every store gets a file, which is whole by itself unless it is on top. Names are of that
        version, so nothing counts before the logs name it.

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

    def edits_told(self) -> list[list[str | int | bool | None]]:
        """The edits in values of JSON, which differ where the edits make other rows."""
        return [job.edit.told() for jobs in self._jobs for job in jobs if job.edit is not None]

    @cached_property
    def _jobs(self) -> list[list[StoreJob]]:
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

    def _job(self, state: OperatorState, store: Store, edit: Edit | None) -> StoreJob:
        kind = self.kinds.get(state.operator.operator_id)
        moves = self.partitions is not None and self.partitions != store.num_partitions
        placement = placement_of(state, store, kind, self.limits.change_memory) if moves or edit is not None else None
        edits = None if edit is None or placement is None else StoreEdit(state, store, edit, placement.kind)
        on_top = (
            self.on_top
            and len(self.edits) > 0
            and self.partitions is None
            and self.provider is None
            and all(each.rows is not None and each.remove is None for each in self.edits)
        )
        return StoreJob(
            state,
            store,
            self._target(state),
            placement,
            self.partitions,
            edits,
            self.limits,
            self.progress,
            on_top=on_top,
        )

    def _target(self, state: OperatorState) -> OperatorState:
        """The same state with the provider and the settings of what is written."""
        return replace(state, provider=self.provider or state.provider, conf={**state.conf, **self.conf_changes})


def _result_of(state: OperatorState, fs: FileManager, root: str, version: int, ids: list[list[str]]) -> OperatorState:
    """The state that was written, for reading it back.

    Args:
        state: its provider and settings.
        ids: partition -> the unique id of each store, empty without ids.
    """
    operator = state.operator
    stores = [store_at(store, fs, root, list(range(len(ids)))) for store in operator.stores]
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

    total = sum(each.rows for each in written)

    def check(partition_id: int) -> None:
        rows = digest = 0
        read = state.files(store, partition_id).stream(version, _counted, memory=limits.change_memory)
        for count, of_chunk in read:
            progress(f"operator {store.operator_id}, {store.name}: reading back", count, total)
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
