"""Carries out a change of a checkpoint's files so that it may be killed at any write.

    1  the backup's manifest, and what is to be put in (backup.py)
    2  the guard, only if absent, as the newest entry of `offsets`: from here on Spark refuses to start
    3  files are copied and moved to the backup, the state is written, entries are put in
    4  the backup is marked as done
    5  the guard is replaced by the entry of its number, or deleted: from here on Spark starts from the new state

Killed before 2, Spark starts from the old state. Killed before 5, it refuses, and the reader says what the guard is.
The same verb again then goes on at 3, and `undo` goes the way back. Whoever goes on replaces the guard by one of its
own run. So a process that is still at work, and was only taken for dead, stops before its next step.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from hdfsstore.checkpoint.guard import TO_NEW, UNDO, Guard, parse_guard
from hdfsstore.checkpoint.metadata_log import NUMBER
from hdfsstore.errors import NotPromisedError, RepairError
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.local_files import LocalFileManager
from hdfsstore.fs.publish import publish, remove
from hdfsstore.fs.reading import read_file
from hdfsstore.fs.storage_options import StorageOptions
from hdfsstore.repair.backup import CHECKPOINT, DONE, UNDONE, Backup
from hdfsstore.repair.files import LogFiles, parts_of_state, state_files_from
from hdfsstore.repair.held_guard import HeldGuard
from hdfsstore.state.parallel import run_all

log = logging.getLogger("hdfsstore.repair")
T = TypeVar("T")

RESUMED = "an earlier run was killed; this one ends its work"
_REMOTE_THREADS = 16

# Writes the state, and returns the paths of its files relative to the checkpoint; entries that need its unique ids are
# staged in the backup by then.
WriteState = Callable[[Backup], Iterable[str]]


def begun(fs: FileManager, root: str, storage_options: StorageOptions | None = None) -> tuple[Guard, Backup]:
    """The guard that is in the checkpoint, and its backup.

    Raises:
        RepairError: the repair has ended just now; or its backup is gone.
        RepairUnderWayError: it is a new checkpoint that is not whole, of which there is no backup.
    """
    path, guard = _guard(fs, root)
    if guard.verb == TO_NEW:
        raise guard.error(path)
    return guard, Backup.open(fs, root, guard.backup, storage_options)


def resumed(
    fs: FileManager, root: str, verb: str, arguments: Mapping[str, Any], storage_options: StorageOptions | None = None
) -> Backup:
    """The backup of the repair that is under way, for the same call to end it.

    Raises:
        RepairUnderWayError: it is another one.
    """
    guard, backup = begun(fs, root, storage_options)
    if guard.verb != verb or backup.change.arguments != arguments:
        raise guard.error(backup.folder)
    return backup


def check_promises(fs: FileManager, root: str) -> None:
    """Refuses a filesystem on which the guard is none. Raises NotPromisedError."""
    if not (fs.promises.create_if_absent and fs.promises.atomic_replace):
        raise NotPromisedError(
            f"a query could start while the checkpoint is changed: {fs.identity} has no promise that a file is created "
            "only if it is absent, and replaced at once",
            root,
            remedy="Copy the checkpoint to a local disk, HDFS or S3, and repair it there",
        )


def begin(backup: Backup) -> None:
    """Puts the guard in.

    Raises:
        RepairError: the query has begun a batch meanwhile. Nothing was changed.
    """
    try:
        _put_guard(backup, backup.change.verb, backup.change.guard)
    except RepairError:
        backup.discard()
        raise


def carry_out(backup: Backup, write_state: WriteState | None = None) -> None:
    """Makes the change behind the guard, or what a killed run has left of it, and lifts the guard."""
    change = backup.change
    _take_over(backup, change.verb)
    backup.unmark(UNDONE)
    _all(backup.fs, [partial(backup.copy, path) for path in change.copies])
    _all(backup.fs, [partial(backup.take, path) for path in change.moves])
    if write_state is not None and backup.written() is None:
        _remove_state(backup)
        backup.note_written(write_state(backup))
    for path in change.puts:
        if path != change.guard_path:
            backup.put(path)
    _refuse_others(backup)
    backup.mark(DONE)
    backup.check_held()
    where = f"{backup.root}/offsets/{change.guard}"
    if change.guard_path in change.puts:
        publish(backup.fs, where, backup.staged(change.guard_path), overwrite=True)
    else:
        remove(backup.fs, [where])


def begin_undo(backup: Backup) -> None:
    """Puts in a guard, to undo a verb that has ended. Raises RepairError as `begin` does."""
    # Behind all entries that come back.
    _put_guard(backup, UNDO, max(_newest_entry(backup.fs, backup.root) + 1, backup.change.guard))


def committed_meanwhile(backup: Backup) -> dict[int, list[str]]:
    """The batches that a query has committed while the verb was at work on their numbers, and the files of the commits.

    An undo deletes the state of these numbers, so such a batch is one that was begun again.
    """
    change = backup.change
    if change.state_version is None:
        return {}
    commits = LogFiles.listed(backup.fs, backup.root, "commits")
    found = {}
    for number in commits.entries:
        paths = [f"{CHECKPOINT}{path}" for path in commits.paths(number)]
        is_new = number >= change.state_version - 1 and not {*paths}.intersection(change.moves)
        if is_new and backup.is_others(paths[-1]):
            found[number] = paths
    return found


def roll_back(backup: Backup) -> list[str]:
    """Takes a change back, or what was made of it, and deletes the guard.

    Returns:
        Files that were moved and cannot be put back: they are not in the backup.

    Raises:
        RepairError: a query has committed a batch meanwhile. An undo that follows takes it in.
    """
    change = backup.change
    _take_over(backup, UNDO)
    backup.unmark(DONE)
    for path in [path for paths in committed_meanwhile(backup).values() for path in paths]:
        backup.take(path)
    for path in reversed(change.puts):
        backup.take_out(path)
    _remove_state(backup)
    moves = change.moves[::-1]
    back = _all(backup.fs, [partial(backup.give_back, path) for path in moves])
    for number in committed_meanwhile(backup):
        raise RepairError(
            f"a query has committed batch {number} just now", backup.root, remedy="Stop the query, then undo again"
        )
    backup.mark(UNDONE)
    backup.check_held()
    remove(backup.fs, [f"{backup.root}/offsets/{_newest_entry(backup.fs, backup.root)}"])
    return [path for path, there in zip(moves, back, strict=True) if not there]


def _refuse_others(backup: Backup) -> None:
    """Raises RepairError if a log has an entry that is none of the change: a query that runs has ended its batch."""
    fs, root, change = backup.fs, backup.root, backup.change
    for log, expected in (("offsets", [*change.offsets, change.guard]), ("commits", change.commits)):
        others = set(LogFiles.listed(fs, root, log).entries).difference(expected)
        if change.offsets and others:
            raise RepairError(
                "this entry has appeared since the repair began: a query runs on the checkpoint",
                f"{root}/{log}/{max(others)}",
                remedy="Stop the query, then `hdfsstore undo`, and begin again",
            )


def _newest_entry(fs: FileManager, root: str) -> int:
    """The newest entry of `offsets`; -1: there is none."""
    names = [info.base_name for info in fs.list_folder(f"{root}/offsets")]
    return max((int(name) for name in names if NUMBER.fullmatch(name)), default=-1)


def _guard(fs: FileManager, root: str) -> tuple[str, Guard]:
    """The path of the guard, and what it tells. Raises RepairError if there is none any more."""
    path = f"{root}/offsets/{_newest_entry(fs, root)}"
    guard = None
    with suppress(FileNotFoundError):
        guard = parse_guard(read_file(fs, path))
    if guard is None:
        raise RepairError("a repair was under way, and has ended just now", path, remedy="Look at its report")
    return path, guard


def _take_over(backup: Backup, verb: str) -> None:
    """Makes the guard the one of this run, unless it is."""
    if backup.is_held:
        return
    path, guard = _guard(backup.fs, backup.root)
    if guard.backup != backup.name:
        raise guard.error(path)
    log.warning(
        "%s: `%s` is gone on with, which another process has begun. If that one still runs, end it: it stops at its "
        "next step by itself, but may have one file in hand",
        backup.folder,
        guard.verb,
    )
    backup.hold(HeldGuard.put(backup.fs, path, verb, backup.name, overwrite=True))


def _put_guard(backup: Backup, verb: str, number: int) -> None:
    path = f"{backup.root}/offsets/{number}"
    try:
        backup.hold(HeldGuard.put(backup.fs, path, verb, backup.name, overwrite=False))
    except FileExistsError:
        raise RepairError(
            "this entry has appeared just now: a query runs on the checkpoint", path, remedy="Stop the query first"
        ) from None


def _remove_state(backup: Backup) -> None:
    """Deletes the state that the verb has written. Nobody else has written since: the guard is there.

    A file that the verb was to move, and is in its place and not in the backup, is the one that was there before.
    """
    change = backup.change
    if change.state_version is None:
        return
    backup.forget_written()
    kept = set(change.parts)
    ours = [path for path in parts_of_state(backup.fs, backup.root) if path not in kept]
    ours += state_files_from(backup.fs, backup.root, change.state_version)
    moves = set(change.moves)
    doomed = [
        f"{backup.root}/{path}"
        for path in ours
        if f"{CHECKPOINT}{path}" not in moves or backup.is_moved(f"{CHECKPOINT}{path}")
    ]
    backup.check_held()
    backup.fs.delete(doomed)


def _all(fs: FileManager, works: Sequence[Callable[[], T]]) -> list[T]:
    """Makes calls in their order, on a remote storage some at a time."""
    return run_all(works, 1 if isinstance(fs, LocalFileManager) else _REMOTE_THREADS)
