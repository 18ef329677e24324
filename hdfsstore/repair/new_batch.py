"""Adds a batch to a checkpoint in place: the offsets of batch N again, beside a state that was written anew.

    offsets/<m>                      offsets/N word for word, but for settings that change; m comes after the newest one
    state/<op>/<partition>/          version m + 1 of every partition of every store, whole by itself or on top
    state/<op>/_metadata/v2/<m>      that of N, if the number of partitions changes, or a batch since has another one
    commits/<m>                      commits/N with the new unique ids
    <sink>/_spark_metadata/<m>       the empty entry of a file sink

Spark's own repartition adds such a batch (OfflineStateRepartitionRunner.scala in Spark). If N is not the newest batch,
two of them are added: a source of files refuses to start where its offset in the newest entry is below that in the one
before (FileStreamSource.getBatch). Nothing that counts is replaced. What an attempt to run a batch has left after the
newest one is moved to the backup.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from hdfsstore.checkpoint.commit_log import read_commit_log
from hdfsstore.errors import RepairError
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.location import resolve
from hdfsstore.fs.reading import read_file
from hdfsstore.fs.storage_options import StorageOptions
from hdfsstore.repair import in_place
from hdfsstore.repair.backup import CHECKPOINT, SINK, Backup, Change
from hdfsstore.repair.checked_files import checked_files
from hdfsstore.repair.files import LogFiles, entries_after, parts_of_state, state_files_from
from hdfsstore.repair.log_entries import with_conf, with_operator, with_unique_ids
from hdfsstore.repair.plan import Plan
from hdfsstore.repair.rewrite import UniqueIds
from hdfsstore.repair.sink_log import SinkLog
from hdfsstore.repair.source import Source

_NO_ENTRY = (
    "Spark's file sink needs an entry of this batch in its log, or the query ends at the next compaction: give "
    "--file-sink if the query has such a sink, or write a new checkpoint with --to"
)
_AGGREGATION = "stateStoreSave"
# Writes the state as a version below a path, and returns its unique ids.
WriteState = Callable[[FileManager, str, int], UniqueIds]


@dataclass(frozen=True, slots=True)
class NewBatch:
    """The batch that is added.

    Attributes:
        source: the checkpoint at batch N.
        conf: settings that change, by name.
        partitions: another number of partitions; None: it stays.
        file_sink: the folder of the query's file sink, as a URI or an absolute path.
        storage_options: for it.
    """

    source: Source
    conf: Mapping[str, str] = field(default_factory=dict)
    partitions: int | None = None
    file_sink: str | None = None
    storage_options: StorageOptions | None = None

    @property
    def batch_ids(self) -> list[int]:
        """The numbers that are added: one, or two."""
        latest = self.source.latest
        return [latest + 1] if self.source.batch_id == latest else [latest + 1, latest + 2]

    def change(self, verb: str, arguments: Mapping[str, Any]) -> tuple[Change, dict[str, bytes]]:
        """The change, and the content of what it puts in; the commit's comes with the state.

        Raises:
            RepairError: the batch has no commit; or the sink's log does not take the entry.
        """
        source, new = self.source, self.batch_ids
        if source.batch_id not in source.commits:
            raise RepairError(
                "there is no log of commits to add a batch to: Spark 2.1 wrote this",
                source.path,
                remedy="Let a newer Spark run a batch on the checkpoint first",
            )
        offsets, commits = (LogFiles.listed(source.fs, source.path, log) for log in ("offsets", "commits"))
        for number in commits.entries:
            if number > source.latest and number in offsets.entries:
                raise RepairError(
                    f"batch {number} was committed just now: a query runs on the checkpoint",
                    source.path,
                    remedy="Stop the query first",
                )
        change = Change(
            verb,
            arguments,
            guard=max(*offsets.names, *commits.names, new[-1] - 1) + 1,
            batch_id=new[-1],
            offsets=[*(number for number in offsets.entries if number < new[0]), *new],
            commits=[*(number for number in commits.entries if number < new[0]), *new],
            state_version=new[0] + 1,
            parts=parts_of_state(source.fs, source.path),
            sink=self.file_sink,
        )
        left = [*entries_after(offsets, commits, source.latest), *state_files_from(source.fs, source.path, new[0] + 1)]
        change.moves.extend(f"{CHECKPOINT}{path}" for path in left)
        content = self._metadata()
        if self.file_sink is not None:
            sink = SinkLog(*resolve(self.file_sink, self.storage_options))
            change.moves.extend(f"{SINK}{path}" for path in sink.later(source.latest))
            content |= {f"{SINK}{path}": entry for path, entry in sink.empty_entries(new)}
        change.puts.extend(content)
        path = f"{source.path}/offsets/{source.batch_id}"
        entry = with_conf(source.offsets[source.batch_id], path, self.conf)
        for number in new:
            change.puts.extend([f"{CHECKPOINT}commits/{number}", f"{CHECKPOINT}offsets/{number}"])
            content[change.puts[-1]] = entry
        return change, content

    def add(self, plan: Plan, arguments: Mapping[str, Any], write_state: WriteState, *, dry_run: bool) -> None:
        """Adds it, or ends what the same call has begun before it was killed, and completes the plan.

        Args:
            plan: of the verb.
            arguments: of the verb, in values of JSON.
            write_state: writes the state, and checks that it can be read.
            dry_run: nothing is changed.

        Raises:
            NotPromisedError: the filesystem does not keep what is needed to be killed at any time.
            RepairError: a query runs on the checkpoint; or as `change`.
            RepairUnderWayError: another repair has begun and not ended.
        """
        source, backup = self.source, None
        if source.checkpoint.repair is not None:
            backup = in_place.resumed(source.fs, source.path, plan.verb, arguments, self.storage_options)
            change = backup.change
            plan.notes.append(in_place.RESUMED)
        else:
            in_place.check_promises(source.fs, source.path)
            change, content = self.change(plan.verb, arguments)
            if not dry_run:
                backup = Backup.begin(source.fs, source.path, change, content, self.storage_options)
                in_place.begin(backup)
        plan.files.extend(change.lines())
        plan.notes.append(
            f"the offsets of batch {source.batch_id} come again as batch {change.batch_id}, which has no output"
        )
        if change.sink is None and self._may_have_a_file_sink():
            plan.notes.append(_NO_ENTRY)
        if backup is not None and not dry_run:
            in_place.carry_out(backup, partial(self._write, write_state))

    def _write(self, write_state: WriteState, backup: Backup) -> list[str]:
        source, change = self.source, backup.change
        first = change.state_version
        assert first is not None
        path = f"{source.path}/commits/{source.batch_id}"
        # A state file that appears after another process has undone the verb would be taken for one of the next batch.
        files = checked_files(source.fs, backup.check_held, backup.check_written)
        for version in range(first, change.batch_id + 2):
            ids = write_state(files, source.path, version)
            commit = with_unique_ids(source.commits[source.batch_id], path, ids)
            backup.stage(f"{CHECKPOINT}commits/{version - 1}", commit)
        return state_files_from(source.fs, source.path, first)

    def _may_have_a_file_sink(self) -> bool:
        """False where the logs rule it out: file sinks are of Spark's first API, and only append.

        Without a watermark Spark refuses an aggregation that appends. A watermark is above 0 after the first rows.
        """
        source = self.source
        batch = source.checkpoint.batch(source.batch_id)
        names = {state.operator.name for state in source.states}
        if _AGGREGATION in names and not max(batch.watermark_ms, batch.next_watermark_ms or 0):
            return False
        commit = read_commit_log(source.fs, f"{source.path}/commits/{source.batch_id}")
        versions = [sink.get("apiVersion") for sink in commit.sinks.values() if sink.get("isActive", True)]
        return not versions or any(version != "DSv2" for version in versions)

    def _metadata(self) -> dict[str, bytes]:
        """The operators' metadata that the batch needs, by path."""
        source, found = self.source, {}
        for state in source.states:
            folder = f"state/{state.operator.operator_id}/_metadata/v2"
            numbers = LogFiles.listed(source.fs, source.path, folder).entries
            kept = max((number for number in numbers if number <= source.batch_id), default=None)
            if kept is None or (self.partitions is None and max(numbers) == kept):
                continue
            path = f"{source.path}/{folder}/{kept}"
            content = read_file(source.fs, path)
            if self.partitions is not None:
                content = with_operator(content, path, None, self.partitions)
            found[f"{CHECKPOINT}{folder}/{self.batch_ids[0]}"] = content
        return found
