"""Checks the logs of a checkpoint: every entry is read, and none is missing between others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from hdfsstore.checkpoint.batch_logs import BatchLogs
from hdfsstore.checkpoint.commit_log import CommitLogEntry
from hdfsstore.checkpoint.metadata_log import Listing, MetadataLog
from hdfsstore.checkpoint.offset_log import OffsetLogEntry
from hdfsstore.errors import MissingFileError, StateStoreError
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.in_order import in_order
from hdfsstore.repair.findings import Findings

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class VerifiedLogs:
    """What the logs say.

    Attributes:
        offsets: the entries of the batches that are committed, by number in ascending order.
        commits: those that can be read; none of Spark 2.1.
        begun: the batches after the newest committed one.
        newest: the newest entry of all that can be read.
    """

    offsets: dict[int, OffsetLogEntry]
    commits: dict[int, CommitLogEntry]
    begun: list[int]
    newest: OffsetLogEntry | None


def verify_logs(fs: FileManager, path: str, findings: Findings, notes: list[str]) -> VerifiedLogs:
    """Reads both logs of a checkpoint.

    Args:
        path: the checkpoint.
        findings: what is damaged is added here.
        notes: what is not as after a clean stop, and no damage.
    """
    logs = BatchLogs(fs, path)
    logged = logs.look()
    for error in logged.damaged:
        findings.add(error, _batch_of(error))
    if logged.repair is not None:
        notes.append(str(logged.repair))
    offsets = _entries(fs, logs.offsets, logged.offsets, findings)
    commits = _entries(fs, logs.commits, logged.commits, findings)
    latest = max(logged.done, default=-1)
    begun = sorted(number for number in logged.offsets.files if number > latest)
    if begun:
        notes.append(f"Batch {begun[-1]} was begun and is not committed: a restart runs it again")
    there = logged.offsets.files.keys()
    newest = max([*there, *logged.commits.files], default=-1)
    if newest >= 0:
        wanted = set(range(min(there, default=newest), newest + 1))
        # A guard takes the place of an entry, and is lifted after the commit of that batch is there.
        guards = [] if logged.repair is None else [logged.repair]
        _missing(f"{path}/offsets", wanted - there, findings, _cut([*logged.damaged, *guards]))
    if logged.commits.files:
        wanted = set(range(min(logged.commits.files), max([*there, latest + 1])))
        _missing(f"{path}/commits", wanted - logged.commits.files.keys(), findings, _cut(logged.damaged))
    done = {number: entry for number, entry in offsets.items() if number in logged.done}
    return VerifiedLogs(done, commits, begun, offsets[max(offsets)] if offsets else None)


def _entries(fs: FileManager, log: MetadataLog[T], listing: Listing, findings: Findings) -> dict[int, T]:
    def read(number: int) -> T | StateStoreError | None:
        try:
            return log.read(listing, number)
        except StateStoreError as error:
            return error

    found = {}
    with in_order(fs, [partial(read, number) for number in listing.files]) as entries:
        for number, entry in zip(listing.files, entries, strict=True):
            if isinstance(entry, StateStoreError):
                findings.add(entry, [number])
            elif entry is not None:  # None: purged since the listing
                found[number] = entry
    return found


def _missing(folder: str, numbers: set[int], findings: Findings, cut: set[str]) -> None:
    for number in sorted(numbers):
        path = f"{folder}/{number}"
        if path not in cut:
            findings.add(
                MissingFileError(
                    "the entry of this batch is missing", path, remedy="Restore the file, or rewind to a batch before"
                ),
                [number],
            )


def _cut(errors: Iterable[StateStoreError]) -> set[str]:
    return {error.path for error in errors if error.path}


def _batch_of(error: StateStoreError) -> list[int]:
    return [int((error.path or "").rpartition("/")[2])]
