"""The work on one store: its rows are read, edited, placed and encoded, and make up its new version.

whole     a snapshot or a zip of each partition (store_writer.py)
on top    a delta or changelog of each partition (append.py), where rows are only put
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from hdfsstore.checkpoint import conf as confs
from hdfsstore.checkpoint.operator_state import OperatorState
from hdfsstore.checkpoint.operators import Store
from hdfsstore.codecs.records import RecordChunk
from hdfsstore.errors import CheckpointNotFoundError
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.repair.append import append, can_append
from hdfsstore.repair.edit import StoreEdit
from hdfsstore.repair.families import family_numbers
from hdfsstore.repair.limits import Limits, Progress
from hdfsstore.repair.placement import Placement
from hdfsstore.repair.plan import StorePlan
from hdfsstore.repair.provider_rows import RowsOfProvider
from hdfsstore.repair.store_writer import StoreFormat, StoreWriter, Tally, Written
from hdfsstore.state.parallel import run_all
from hdfsstore.state.rocksdb.database_writer import DEFAULT_FAMILY


class _Rows(Protocol):
    def add(self, partition: int, chunk: RecordChunk) -> None:
        """Takes rows that a partition is to have: its place among those that are written."""


class StoreJob:
    """The work on one store.

    Args:
        state: where it is read.
        target: the provider and the settings of what is written.
        placement: the rule by which rows move; None: all stay.
        partitions: into so many; None: as many as there are.
        edit: of the rows; also an attribute.
        on_top: whether the new version may be a delta or changelog on top of the state.
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
        *,
        on_top: bool,
    ) -> None:
        self._state = state
        self._store = store
        self._target = target
        self._placement = placement
        self.edit = edit
        self._limits = limits
        self._progress = progress
        self._name = f"operator {state.operator.operator_id}, {store.name}"
        self._from = partitions_of(state, store)
        self._to = self._from
        if placement is not None:
            self._to = list(range(1 if placement.keyless else partitions or store.num_partitions))
        self._rows = RowsOfProvider(state, store, target.provider)
        self._on_top = on_top and can_append(state, store)
        self._tally: Tally | None = None  # of the rows on top of which a version is written, and with it

    def plan(self) -> StorePlan:
        rule = None if self._placement is None else self._placement.name
        return StorePlan(self._store.name, rule, len(self._from), len(self._to))

    def count(self, plan: StorePlan) -> None:
        """Reads all rows and counts what becomes of them."""
        self._tally = Tally(len(self._to)) if self._on_top else None
        self._read(plan, self._tally)

    def write(self, fs: FileManager, root: str, version: int, plan: StorePlan) -> list[Written]:
        """Writes the store; what was written, by partition."""
        written = self._appended(fs, plan) if self._on_top else self._whole(fs, root, version, plan)
        plan.rows_out = sum(each.rows for each in written)
        plan.bytes_out = sum(each.size for each in written)
        return written

    def _read(self, plan: StorePlan, writer: _Rows | None) -> None:
        """Reads all rows, gives what becomes of them to the writer if there is one, and counts."""

        known = plan.rows_in  # they were counted for the plan

        def read(partition_id: int) -> tuple[int, int, int]:
            total = (0, 0, 0)
            files = self._state.files(self._store, partition_id)
            take = partial(self._take, partition_id, writer)
            for counts in files.stream(self._state.version, take, memory=self._limits.change_memory):
                self._progress(f"{self._name}: reading", counts[0], known)
                total = (total[0] + counts[0], total[1] + counts[1], total[2] + counts[2])
            return total

        counted = run_all([partial(read, partition_id) for partition_id in self._from], self._limits.workers)
        plan.rows_in, plan.bytes_in, plan.rows_out = (sum(column) for column in zip(*counted, strict=True))
        if self.edit is not None:
            for chunk in self.edit.added:
                self._hand_on(chunk, None, writer)
                plan.rows_out += len(chunk)

    def _whole(self, fs: FileManager, root: str, version: int, plan: StorePlan) -> list[Written]:
        store = store_at(self._store, fs, root, self._to)
        folders = [store.partition_path(partition_id) for partition_id in self._to]
        with StoreWriter(fs, folders, self._format(version), self._limits.row_memory, self._limits.tmp) as writer:
            self._read(plan, writer)
            self._progress(f"{self._name}: writing", 0)
            return writer.finish(self._limits.workers)

    def _appended(self, fs: FileManager, plan: StorePlan) -> list[Written]:
        if self._tally is None:
            self.count(plan)
        tally = self._tally
        assert tally is not None
        rows: dict[int, list[RecordChunk]] = {partition_id: [] for partition_id in self._to}
        if self.edit is not None and self._placement is not None:
            for chunk in self.edit.added:
                for place, part in _by_place(chunk, self._placement.partitions(chunk, len(self._to))):
                    rows[place].append(part)
        self._progress(f"{self._name}: writing", 0)
        works = [partial(append, fs, self._state, self._store, each, rows[each]) for each in self._to]
        appended = run_all(works, self._limits.workers)
        return [
            Written(version_id, tally.rows[place], tally.digests[place], size)
            for place, (version_id, size) in enumerate(appended)
        ]

    def _take(self, partition_id: int, writer: _Rows | None, chunk: RecordChunk) -> tuple[int, int, int]:
        """Takes a chunk of a partition: its rows and bytes, and how many rows of it are left."""
        size, rows = sum(chunk.sizes()), len(chunk)
        if self._placement is not None:
            self._placement.check(chunk, partition_id)
        if self.edit is not None:
            chunk = self.edit.kept(chunk, partition_id)
        stays = self._placement is None or len(self._to) == self._store.num_partitions
        self._hand_on(chunk, partition_id if stays else None, writer)
        return rows, size, len(chunk)

    def _hand_on(self, chunk: RecordChunk, partition_id: int | None, writer: _Rows | None) -> None:
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


def store_at(store: Store, fs: FileManager, root: str, partition_ids: list[int]) -> Store:
    """The store of that name in another checkpoint."""
    folder = f"{root}/state/{store.operator_id}"
    return Store(fs, folder, store.operator_id, store.name, partition_ids, len(partition_ids))


def _by_place(chunk: RecordChunk, places: pa.Int32Array) -> Iterator[tuple[int, RecordChunk]]:
    """The rows of each place, in their order."""
    order = pc.array_sort_indices(places)
    start = 0
    for counted in pc.value_counts(places.take(order)).to_pylist():
        yield counted["values"], chunk.take(order.slice(start, counted["counts"]))
        start += counted["counts"]
