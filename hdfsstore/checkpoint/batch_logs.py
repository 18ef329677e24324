"""Lists both logs of a query together: the batches that have begun, those that are done, and entries that are cut off.

Spark does not sync the files of its logs: after a power cut the newest entry may be empty or cut off. Spark then
refuses to start ("Incomplete log file"). Here such an entry counts as absent if its batch is not done without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from hdfsstore.checkpoint.commit_log import CommitLogEntry, read_commit_log
from hdfsstore.checkpoint.metadata_log import Listing, MetadataLog
from hdfsstore.checkpoint.offset_log import OffsetLogEntry, read_offset_log
from hdfsstore.errors import CorruptFileError, RepairUnderWayError, StateStoreError
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.in_order import both

T = TypeVar("T")

_AGAIN, _ANEW = "runs again", "is begun anew"


@dataclass(frozen=True, slots=True)
class Logged:
    """A listing of both logs.

    Attributes:
        offsets, commits: their entries, without those in `damaged`.
        done: the batches that are committed.
        damaged: for each log whose newest entry is cut off, the error with the remedy.
        repair: what the newest entry of `offsets` is, if it is the guard of an in-place repair; it is not in `offsets`.
    """

    offsets: Listing
    commits: Listing
    done: set[int]
    damaged: list[CorruptFileError]
    repair: RepairUnderWayError | None = None


class BatchLogs:
    """The offset log and the commit log of a checkpoint.

    Args:
        path: the checkpoint.
    """

    def __init__(self, fs: FileManager, path: str) -> None:
        self._fs = fs
        self.offsets: MetadataLog[OffsetLogEntry] = MetadataLog(fs, f"{path}/offsets", read_offset_log)
        self.commits: MetadataLog[CommitLogEntry] = MetadataLog(fs, f"{path}/commits", read_commit_log)

    def look(self) -> Logged:
        """Lists both logs.

        The listings may be of different moments. A batch that is in one of them only counts as not done.
        """
        commits, offsets = both(self._fs, self.commits.list, self.offsets.list)
        (whole_commits, cut_commit), (whole_offsets, cut_offset) = both(
            self._fs,
            partial(_without_cut, self.commits, commits, _AGAIN),
            partial(_without_cut, self.offsets, offsets, _ANEW),
        )
        repair = None
        if isinstance(cut_offset, RepairUnderWayError):
            repair, offsets = cut_offset, whole_offsets
            whole_offsets, cut_offset = _without_cut(self.offsets, offsets, _ANEW)
        if offsets.files and max(offsets.files) in whole_commits.files:
            whole_offsets, cut_offset = offsets, None  # the batch is done without its entry
        if cut_commit is not None and max(commits.files) < max(whole_offsets.files, default=-1):
            # The next batch has begun, so this one was done.
            whole_commits, cut_commit = commits, None
        done = whole_offsets.files.keys() & whole_commits.files.keys()
        if not commits.files and self._is_of_spark_2_1(whole_offsets):
            done = set(whole_offsets.files)
        damaged = [error for error in (cut_offset, cut_commit) if isinstance(error, CorruptFileError)]
        return Logged(whole_offsets, whole_commits, done, damaged, repair)

    def _is_of_spark_2_1(self, offsets: Listing) -> bool:
        """Spark 2.1 has no commit log, and no conf in the offset log: whether its last batch was done is unknown."""
        newest = self.offsets.read(offsets, max(offsets.files)) if offsets.files else None
        return newest is not None and not newest.conf


def _without_cut(
    log: MetadataLog[T], listing: Listing, then: str
) -> tuple[Listing, CorruptFileError | RepairUnderWayError | None]:
    """Takes the newest entry out of the listing if it is damaged, or is a guard, and returns its error too."""
    if not listing.files:
        return listing, None
    newest = max(listing.files)
    try:
        log.read(listing, newest)
    except RepairUnderWayError as error:
        return _without(listing, newest), error
    except CorruptFileError as error:
        remedy = (
            f"Put the file back; or delete it, with its checksum file .{newest}.crc if there is one. "
            f"Batch {newest} {then} then; until then Spark does not start the query"
        )
        return _without(listing, newest), CorruptFileError(error.message, error.path, error.offset, remedy)
    except StateStoreError:
        return listing, None  # The file is whole. The error is raised when its entry is read.
    return listing, None


def _without(listing: Listing, batch_id: int) -> Listing:
    files = {number: info for number, info in listing.files.items() if number != batch_id}
    return Listing(files, listing.names)
