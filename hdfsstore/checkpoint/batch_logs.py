"""Both logs of a query as they are at a moment: which batches have begun, which are done, and what is cut off.

Spark does not sync the files of its logs: after a power cut the newest may be empty, or end early. Spark then refuses
to start ("Incomplete log file"). Such an entry is passed over if its batch is not done without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from pyarrow.fs import FileSystem

from hdfsstore.checkpoint.commit_log import CommitLogEntry, read_commit_log
from hdfsstore.checkpoint.metadata_log import Listing, MetadataLog
from hdfsstore.checkpoint.offset_log import OffsetLogEntry, read_offset_log
from hdfsstore.errors import CorruptFileError, StateStoreError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Logged:
    """What the logs hold.

    Attributes:
        offsets, commits: their entries, without those in `damaged`.
        done: the batches that are committed.
        damaged: the newest entry of each log, where it is cut off: the error of who reads it, with the remedy.
    """

    offsets: Listing
    commits: Listing
    done: set[int]
    damaged: list[CorruptFileError]


class BatchLogs:
    """The offset log and the commit log of a checkpoint.

    Args:
        path: of the checkpoint.
    """

    def __init__(self, fs: FileSystem, path: str) -> None:
        self.offsets: MetadataLog[OffsetLogEntry] = MetadataLog(fs, f"{path}/offsets", read_offset_log)
        self.commits: MetadataLog[CommitLogEntry] = MetadataLog(fs, f"{path}/commits", read_commit_log)

    def look(self) -> Logged:
        """Lists both logs."""
        # Commits first: a batch that both are listed of has surely begun before it was done.
        commits = self.commits.list()
        offsets = self.offsets.list()
        whole_commits, cut_commit = _without_cut(self.commits, commits, "runs again")
        is_done = bool(offsets.files) and max(offsets.files) in whole_commits.files
        whole_offsets, cut_offset = (offsets, None) if is_done else _without_cut(self.offsets, offsets, "is begun anew")
        if cut_commit is not None and max(commits.files) < max(whole_offsets.files, default=-1):
            # The batch after it has begun: this one was done.
            whole_commits, cut_commit = commits, None
        done = whole_offsets.files.keys() & whole_commits.files.keys()
        if not commits.files and self._is_of_spark_2_1(whole_offsets):
            done = set(whole_offsets.files)
        damaged = [error for error in (cut_offset, cut_commit) if error is not None]
        return Logged(whole_offsets, whole_commits, done, damaged)

    def _is_of_spark_2_1(self, offsets: Listing) -> bool:
        """Spark 2.1 has no commit log, and no conf in the offset log: nothing tells whether its last batch was done."""
        newest = self.offsets.read(offsets, max(offsets.files)) if offsets.files else None
        return newest is not None and not newest.conf


def _without_cut(log: MetadataLog[T], listing: Listing, then: str) -> tuple[Listing, CorruptFileError | None]:
    """The listing without its newest entry, and the error that tells of it, if that entry is damaged."""
    if not listing.files:
        return listing, None
    newest = max(listing.files)
    try:
        log.read(listing, newest)
    except CorruptFileError as error:
        remedy = (
            f"Put the file back; or delete it, with its side file .{newest}.crc if there is one. Batch {newest} {then} "
            "then; until then Spark does not start the query"
        )
        files = {batch_id: info for batch_id, info in listing.files.items() if batch_id != newest}
        return Listing(files, listing.names), CorruptFileError(error.message, error.path, error.offset, remedy)
    except StateStoreError:
        return listing, None  # it is whole, as far as one can tell; whoever needs it is told
    return listing, None
