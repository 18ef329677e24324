"""What the driver's log holds of a batch, and what is told of it (hdfsstore/spark/driver_log.py)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Protocol

from pyarrow.fs import FileSystem

from hdfsstore.checkpoint.commit_log import CommitLogEntry
from hdfsstore.checkpoint.offset_log import OffsetLogEntry, parse_offset_log
from hdfsstore.fs import read_file

FOLDER = "hdfsstore"

# Names in the object that we add to an entry of commits.
OFFSETS, NEXT_TIMEOUT, TAKEN_OVER = "offsets", "nextTimeoutMs", "takenOver"


class Reported(Protocol):
    """What a task has reported of its partition, see hdfsstore/spark/spec.py."""

    @property
    def base_id(self) -> str | None: ...

    @property
    def new_id(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Start:
    """What a batch starts from. Times are milliseconds since 1970.

    Attributes:
        already_done: an earlier driver has finished this batch, sink and all: there is nothing to run, and base_ids is
            empty.
        base_ids: the unique id of each partition's version N; None in format version 1, and in batch 0.
        watermark_ms, processing_time_ms: of the batch.
        late_watermark_ms: rows at or before it are late: the watermark of the batch before.
        expired_before_ms: timeouts below it have fired in the batches before; None where that is not known.
    """

    batch_id: int
    already_done: bool
    base_ids: tuple[str | None, ...]
    watermark_ms: int
    processing_time_ms: int
    late_watermark_ms: int
    expired_before_ms: int | None


@dataclass(frozen=True, slots=True)
class Finished:
    """The newest batch that is done.

    Attributes:
        next_timeout_ms: no timeout of the state after it is due before; None where the state has none.
    """

    batch_id: int
    watermark_ms: int
    processing_time_ms: int
    next_timeout_ms: int | None


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of an offset log, and what it says."""

    content: bytes
    parsed: OffsetLogEntry

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.content).hexdigest()

    @property
    def times(self) -> tuple[int, int]:
        """The watermark and the processing time."""
        return self.parsed.watermark_ms, self.parsed.timestamp_ms


@dataclass(frozen=True, slots=True)
class LoggedBatch:
    """A batch that is done: its entries in both of our logs."""

    batch_id: int
    entry: Entry
    commit: CommitLogEntry


def read_entry(fs: FileSystem, path: str) -> Entry | None:
    """An entry of an offset log; None where there is none."""
    try:
        content = read_file(fs, path)
    except FileNotFoundError:
        return None
    return Entry(content, parse_offset_log(content, path))


def own_fields(entry: Entry, next_timeout_ms: int | None, *, taken_over: bool = False) -> dict[str, Any]:
    """What we add to the commits entry of a batch."""
    fields: dict[str, Any] = {OFFSETS: entry.digest}
    if next_timeout_ms is not None:
        fields[NEXT_TIMEOUT] = next_timeout_ms
    if taken_over:
        fields[TAKEN_OVER] = True
    return fields
