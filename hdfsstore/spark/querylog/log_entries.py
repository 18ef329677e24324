"""What the driver's log holds of a batch, and what is told of it (hdfsstore/spark/querylog/driver_log.py)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from pyarrow.fs import FileSystem

from hdfsstore.checkpoint.commit_log import CommitLogEntry, read_commit_log
from hdfsstore.checkpoint.conf import COMPRESSION_CODEC, HDFS_PROVIDER, PROVIDER, ROW_CHECKSUM, SHUFFLE_PARTITIONS
from hdfsstore.checkpoint.offset_log import OffsetLogEntry, encode_offset_log, parse_offset_log
from hdfsstore.checkpoint.spark_quirks import GROUP_STATE_FORMAT
from hdfsstore.errors import CorruptFileError, remedied
from hdfsstore.fs import read_file
from hdfsstore.state.conf import StateStoreConf

FOLDER = "hdfsstore"
# How a user sets a query back, for messages.
SET_BACK = "delete Spark's offsets and commits from there on"
ENCODING_FORMAT = "spark.sql.streaming.stateStore.encodingFormat"

# Names in the object that we add to entries: of both logs, and of commits twice.
OFFSETS, NEXT_TIMEOUT, SHAPES = "offsets", "nextTimeoutMs", "batches"


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
        next_timeout_ms: no timeout of the state that the batch starts from is due before it; None: it has none.
        is_repeated: whether the batch has begun before, and did not end.
        shapes: what is known of the batches before, as `finish` was given it; None where there is nothing.
    """

    batch_id: int
    already_done: bool
    base_ids: tuple[str | None, ...]
    watermark_ms: int
    processing_time_ms: int
    late_watermark_ms: int
    next_timeout_ms: int | None = None
    is_repeated: bool = field(default=False, compare=False)
    shapes: Any = None


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
    """An entry of an offset log, Spark's or ours, and what it says."""

    content: bytes
    parsed: OffsetLogEntry

    @property
    def digest(self) -> str:
        """SHA-256 of Spark's entry: two entries with the same one are of the same batch."""
        return str(self.parsed.own.get(OFFSETS) or hashlib.sha256(self.content).hexdigest())

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
    """An entry of Spark's offset log; None where there is none."""
    with _remedied(path):
        try:
            content = read_file(fs, path)
        except FileNotFoundError:
            return None
        return Entry(content, parse_offset_log(content, path))


def hdfsstore_entry(fs: FileSystem, root: str, batch_id: int) -> Entry | None:
    """An entry of our offset log; None where there is none.

    Args:
        root: `<checkpoint>/hdfsstore`.

    Raises:
        CorruptFileError: it is damaged.
    """
    path = f"{root}/offsets/{batch_id}"
    entry = read_entry(fs, path)
    # Of old Sparks an entry may be no more than its version. One of ours is cut off then; so it is in commits.
    if entry is not None and PROVIDER not in entry.parsed.conf:
        with _remedied(path):
            raise CorruptFileError("the entry does not say how the state is kept: its end is missing", path)
    return entry


def hdfsstore_commit(fs: FileSystem, root: str, batch_id: int) -> CommitLogEntry | None:
    """An entry of our commit log; None where there is none.

    Raises:
        CorruptFileError: it is damaged.
    """
    path = f"{root}/commits/{batch_id}"
    with _remedied(path):
        try:
            commit = read_commit_log(fs, path)
        except FileNotFoundError:
            return None
        if OFFSETS not in commit.own:
            raise CorruptFileError("the entry does not say which batch it is of: its end is missing", path)
        return commit


def _remedied(path: str) -> AbstractContextManager[None]:
    """Adds to the error of a damaged entry how the query gets past it."""
    batch_id = path.rpartition("/")[2]
    again = f"set the query back to batch {batch_id} ({SET_BACK}), which then runs again"
    return remedied(f"Put the file back; or delete it and {again}")


def copied(entry: Entry, settings: Mapping[str, str]) -> Entry:
    """Spark's entry as it stands in our log: the same bytes, but where the conf has to say otherwise of our state.

    Args:
        settings: confs by which a reader opens the state.
    """
    if all(entry.parsed.conf.get(name) == value for name, value in settings.items()):
        return entry
    conf = {**entry.parsed.conf, **settings}
    ours = replace(entry.parsed, conf=conf, own={OFFSETS: entry.digest})
    return Entry(encode_offset_log(ours), ours)


def settings_of(conf: StateStoreConf, num_partitions: int) -> dict[str, str]:
    """The confs by which a reader opens a state that is kept with these settings."""
    return {
        PROVIDER: HDFS_PROVIDER,
        ENCODING_FORMAT: "unsaferow",
        GROUP_STATE_FORMAT: "2",
        COMPRESSION_CODEC: conf.compression_codec,
        ROW_CHECKSUM: str(conf.row_checksum_enabled).lower(),
        SHUFFLE_PARTITIONS: str(num_partitions),
    }


def hdfsstore_fields(entry: Entry, next_timeout_ms: int | None, shapes: Any = None) -> dict[str, Any]:
    """What we add to the commits entry of a batch."""
    fields: dict[str, Any] = {OFFSETS: entry.digest}
    if shapes is not None:
        fields[SHAPES] = shapes
    if next_timeout_ms is not None:
        fields[NEXT_TIMEOUT] = next_timeout_ms
    return fields
