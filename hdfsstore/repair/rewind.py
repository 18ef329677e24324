"""Sets a query back to a batch: the batches after it never happened. What they left is moved to a backup."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hdfsstore.checkpoint import conf as confs
from hdfsstore.checkpoint.batch_conf import BatchConf
from hdfsstore.checkpoint.batch_logs import BatchLogs, Logged
from hdfsstore.checkpoint.commit_log import CommitLogEntry
from hdfsstore.checkpoint.location import find_checkpoint
from hdfsstore.checkpoint.offset_log import OffsetLogEntry
from hdfsstore.checkpoint.operator_state import OperatorState
from hdfsstore.checkpoint.operators import operators_at
from hdfsstore.codecs.records import MAX_RECORD_BYTES
from hdfsstore.errors import BatchNotAvailableError, RepairError
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.location import Location, resolve
from hdfsstore.fs.reading import read_file
from hdfsstore.fs.storage_options import StorageOptions
from hdfsstore.repair import in_place
from hdfsstore.repair.backup import CHECKPOINT, SINK, Backup, Change
from hdfsstore.repair.files import LogFiles, entries_after, state_files_from
from hdfsstore.repair.limits import Limits, Progress, silent
from hdfsstore.repair.new_batch import NewBatch
from hdfsstore.repair.plan import Plan, Report
from hdfsstore.repair.rewrite import Rewrite
from hdfsstore.repair.sink_log import SinkLog, absolute_location
from hdfsstore.repair.source import Source, check_operators, refuse_our_own
from hdfsstore.repair.source_logs import check_known, reads_kafka

VERB = "rewind"


def rewind(
    location: Location,
    to_batch: int,
    *,
    replay: bool = False,
    replay_merged: bool = False,
    continue_numbers: bool = False,
    sink_accepts_batches_again: bool = False,
    file_sink: str | os.PathLike[str] | None = None,
    dry_run: bool = False,
    storage_options: StorageOptions | None = None,
    limits: Limits | None = None,
    progress: Progress = silent,
) -> Plan:
    """Sets a query back, so that its next batch is `to_batch` + 1. The query must be stopped.

    If an earlier call with the same arguments was killed, this one ends its work.

    Args:
        location, storage_options: the checkpoint, as Checkpoint takes them.
        to_batch: a committed batch. All after it are moved to `_hdfsstore_backup` (hdfsstore.repair.undo).
        replay: the entry of the next batch stays, so that it gets the same rows again.
        replay_merged: the same, with the rows of all batches that are taken back, as one batch.
        continue_numbers: nothing is moved. Two batches are added behind the newest one, with the offsets and the state
            of `to_batch` (new_batch.py), so that no number comes again.
        sink_accepts_batches_again: the sink takes a batch whose number it has seen, and does not skip it.
        file_sink: the folder of the query's file sink. The entries of its log are moved to the backup too.
        dry_run: nothing is changed.
        limits, progress: what writing a state may take, and who is told of it.

    Returns:
        The plan of a dry run, else a Report.

    Raises:
        BatchNotAvailableError: the batch is not committed, or its entries or its state are no longer there.
        CheckpointNotFoundError: there is no checkpoint.
        NotPromisedError: the filesystem does not keep what is needed to be killed at any time.
        RepairError: it is refused; the remedy names the argument that is missing.
        RepairUnderWayError: another repair has begun and not ended.
    """
    begun_at = time.monotonic()
    if replay + replay_merged + continue_numbers > 1:
        raise ValueError("replay, replay_merged and continue_numbers exclude each other")
    fs, root = resolve(location, storage_options)
    find_checkpoint(fs, root)
    sink = None if file_sink is None else absolute_location(file_sink)
    arguments: dict[str, Any] = {
        "to_batch": to_batch,
        "replay": replay,
        "replay_merged": replay_merged,
        "continue_numbers": continue_numbers,
        "sink_accepts_batches_again": sink_accepts_batches_again,
        "file_sink": sink,
    }
    plan = Plan(verb=VERB, path=root, batch_id=to_batch)
    if continue_numbers:
        source = Source.open((fs, root), to_batch)
        work = Rewrite(source, limits=limits or Limits(), progress=progress)
        plan.operators = work.plan()
        new = NewBatch(source, file_sink=sink, storage_options=storage_options)
        new.add(
            plan, arguments, lambda to, path, version: work.write(to, path, version, plan.operators), dry_run=dry_run
        )
    else:
        _set_back(fs, root, plan, arguments, storage_options, dry_run=dry_run)
    return plan if dry_run else Report.of(plan, time.monotonic() - begun_at, verified=continue_numbers)


def _set_back(
    fs: FileManager,
    root: str,
    plan: Plan,
    arguments: Mapping[str, Any],
    storage_options: StorageOptions | None,
    *,
    dry_run: bool,
) -> None:
    logs = BatchLogs(fs, root)
    logged = logs.look()
    backup = None
    if logged.repair is not None:
        backup = in_place.resumed(fs, root, VERB, arguments, storage_options)
        change = backup.change
        plan.notes.append(in_place.RESUMED)
    else:
        refuse_our_own(fs, root)
        in_place.check_promises(fs, root)
        change, new, notes = _Rewind(fs, root, logs, logged, arguments, storage_options).change()
        plan.notes.extend(notes)
        if not dry_run:
            backup = Backup.begin(fs, root, change, new, storage_options)
            in_place.begin(backup)
    plan.files.extend(change.lines())
    if backup is not None and not dry_run:
        in_place.carry_out(backup)


@dataclass(frozen=True, slots=True)
class _Rewind:
    """Finds out what a rewind changes, and whether it may. It reads at most 5 entries of the logs."""

    fs: FileManager
    root: str
    logs: BatchLogs
    logged: Logged
    arguments: Mapping[str, Any]
    storage_options: StorageOptions | None

    def change(self) -> tuple[Change, dict[str, bytes], list[str]]:
        """The change, the content of what it puts in, and notes for the user."""
        batch_id: int = self.arguments["to_batch"]
        entry, commit = self._entries(batch_id)
        offsets = LogFiles.listed(self.fs, self.root, "offsets")
        commits = LogFiles.listed(self.fs, self.root, "commits")
        moves = entries_after(offsets, commits, batch_id)
        if not moves:
            raise RepairError(
                f"batch {batch_id} is the newest one", self.root, remedy="There is nothing to set back: start the query"
            )
        check_known(self.fs, self.root)
        self._check_state(batch_id, entry, commit)
        begun = sorted({*offsets.entries, *commits.entries})
        change = Change(
            VERB,
            self.arguments,
            guard=max([*offsets.names, *commits.names]) + 1,
            batch_id=batch_id,
            offsets=[number for number in offsets.entries if number <= batch_id],
            commits=[number for number in commits.entries if number <= batch_id],
            sink=self.arguments["file_sink"],
        )
        new = self._kept(offsets, moves, change)
        change.moves.extend(f"{CHECKPOINT}{path}" for path in moves)
        change.moves.extend(f"{CHECKPOINT}{path}" for path in state_files_from(self.fs, self.root, batch_id + 2))
        notes = [f"batches {batch_id + 1} to {begun[-1]} are taken back", *self._notes(entry, begun[-1], change)]
        change.puts.extend(new)
        return change, new, notes

    def _entries(self, batch_id: int) -> tuple[OffsetLogEntry, CommitLogEntry | None]:
        logs, logged = self.logs, self.logged
        if batch_id not in logged.done:
            newest = f"The newest committed batch is {max(logged.done)}" if logged.done else "No batch is committed"
            kept = f", the oldest that is kept {min(logged.done)}" if logged.done else ""
            raise BatchNotAvailableError(f"batch {batch_id} is not committed", self.root, remedy=newest + kept)
        if batch_id and batch_id - 1 not in logged.offsets.files:
            raise BatchNotAvailableError(
                f"Spark goes on from batch {batch_id} only if the entry of the batch before it is there",
                f"{self.root}/offsets/{batch_id - 1}",
                remedy="Give a later batch",
            )
        entry = logs.offsets.read(logged.offsets, batch_id)
        if entry is None:
            raise BatchNotAvailableError("a query has purged this entry just now", f"{self.root}/offsets/{batch_id}")
        commit = logs.commits.read(logged.commits, batch_id) if batch_id in logged.commits.files else None
        return entry, commit

    def _kept(self, offsets: LogFiles, moves: list[str], change: Change) -> dict[str, bytes]:
        """Leaves the entry of the next batch in its place for a replay, or makes another one; returns what is new."""
        following = change.batch_id + 1
        if not (self.arguments["replay"] or self.arguments["replay_merged"]):
            return {}
        if following not in offsets.entries:
            raise BatchNotAvailableError(
                f"there is no entry of batch {following} to replay", self.root, remedy="Rewind without a replay"
            )
        change.offsets.append(following)
        newest = max(self.logged.offsets.files)
        if self.arguments["replay"] or newest == following:
            kept = set(offsets.paths(following))
            moves[:] = [path for path in moves if path not in kept]
            return {}
        last = self.logs.offsets.read(self.logged.offsets, newest)
        path = f"offsets/{following}"
        first = read_file(self.fs, f"{self.root}/{path}")
        if last is None:
            raise BatchNotAvailableError("a query has purged this entry just now", f"{self.root}/offsets/{newest}")
        return {f"{CHECKPOINT}{path}": _merged(first, last, f"{self.root}/{path}")}

    def _check_state(self, batch_id: int, entry: OffsetLogEntry, commit: CommitLogEntry | None) -> None:
        """Raises unless all files of the state after the batch are there."""
        provider = entry.conf.get(confs.PROVIDER, confs.HDFS_PROVIDER)
        ids = {} if commit is None else commit.state_unique_ids
        conf = BatchConf(f"{self.root}/offsets/{batch_id}", entry.conf)
        operators = operators_at(self.fs, self.root, batch_id, conf)
        check_operators(self.root, [operator.operator_id for operator in operators], ids)
        for operator in operators:
            of_operator = ids.get(operator.operator_id)
            state = OperatorState(
                fs=self.fs,
                provider=provider,
                operator=operator,
                version=batch_id + 1,
                unique_ids={} if of_operator is None else {batch_id + 1: of_operator},
                conf=entry.conf,
                max_record_bytes=MAX_RECORD_BYTES,
            )
            for store in operator.stores:
                for partition_id in state.partitions(store, store.key_type):
                    state.files(store, partition_id).restart(state.version)

    def _notes(self, entry: OffsetLogEntry, newest: int, change: Change) -> list[str]:
        """Looks at the sink, and says what the user has to know."""
        notes = []
        if change.sink is not None:
            sink = SinkLog(*resolve(change.sink, self.storage_options))
            change.moves.extend(f"{SINK}{path}" for path in sink.after(change.batch_id))
            notes.append(
                "the files that the sink has written in these batches stay; whoever reads the folder through Spark, "
                "or its _spark_metadata, no longer sees them"
            )
        elif not self.arguments["sink_accepts_batches_again"]:
            raise RepairError(
                f"batches {change.batch_id + 1} to {newest} get their numbers again, and sinks that go by batch id "
                "skip them in silence: file sinks and Delta do, and their rows reach neither the sink nor the state",
                self.root,
                remedy="Give --file-sink with the folder of the query's file sink; or --sink-accepts-batches-again if "
                "the sink takes a batch again (Kafka, console, a foreachBatch that does not look at the number)",
            )
        if reads_kafka(entry.offsets):
            notes.append("Kafka may have deleted the records at these offsets: the query then ends, or loses them")
        return notes


def _merged(first: bytes, last: OffsetLogEntry, path: str) -> bytes:
    """The entry of the first batch with the end offsets of the last one."""
    version, metadata, *sources = first.split(b"\n")
    offsets = ["-" if offset is None else offset for offset in last.offsets]
    if last.version > 1:
        offsets = [f"{source}:{offset}" for source, offset in zip(last.source_ids, offsets, strict=True)]
        same = {line.partition(b":")[0] for line in sources} == {source.encode() for source in last.source_ids}
    else:
        same = len(sources) == len(offsets)
    if version.strip() != f"v{last.version}".encode() or not same:
        raise RepairError(
            "the query has other sources in the last batch than in this one, so that they cannot be one batch",
            path,
            remedy="Rewind with --replay, or without a replay",
        )
    return b"\n".join([version, metadata, *(offset.encode() for offset in offsets)])
