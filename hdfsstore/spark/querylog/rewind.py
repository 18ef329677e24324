"""Aligns our log with the batch that Spark runs: detects a finished batch, and sets aside entries after a rewind.

If our entries from batch N on do not belong to the batch N that Spark runs, the user has set Spark's log back. Then
these entries are moved aside: the newest batch first, and commits before offsets. If the driver is killed in between,
the remaining entries still do not belong to Spark's batch N, and the next driver moves them.

A driver that hung for long may find entries of later batches too, which another driver has written meanwhile. Spark's
own log tells that from a rewind: its newest batch is then another one, and nothing is moved.

Two drivers may move entries at the same time. Who is done writes the entry of batch N, and its batches go on from
there. The other one looks for that entry right before each removal, so that it removes none of these.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection

from hdfsstore.checkpoint.commit_log import read_commit_log
from hdfsstore.checkpoint.metadata_log import MetadataLog
from hdfsstore.checkpoint.offset_log import read_offset_log
from hdfsstore.errors import BatchAlreadyLoggedError, MissingFileError
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.publish import publish, remove
from hdfsstore.fs.reading import read_file
from hdfsstore.spark.querylog.log_entries import OFFSETS, Entry, hdfsstore_commit, hdfsstore_entry

log = logging.getLogger("hdfsstore.spark.rewind")

_ONE_DRIVER = "Let one driver run the query: stop this one, or the other"


def is_done(fs: FileManager, root: str, batch_id: int, entry: Entry) -> bool:
    """Whether an earlier driver has finished the batch that Spark runs, and not another batch of the same number.

    Args:
        root: `<checkpoint>/hdfsstore`.
        entry: Spark's entry of the batch.
    """
    commit = hdfsstore_commit(fs, root, batch_id)
    if commit is None:
        return False
    # The commit itself names its batch. After a rewind it may lie beside the offsets of another batch.
    return commit.hdfsstore_fields.get(OFFSETS) == entry.digest and _has_begun(fs, root, batch_id, entry)


def settle(fs: FileManager, checkpoint: str, root: str, batch_id: int, entry: Entry) -> bool:
    """Logs that an unfinished batch begins. All other entries from this batch on are moved aside.

    Returns:
        Whether the batch has begun before.

    Args:
        checkpoint: the query's, with Spark's log.
        root: `<checkpoint>/hdfsstore`.
        entry: the batch's entry for our log of offsets.

    Raises:
        BatchAlreadyLoggedError: another driver has begun or finished the batch, or a later one, meanwhile.
    """
    offsets = MetadataLog(fs, f"{root}/offsets", read_offset_log, only_ours=True)
    # In this order, because a driver that has begun a later batch by now has finished this one before.
    begun_numbers = offsets.list().files.keys()
    commits = MetadataLog(fs, f"{root}/commits", read_commit_log).list().files.keys()
    numbers = {number for number in begun_numbers | commits if number >= batch_id}
    if batch_id in commits and is_done(fs, root, batch_id, entry):
        raise BatchAlreadyLoggedError(
            "another driver has finished this batch just now",
            f"{root}/commits/{batch_id}",
            remedy=_ONE_DRIVER,
        )
    is_ours = _has_begun(fs, root, batch_id, entry)
    begun = is_ours and batch_id not in commits
    if begun:
        numbers.discard(batch_id)

    def is_overtaken() -> bool:
        return not is_ours and _has_begun(fs, root, batch_id, entry)

    if numbers:
        theirs = MetadataLog(fs, f"{checkpoint}/offsets", read_offset_log).list().files
        if max(theirs, default=-1) != batch_id:
            raise BatchAlreadyLoggedError(
                f"Spark's log is no longer at batch {batch_id}: another driver runs the query, and has gone on",
                f"{checkpoint}/offsets/{batch_id}",
                remedy=_ONE_DRIVER,
            )
    if numbers and not set_aside(fs, root, numbers, f"Spark's log was set back to batch {batch_id}", is_overtaken):
        raise BatchAlreadyLoggedError(
            "another driver has begun this batch just now",
            f"{root}/offsets/{batch_id}",
            remedy=_ONE_DRIVER,
        )
    if not begun:
        offsets.add(batch_id, entry.content)
    return begun


def _has_begun(fs: FileManager, root: str, batch_id: int, entry: Entry) -> bool:
    ours = hdfsstore_entry(fs, root, batch_id)
    return ours is not None and ours.digest == entry.digest


def set_aside(
    fs: FileManager, root: str, numbers: Collection[int], why: str, is_overtaken: Callable[[], bool] = bool
) -> bool:
    """Moves the entries of these batches from both logs to `rewound/<time>-<oldest>`.

    Args:
        is_overtaken: is asked right before each removal. If it says so, no more are removed.

    Returns:
        Whether all were moved.
    """
    folder = f"{root}/rewound/{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{min(numbers)}"
    log.warning(
        "%s: the entries of batches %d to %d are moved to %s, and no longer count: %s",
        root,
        min(numbers),
        max(numbers),
        folder,
        why,
    )
    for number in sorted(numbers, reverse=True):
        for name in ("commits", "offsets"):
            path = f"{root}/{name}/{number}"
            try:
                content = read_file(fs, path)
            except FileNotFoundError:
                continue
            publish(fs, f"{folder}/{name}/{number}", content, overwrite=True)
            if is_overtaken():
                return False
            remove(fs, [path])
    return True


def copy_metadata(fs: FileManager, checkpoint: str, root: str) -> None:
    """Copies Spark's file with the query's id, which tells apart local images of two queries in one place.

    Raises:
        MissingFileError: Spark's file does not exist.
    """
    path = f"{checkpoint}/metadata"
    try:
        content = read_file(fs, path)
    except FileNotFoundError:
        raise MissingFileError(
            "Spark's file with the query's id is not there",
            path,
            remedy=f"Put it back; {root}/metadata is a copy, if it is there",
        ) from None
    try:
        same = read_file(fs, f"{root}/metadata") == content
    except FileNotFoundError:
        same = False
    if not same:
        publish(fs, f"{root}/metadata", content, overwrite=True)
