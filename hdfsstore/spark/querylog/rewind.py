"""Brings our log into line with the batch that Spark runs: a batch that is done, or entries of a log that was set back.

Where our entries from batch N on do not belong to the batch N that Spark runs, the user has set Spark's log back. They
are moved aside, the newest first, and of each batch commits before offsets. Whatever is left when the driver is killed
in between is again at or after N and not of Spark's batch N, and is moved by the next one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection

from pyarrow.fs import FileSystem

from hdfsstore.checkpoint.commit_log import read_commit_log
from hdfsstore.checkpoint.metadata_log import MetadataLog
from hdfsstore.checkpoint.offset_log import read_offset_log
from hdfsstore.errors import BatchAlreadyLoggedError, MissingFileError
from hdfsstore.fs import read_file
from hdfsstore.publish import publish, remove
from hdfsstore.spark.querylog.log_entries import OFFSETS, Entry, hdfsstore_commit, hdfsstore_entry

log = logging.getLogger("hdfsstore.spark.rewind")


def is_done(fs: FileSystem, root: str, batch_id: int, entry: Entry) -> bool:
    """Whether an earlier driver has finished the batch that Spark runs, and no other of its number.

    Args:
        root: `<checkpoint>/hdfsstore`.
        entry: Spark's of the batch.
    """
    commit = hdfsstore_commit(fs, root, batch_id)
    if commit is None:
        return False
    # The commit's own word counts: one that a rewind has overtaken may have come to lie beside another's offsets.
    return commit.own.get(OFFSETS) == entry.digest and _has_begun(fs, root, batch_id, entry)


def settle(fs: FileSystem, root: str, batch_id: int, entry: Entry) -> bool:
    """Leaves no entry from the batch on, which is not done, but the batch's own of offsets.

    Returns:
        Whether the batch has begun before.

    Args:
        entry: of the batch, as it is to stand in our log.

    Raises:
        BatchAlreadyLoggedError: another driver has begun or finished the batch in this moment.
    """
    offsets = MetadataLog(fs, f"{root}/offsets", read_offset_log)
    # In this order: whoever has begun a later batch by now is found to have finished this one.
    begun_numbers = offsets.list().files.keys()
    commits = MetadataLog(fs, f"{root}/commits", read_commit_log).list().files.keys()
    numbers = {number for number in begun_numbers | commits if number >= batch_id}
    if batch_id in commits and is_done(fs, root, batch_id, entry):
        raise BatchAlreadyLoggedError(
            "another driver has finished this batch just now",
            f"{root}/commits/{batch_id}",
            remedy="Let one driver run the query: stop this one, or the other",
        )
    begun = batch_id not in commits and _has_begun(fs, root, batch_id, entry)
    if begun:
        numbers.discard(batch_id)
    if numbers:
        set_aside(fs, root, numbers, f"Spark's log was set back to batch {batch_id}")
    if not begun:
        offsets.add(batch_id, entry.content)
    return begun


def _has_begun(fs: FileSystem, root: str, batch_id: int, entry: Entry) -> bool:
    ours = hdfsstore_entry(fs, root, batch_id)
    return ours is not None and ours.digest == entry.digest


def set_aside(fs: FileSystem, root: str, numbers: Collection[int], why: str) -> None:
    """Moves the entries of those batches out of both logs, to `rewound/<time>-<oldest>`."""
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
            remove(fs, [path])


def copy_metadata(fs: FileSystem, checkpoint: str, root: str) -> None:
    """Spark's file with the query's id, which tells local images of one query from those of another in its place.

    Raises:
        MissingFileError: Spark's is not there.
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
