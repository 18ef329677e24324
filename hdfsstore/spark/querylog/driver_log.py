"""Keeps the driver's log of a query: for each batch, the attempt of each partition that counts.

    <checkpoint>/metadata, offsets/<N>, commits/<N>     Spark's
    <checkpoint>/hdfsstore/metadata                     a copy of Spark's
                          /offsets/<N>                  a copy of Spark's, written when batch N begins
                          /commits/<N>                  written when the sink has returned: batch N is done
                          /rewound/<time>-<N>/...       entries from N on that a rewind has set aside

A copy of offsets has the same bytes, unless the query's own settings (codec, row checksums, partitions) differ from
Spark's. Then the conf in the copy has the query's settings, because readers of the state use it, and an object of ours
has the SHA-256 of Spark's entry:

    "hdfsstore":{"offsets":"<SHA-256 of Spark's offsets/N>"}

An entry of commits is one of Spark's commit log (hdfsstore/checkpoint/commit_log.py) with an object of ours:

    "hdfsstore":{"offsets":"<SHA-256 of Spark's offsets/N>","nextTimeoutMs":1700000000000,"batches":{...}}

`offsets` says to which batch N the entry belongs. `nextTimeoutMs` is a lower bound of the timeouts in the state; it is
missing if there are none. `batches` has the shapes of the batches up to N, for the plan of the next one
(batch_shape.py). nextBatchWatermarkMs is the watermark of the batch itself, because the next one is known only when the
batch has ended.

Spark writes its offsets/N, calls foreachBatch, and writes its commits/N when foreachBatch has returned. Batch N takes
these steps:

    1  offsets/N of ours            created only if absent
    2  tasks write version N + 1    under unique names (format 2); the sink writes its output
    3  commits/N of ours            created only if absent: the fence
    4  entries no longer needed     deleted; by the first batch of a driver also what killed writers have left
    5  commits/N of Spark

After a kill at any point the next driver starts, and Spark calls batch N again until step 5 is done:

    killed            found by the next driver                what it does
    before 1          no entry from N on                      1 and on, from the ids of commits/N-1
    in 1              the same, and a temporary file, which   the same
                      is not an entry
    after 1, in 2     offsets/N is Spark's, no commits/N      2 and on, from the ids of commits/N-1: the versions that
                                                              were written have other names, or are written over
    after 3, in 4     offsets/N is Spark's, commits/N too     nothing: the sink had finished. The first finish deletes
                                                              what was left
    after 5           Spark begins batch N + 1                as above

If our entries from N on do not belong to the batch N that Spark runs, the user has set Spark's log back: rewind.py.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from hdfsstore.checkpoint.commit_log import CommitLog, encode_commit_log, read_commit_log
from hdfsstore.checkpoint.metadata_log import MetadataLog
from hdfsstore.checkpoint.offset_log import read_offset_log
from hdfsstore.errors import (
    BatchAlreadyLoggedError,
    CheckpointIdMismatchError,
    LogMismatchError,
    MissingFileError,
    StateStoreError,
)
from hdfsstore.fs.location import Location, resolve
from hdfsstore.fs.publish import abort_unfinished, remove, remove_leftovers
from hdfsstore.fs.threads import beside
from hdfsstore.spark.querylog.log_entries import (
    FOLDER,
    NEXT_TIMEOUT,
    OFFSETS,
    SET_BACK,
    SHAPES,
    Entry,
    Finished,
    LoggedBatch,
    Reported,
    Start,
    copied,
    hdfsstore_commit,
    hdfsstore_entry,
    hdfsstore_fields,
    read_entry,
    settings_of,
)
from hdfsstore.spark.querylog.rewind import copy_metadata, is_done, settle
from hdfsstore.spark.spec import OPERATOR_ID
from hdfsstore.state.conf import StateStoreConf
from hdfsstore.state.maintenance.retries import Retries
from hdfsstore.state.protocols import StateStoreCheckpointInfo

log = logging.getLogger("hdfsstore.spark.driver_log")


class DriverLog:
    """The log of one run of a query. Only one thread may use it at a time.

    Args:
        checkpoint: the query's checkpointLocation, as hdfsstore.Checkpoint takes it.
        num_partitions: number of partitions of the state.
        conf: settings of the stores. The log keeps the entries of the batches whose versions the stores retain.
    """

    def __init__(self, checkpoint: Location, num_partitions: int, conf: StateStoreConf) -> None:
        self._fs, self._checkpoint = resolve(checkpoint)
        self._root = f"{self._checkpoint}/{FOLDER}"
        self._offsets = MetadataLog(self._fs, f"{self._root}/offsets", read_offset_log, only_ours=True)
        self._commits = MetadataLog(self._fs, f"{self._root}/commits", read_commit_log, only_ours=True)
        self._writer = CommitLog(
            (self._fs, self._root),
            checkpoint_format_version=conf.checkpoint_format_version,
            num_partitions=num_partitions,
        )
        self._num_partitions = num_partitions
        self._settings = settings_of(conf, num_partitions)
        self._keep = conf.min_versions_to_retain
        self._begun: tuple[int, Entry, LoggedBatch | None] | None = None
        self._finished: LoggedBatch | None = None
        self._purged = False
        self._purging = Retries(log, f"{self._root}: old entries of the log are left", conf.maintenance_interval)

    def begin(self, batch_id: int, meanwhile: Callable[[Start], object] = bool) -> Start:
        """Does step 1 of a batch, after Spark has written its entry of offsets. Returns what the batch starts from.

        Args:
            meanwhile: prepares the batch, and is called with what the batch starts from. It changes nothing that others
                see, because it may be called before the entry is written, and again if another driver was quicker.

        Raises:
            MissingFileError: Spark's entry, or our entry of the batch before, does not exist.
            LogMismatchError: our entries of the batch before belong to another batch than the one that Spark ran.
            BatchAlreadyLoggedError: another driver has begun the batch meanwhile.
            CorruptFileError: an entry is damaged.
            StateStoreError: the filesystem fails.
        """
        path = f"{self._checkpoint}/offsets/{batch_id}"
        entry = read_entry(self._fs, path)
        if entry is None:
            raise MissingFileError(
                f"Spark runs batch {batch_id} without having written this entry",
                path,
                remedy="Turn the option asyncProgressTrackingEnabled off: a query with state needs the log",
            )
        start = self._go_on(batch_id, entry, meanwhile)
        if start is not None:
            return start
        if is_done(self._fs, self._root, batch_id, entry):
            return Start(batch_id, True, (), *entry.times, entry.parsed.watermark_ms)
        before = self._finished_before(batch_id) if batch_id else None
        copy_metadata(self._fs, self._checkpoint, self._root)
        is_repeated = settle(self._fs, self._checkpoint, self._root, batch_id, copied(entry, self._settings))
        start = self._start(batch_id, entry, before, is_repeated=is_repeated)
        meanwhile(start)
        self._begun = batch_id, entry, before
        return start

    def finish(
        self,
        batch_id: int,
        reports: Mapping[int, Reported],
        next_timeout_ms: int | None = None,
        shapes: Any = None,
    ) -> None:
        """Does steps 3 and 4 of the batch that was begun last. Then the batch is done, and no other attempt counts.

        Args:
            reports: the chosen report of each partition.
            next_timeout_ms: no timeout in the state expires before it; None: there is none.
            shapes: the shapes of the batches up to this one, as JSON.

        Raises:
            BatchAlreadyLoggedError: another driver has finished the batch, so this one must stop.
            CheckpointIdMismatchError: a task started from another version than the driver told it.
            StateStoreError: a partition has not reported, or the filesystem fails.
        """
        if self._begun is None or self._begun[0] != batch_id:
            raise ValueError(f"batch {batch_id} was not begun")
        _, entry, before = self._begun
        infos = {
            partition_id: [StateStoreCheckpointInfo(partition_id, batch_id + 1, report.new_id, report.base_id)]
            for partition_id, report in reports.items()
        }
        fields = hdfsstore_fields(entry, next_timeout_ms, shapes)
        base_ids = before.commit.state_unique_ids if before else {}
        commit = self._writer.checked(batch_id, entry.parsed.watermark_ms, {OPERATOR_ID: infos}, base_ids, fields)
        self._commits.add(batch_id, encode_commit_log(commit))
        self._finished = LoggedBatch(batch_id, entry, commit)
        self._begun = None
        self._purge(batch_id - self._keep - 1)

    def last_finished(self) -> Finished | None:
        """The newest finished batch that is also in Spark's log, for a driver that starts; None if there is none."""
        for batch_id in reversed(self._commits.list().files):
            entry = read_entry(self._fs, f"{self._checkpoint}/offsets/{batch_id}")
            commit = hdfsstore_commit(self._fs, self._root, batch_id) if entry else None
            if entry is not None and commit is not None and entry.digest == commit.hdfsstore_fields.get(OFFSETS):
                return Finished(batch_id, *entry.times, commit.hdfsstore_fields.get(NEXT_TIMEOUT))
        return None

    def _go_on(self, batch_id: int, entry: Entry, meanwhile: Callable[[Start], object]) -> Start | None:
        """Does step 1 for the batch after the one that this driver has finished. None: begin must look at the log."""
        before = self._finished
        if before is None or before.batch_id != batch_id - 1:
            return None
        start = self._start(batch_id, entry, before)
        content = copied(entry, self._settings).content
        try:
            beside(partial(self._offsets.add, batch_id, content), partial(meanwhile, start))
        except BatchAlreadyLoggedError:
            return None
        self._begun = batch_id, entry, before
        return start

    def _start(self, batch_id: int, entry: Entry, before: LoggedBatch | None, *, is_repeated: bool = False) -> Start:
        return Start(
            batch_id,
            False,
            self._base_ids(before),
            *entry.times,
            (before.entry if before else entry).parsed.watermark_ms,
            before.commit.hdfsstore_fields.get(NEXT_TIMEOUT) if before else None,
            is_repeated,
            before.commit.hdfsstore_fields.get(SHAPES) if before else None,
        )

    def _finished_before(self, batch_id: int) -> LoggedBatch:
        """The batch before, after a check that Spark ran the same one."""
        if self._finished is not None and self._finished.batch_id == batch_id - 1:
            return self._finished
        path = f"{self._root}/commits/{batch_id - 1}"
        commit = hdfsstore_commit(self._fs, self._root, batch_id - 1)
        entry = hdfsstore_entry(self._fs, self._root, batch_id - 1)
        if commit is None or entry is None:
            raise self._missing(batch_id, path if commit is None else f"{self._root}/offsets/{batch_id - 1}")
        theirs = read_entry(self._fs, f"{self._checkpoint}/offsets/{batch_id - 1}") or entry
        if not theirs.digest == entry.digest == commit.hdfsstore_fields.get(OFFSETS):
            raise LogMismatchError(
                f"batch {batch_id} cannot start: batch {batch_id - 1} of this entry is not the one in "
                f"{self._checkpoint}/offsets, which the query has run without hdfsstore.spark",
                path,
                remedy=f"Set the query back to a batch that is in both logs ({SET_BACK}), or start it with a new "
                "checkpointLocation",
            )
        return LoggedBatch(batch_id - 1, entry, commit)

    def _missing(self, batch_id: int, path: str) -> MissingFileError:
        kept = list(self._commits.list().files)
        if kept:
            why = f"this entry, which names its state, is not there; the log holds batches {kept[0]} to {kept[-1]}"
            remedy = f"Put the file back, or set the query back to a batch after one that the log holds ({SET_BACK})"
        else:
            why = "the query has run before, and there is no log of its state"
            remedy = (
                "Put the checkpoint's folder hdfsstore back; if the query ran without hdfsstore.spark until now, "
                "start it with a new checkpointLocation"
            )
        return MissingFileError(f"batch {batch_id} cannot start: {why}", path, remedy=remedy)

    def _base_ids(self, before: LoggedBatch | None) -> tuple[str | None, ...]:
        ids = before.commit.state_unique_ids.get(OPERATOR_ID, []) if before else []
        if not ids:
            return (None,) * self._num_partitions
        if before is not None and len(ids) != self._num_partitions:
            raise CheckpointIdMismatchError(
                f"the log holds the ids of {len(ids)} partitions, and the state has {self._num_partitions}",
                f"{self._root}/commits/{before.batch_id}",
                remedy="Give the query the number of partitions that it was first started with",
            )
        return tuple(partition[0] or None for partition in ids)

    def _purge(self, before: int) -> None:
        """Does step 4. A later batch or driver deletes what this one cannot delete. The batch is done nevertheless."""
        if self._purging.is_put_off:
            return
        try:
            if not self._purged:
                self._offsets.purge(before)
                self._commits.purge(before)
                abort_unfinished(self._fs, self._root)
                remove_leftovers(self._fs, self._root, self._fs.list_folder(self._root))
                self._purged = True
            elif before > 0:
                name = str(before - 1)
                remove(self._fs, [f"{self._root}/{folder}/{name}" for folder in ("offsets", "commits")], {name})
        except StateStoreError as error:
            self._purged = False
            self._purging.failed(error)
        else:
            self._purging.succeeded()
