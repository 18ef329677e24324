"""Looks at a checkpoint again and again while its query runs, with few requests each time.

A look lists both logs. Only after a new batch it also lists folders of partitions and reads state, within an allowance.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from hdfsstore.checkpoint.batch_conf import first_repartition, nearest_conf
from hdfsstore.checkpoint.batch_logs import BatchLogs, Logged
from hdfsstore.checkpoint.checkpoint import Checkpoint
from hdfsstore.checkpoint.conf import PROVIDER, ROCKSDB_PROVIDER
from hdfsstore.checkpoint.offset_log import OffsetLogEntry
from hdfsstore.checkpoint.operators import operators_at
from hdfsstore.errors import FileSystemTimeoutError
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.local_files import LocalFileManager
from hdfsstore.report.facts import BatchFacts, batch_facts
from hdfsstore.report.watched_store import StoreNow, WatchedStore, list_partitions, watched_stores

NEWEST_BATCHES = 20
# Partitions that a look lists on a remote storage, and what it may take to count rows, on average.
FOLDERS = 16
REQUESTS, BYTES, SECONDS = 16, 8 << 20, 0.25


@dataclass(frozen=True, slots=True)
class Moment:
    """What a look has seen.

    Attributes:
        path: the checkpoint.
        remark: as Checkpoint has it.
        batches: the newest ones of the logs.
        stores: empty until a batch is committed, and where the query keeps no state.
        warnings: about logs and repairs, in words; or that the storage does not answer, and all else is of before.
    """

    path: str
    remark: str | None
    batches: list[BatchFacts]
    stores: list[StoreNow]
    warnings: list[str]

    @property
    def committed(self) -> BatchFacts | None:
        """The newest committed batch."""
        return next((batch for batch in reversed(self.batches) if batch.committed), None)

    @property
    def running(self) -> BatchFacts | None:
        """The newest batch, if it is not committed."""
        return self.batches[-1] if self.batches and not self.batches[-1].committed else None


class Watched:
    """A checkpoint that is looked at again and again, by one thread.

    Args:
        open: opens the checkpoint.

    Raises:
        As `open`.
    """

    def __init__(self, open: Callable[[], Checkpoint]) -> None:
        self._open = open
        self._batches: list[BatchFacts] = []
        self._warnings: list[str] = []
        self._was_seen = False
        self._begin()

    def look(self) -> Moment:
        """Lists the logs and, after a new batch, folders of partitions.

        Raises:
            CheckpointNotFoundError: the checkpoint is gone.
            FileSystemTimeoutError: at the first look. Later ones tell of a storage that does not answer, and of what
                was seen before.
        """
        try:
            self._look()
        except FileSystemTimeoutError as error:
            if not self._was_seen:
                raise
            self._warnings = [_unanswered(error)]
        self._was_seen = True
        return self._moment()

    def _look(self) -> None:
        logged = self._logs.look()
        newest = max(logged.done, default=None)
        if (newest is None and not logged.offsets.files) or self._is_another(logged, newest):
            # It may be gone, set back or made anew. A query of hdfsstore.spark makes its own folder in its first batch.
            self._begin()
            logged = self._logs.look()
            newest = max(logged.done, default=None)
        if newest is not None:
            self._follow(logged, newest)
        self._batches = batch_facts(self._logs, logged, NEWEST_BATCHES)
        self._warnings = self._warn(logged)

    def count(self, *, limited: bool = True) -> Moment:
        """Counts rows after the newest batch, first where the last count is the oldest.

        Args:
            limited: whether only as many partitions are counted as the allowance is good for.
        """
        self._allowance.grow()
        newest = -1 if self._newest is None else self._newest
        parts = [part for store in self._stores for part in store.partitions if part.tried < newest]
        try:
            for part in sorted(parts, key=lambda part: (part.tried, -part.bytes)):
                if limited and self._allowance.used_up:
                    break
                self._allowance.spend(partial(part.of.count, part, newest))
        except FileSystemTimeoutError as error:  # each further partition would take as long
            self._warnings = [_unanswered(error)]
        return self._moment()

    def _begin(self) -> None:
        self._checkpoint = self._open()
        self._logs = BatchLogs(self._checkpoint.file_manager, self._checkpoint.path)
        self._allowance = _Allowance(self._checkpoint.file_manager)
        self._newest: int | None = None
        self._newest_entry: OffsetLogEntry | None = None
        self._layout: tuple[int | None, str | None] | None = None
        self._stores: list[WatchedStore] = []

    def _is_another(self, logged: Logged, newest: int | None) -> bool:
        """Whether batches have gone back or were made anew, or a batch has come and no state was found so far."""
        if self._newest in logged.offsets.files:
            entry = self._logs.offsets.read(logged.offsets, self._newest)  # a file that is unchanged is read once
            if entry is not None and entry != self._newest_entry:
                return True
        if newest == self._newest:
            return False
        goes_back = newest is None or (self._newest is not None and newest < self._newest)
        return goes_back or bool(self._batches and not self._stores)

    def _follow(self, logged: Logged, newest: int) -> None:
        """Looks at the stores after the newest committed batch."""
        fs, path = self._checkpoint.file_manager, self._checkpoint.path
        conf = nearest_conf(self._logs, logged, newest)
        layout = (conf.num_partitions, conf.conf.get(PROVIDER)) if conf else (None, None)
        if layout != self._layout or not self._stores:
            rocksdb = self._checkpoint.provider == ROCKSDB_PROVIDER
            operators = operators_at(fs, path, newest, conf)
            self._stores = watched_stores(self._checkpoint, operators, rocksdb, newest)
            self._layout = layout
        self._newest, self._newest_entry = newest, self._logs.offsets.read(logged.offsets, newest)
        parts = [part for store in self._stores for part in store.partitions]
        stale = sorted((part for part in parts if part.listed < newest), key=lambda part: part.listed)
        if isinstance(fs, LocalFileManager) or any(part.listed < 0 for part in parts):
            list_partitions(fs, stale, newest)
        else:
            list_partitions(fs, stale[:FOLDERS], newest)

    def _warn(self, logged: Logged) -> list[str]:
        warnings = [f"A log is damaged: {error}" for error in logged.damaged]
        if logged.repair is not None:
            warnings.append(f"A repair has not ended: {logged.repair}")
        unfinished = logged.offsets.files.keys() - logged.done
        if found := first_repartition(self._logs, logged, unfinished):
            warnings.append(
                f"Batch {found.batch_id}, a repartition from {found.before} to {found.after} partitions, is not done."
            )
        return warnings

    def _moment(self) -> Moment:
        stores = [store.now() for store in self._stores]
        return Moment(self._checkpoint.path, self._checkpoint.remark, self._batches, stores, self._warnings)


class _Allowance:
    """What may be taken of a storage at a look. What is taken beyond it is taken off the next looks."""

    def __init__(self, fs: FileManager) -> None:
        self._fs = fs
        self._left = [0.0, 0.0, 0.0]

    @property
    def used_up(self) -> bool:
        return min(self._left) <= 0

    def grow(self) -> None:
        self._left = [min(left, 0) + more for left, more in zip(self._left, (REQUESTS, BYTES, SECONDS), strict=True)]

    def spend(self, work: Callable[[], None]) -> None:
        """Does the work, and takes off what it has cost."""
        before = self._cost()
        work()
        self._left = [
            left - (after - first) for left, after, first in zip(self._left, self._cost(), before, strict=True)
        ]

    def _cost(self) -> tuple[float, float, float]:
        counts = self._fs.requests.snapshot()
        return sum(counts.requests.values()), counts.bytes_read, time.monotonic()


def _unanswered(error: FileSystemTimeoutError) -> str:
    return f"The storage does not answer, and is asked again: {error}"
