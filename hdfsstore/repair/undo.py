"""Takes back what the last in-place verb has done, byte for byte, or what one that was killed has begun."""

from __future__ import annotations

import logging
import time

from hdfsstore.checkpoint.batch_logs import BatchLogs
from hdfsstore.checkpoint.location import find_checkpoint
from hdfsstore.errors import RepairError
from hdfsstore.fs.location import Location, place_of, resolve
from hdfsstore.fs.storage_options import StorageOptions
from hdfsstore.repair import in_place
from hdfsstore.repair.backup import CHECKPOINT, SINK, Backup, Change, last_done
from hdfsstore.repair.files import LogFiles, entries_after, parts_of_state, state_files_from
from hdfsstore.repair.limits import Limits, Progress, silent
from hdfsstore.repair.plan import Plan, Report
from hdfsstore.repair.put_back import check_readable
from hdfsstore.repair.sink_log import SinkLog

log = logging.getLogger("hdfsstore.repair")

# The first half of an undo after the query has gone on.
_SET_ASIDE = "undo --force"


def undo(
    location: Location,
    *,
    force: bool = False,
    dry_run: bool = False,
    storage_options: StorageOptions | None = None,
    limits: Limits | None = None,
    progress: Progress = silent,
) -> Plan:
    """Puts a checkpoint back to what it was before the last in-place verb. The query must be stopped.

    Args:
        location, storage_options: the checkpoint, as Checkpoint takes them.
        force: also if the query has run since, and its batches since then are moved to a backup of their own; also if
            the backup is not whole, or the checkpoint was moved.
        dry_run: nothing is changed.
        limits, progress: what reading the state that comes back may take, and who is told of it. It is read before
            anything is done if the query has run since.

    Returns:
        The plan of a dry run, else a Report.

    Raises:
        CheckpointNotFoundError: there is no checkpoint.
        RepairError: there is nothing to undo; or it takes `force`; or the query has run for so long that its retention
            has deleted what the backup builds on.
    """
    begun_at = time.monotonic()
    fs, root = resolve(location, storage_options)
    find_checkpoint(fs, root)
    under_way = BatchLogs(fs, root).look().repair is not None
    found = in_place.begun(fs, root, storage_options) if under_way else None
    notes = []
    if found is not None and found[0].verb == _SET_ASIDE:
        if not dry_run:
            in_place.carry_out(found[1])
        found = None
    if found is not None:
        backup, since = found[1], None
        notes.append(f"`{found[0].verb}` has not ended")
        notes += [
            f"batch {number}, which a query has committed while `{backup.change.verb}` was at work, is begun again: "
            "its rows reach the sink a second time"
            for number in in_place.committed_meanwhile(backup)
        ]
    else:
        last = last_done(fs, root, storage_options)
        if last is None:
            raise RepairError("there is no repair to undo", root, remedy="Only verbs that work in place can be undone")
        backup, since = last, _since(last, storage_options)
        if since is not None:
            if not force:
                raise RepairError(
                    f"the query has gone on since `{backup.change.verb}`: {_named(since)}",
                    root,
                    remedy="With --force they are moved to a backup, and their rows are read again after the undo",
                )
            notes.append(f"what the query has done since is lost: {_named(since)}")
            check_readable(backup, since, limits or Limits(), progress)
    if not force:
        _check(backup)
    plan = _plan(backup, notes)
    if dry_run:
        return plan
    for note in notes:
        log.warning("%s: %s", root, note)
    if found is None:
        if since is not None:
            aside = Backup.begin(fs, root, since, {}, storage_options)
            in_place.begin(aside)
            in_place.carry_out(aside)
        in_place.begin_undo(backup)
    lost = in_place.roll_back(backup)
    plan.notes.extend(f"{path} was in neither place and is lost" for path in lost)
    return Report.of(plan, time.monotonic() - begun_at)


def _check(backup: Backup) -> None:
    """Raises RepairError unless the backup is whole, and of this checkpoint."""
    change, here = backup.change, place_of(backup.fs, backup.root)
    if change.sink is not None and change.checkpoint not in ("", here):
        raise RepairError(
            f"the checkpoint was at {change.checkpoint} when `{change.verb}` changed it and the log of the sink "
            f"{change.sink}: if this is a copy, an undo breaks the sink of the other one",
            backup.folder,
            remedy="With --force it is undone, if the checkpoint was moved here",
        )
    if lost := backup.lost():
        raise RepairError(
            f"{len(lost)} of {len(change.moves)} files that were moved are not in the backup any more: {lost[0]}, ...",
            backup.folder,
            remedy="Put them back; with --force the others are undone",
        )


def _since(backup: Backup, storage_options: StorageOptions | None) -> Change | None:
    """Takes out what the query has done since the verb ended; None if it has done nothing."""
    fs, root, change = backup.fs, backup.root, backup.change
    offsets, commits = (LogFiles.listed(fs, root, log) for log in ("offsets", "commits"))
    left = {path for number in change.offsets for path in offsets.paths(number)}
    moves = [f"{CHECKPOINT}{path}" for path in entries_after(offsets, commits, change.batch_id) if path not in left]
    moves += [f"{CHECKPOINT}{path}" for path in state_files_from(fs, root, change.batch_id + 2)]
    if change.sink is not None:
        moves += [f"{SINK}{path}" for path in SinkLog(*resolve(change.sink, storage_options)).later(change.batch_id)]
    if not moves:
        return None
    copies: list[str] = []
    if change.state_version is not None:  # the state since builds on what the verb wrote, and the undo deletes both
        written = [*state_files_from(fs, root, change.state_version), *parts_of_state(fs, root)]
        others = {*moves, *(f"{CHECKPOINT}{path}" for path in change.parts)}
        copies = [path for path in (f"{CHECKPOINT}{each}" for each in written) if path not in others]
    return Change(
        _SET_ASIDE,
        {},
        guard=max([*offsets.names, *commits.names]) + 1,
        batch_id=change.batch_id,
        moves=moves,
        copies=copies,
        sink=change.sink,
        undoable=False,
    )


def _named(since: Change) -> str:
    logs = (f"{CHECKPOINT}offsets/", f"{CHECKPOINT}commits/")
    names = [path.rpartition("/")[2] for path in since.moves if path.startswith(logs)]
    batches = sorted({int(name) for name in names if name.isdecimal()})
    if not batches:
        return f"batch {since.batch_id + 1} has begun"
    return f"batch {batches[0]}" if len(batches) == 1 else f"batches {batches[0]} to {batches[-1]}"


def _plan(backup: Backup, notes: list[str]) -> Plan:
    change = backup.change
    files = [f"put back: {path.removeprefix(CHECKPOINT)}" for path in change.moves]
    files += [f"deleted: {path.removeprefix(CHECKPOINT)}" for path in change.puts]
    if change.state_version is not None:
        files.append(f"deleted: the state files of version {change.state_version}")
    note = f"`{change.verb}` of {backup.name} is taken back"
    return Plan(verb="undo", path=backup.root, batch_id=change.batch_id, files=files, notes=[note, *notes])
