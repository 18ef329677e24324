"""Reads and makes the entries of the driver's log (hdfsstore/spark/querylog/driver_log.py)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from hdfsstore.checkpoint.commit_log import CommitLogEntry, read_commit_log
from hdfsstore.checkpoint.conf import COMPRESSION_CODEC, HDFS_PROVIDER, PROVIDER, ROW_CHECKSUM, SHUFFLE_PARTITIONS
from hdfsstore.checkpoint.location import OWN_FOLDER
from hdfsstore.checkpoint.offset_log import OffsetLogEntry, encode_offset_log, parse_offset_log
from hdfsstore.checkpoint.spark_quirks import GROUP_STATE_FORMAT
from hdfsstore.errors import CorruptFileError, remedied
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.reading import read_file, siblings_beside_hadoops
from hdfsstore.state.conf import StateStoreConf

FOLDER = OWN_FOLDER
# How a user sets a query back to a batch, for messages.
SET_BACK = "delete Spark's offsets and commits from there on"
ENCODING_FORMAT = "spark.sql.streaming.stateStore.encodingFormat"

# Fields of the object that we add to entries. OFFSETS is in both logs, the others are in commits only.
OFFSETS, NEXT_TIMEOUT, SHAPES = "offsets", "nextTimeoutMs", "batches"


class Reported(Protocol):
    """A task's report on its partition (Report of hdfsstore/spark/spec.py)."""

    @property
    def base_id(self) -> str | None: ...

    @property
    def new_id(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Start:
    """What batch N starts from. Times are milliseconds since 1970.

    Attributes:
        already_done: whether an earlier driver has finished this batch, including its sink. Then nothing must run, and
            base_ids is empty.
        base_ids: the unique id of each partition's version N; None in format version 1, and in batch 0.
        watermark_ms, processing_time_ms: of the batch.
        late_watermark_ms: the watermark of the batch before. Rows at or before it are late.
        next_timeout_ms: no timeout in the state that the batch starts from expires before it; None: there is none.
        is_repeated: whether the batch has begun before, and did not end.
        shapes: the shapes of the batches before, as `finish` got them; None: not known.
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
        next_timeout_ms: no timeout in the state after the batch expires before it; None: there is none.
    """

    batch_id: int
    watermark_ms: int
    processing_time_ms: int
    next_timeout_ms: int | None


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of an offset log, Spark's or ours, as bytes and parsed."""

    content: bytes
    parsed: OffsetLogEntry

    @property
    def digest(self) -> str:
        """SHA-256 of Spark's entry. Two entries with the same digest belong to the same batch."""
        return str(self.parsed.hdfsstore_fields.get(OFFSETS) or hashlib.sha256(self.content).hexdigest())

    @property
    def times(self) -> tuple[int, int]:
        """The watermark and the processing time."""
        return self.parsed.watermark_ms, self.parsed.timestamp_ms


@dataclass(frozen=True, slots=True)
class LoggedBatch:
    """A finished batch, with its entries in both of our logs."""

    batch_id: int
    entry: Entry
    commit: CommitLogEntry


def read_entry(fs: FileManager, path: str) -> Entry | None:
    """An entry of Spark's offset log; None if it does not exist."""
    with _remedied(path):
        try:
            content = read_file(fs, path, siblings_beside_hadoops(fs))
        except FileNotFoundError:
            return None
        return Entry(content, parse_offset_log(content, path))


def hdfsstore_entry(fs: FileManager, root: str, batch_id: int) -> Entry | None:
    """An entry of our offset log; None if it does not exist.

    Args:
        root: `<checkpoint>/hdfsstore`.

    Raises:
        CorruptFileError: the entry is damaged.
    """
    path = f"{root}/offsets/{batch_id}"
    entry = read_entry(fs, path)
    # An entry of an old Spark may be only its version. An entry of ours that is so short is cut off, as in commits.
    if entry is not None and PROVIDER not in entry.parsed.conf:
        with _remedied(path):
            raise CorruptFileError("the entry does not say how the state is kept: its end is missing", path)
    return entry


def hdfsstore_commit(fs: FileManager, root: str, batch_id: int) -> CommitLogEntry | None:
    """An entry of our commit log; None if it does not exist.

    Raises:
        CorruptFileError: the entry is damaged.
    """
    path = f"{root}/commits/{batch_id}"
    with _remedied(path):
        try:
            commit = read_commit_log(fs, path, siblings_beside_hadoops(fs))
        except FileNotFoundError:
            return None
        if OFFSETS not in commit.hdfsstore_fields:
            raise CorruptFileError("the entry does not say to which batch it belongs: its end is missing", path)
        return commit


def _remedied(path: str) -> AbstractContextManager[None]:
    """Adds the remedy to the error of a damaged entry."""
    batch_id = path.rpartition("/")[2]
    again = f"set the query back to batch {batch_id} ({SET_BACK}), which then runs again"
    return remedied(f"Put the file back; or delete it and {again}")


def copied(entry: Entry, settings: Mapping[str, str]) -> Entry:
    """Spark's entry for our log. It has the same bytes, unless the conf of our state differs from Spark's.

    Args:
        settings: the confs with which a reader opens the state.
    """
    if all(entry.parsed.conf.get(name) == value for name, value in settings.items()):
        return entry
    conf = {**entry.parsed.conf, **settings}
    ours = replace(entry.parsed, conf=conf, hdfsstore_fields={OFFSETS: entry.digest})
    return Entry(encode_offset_log(ours), ours)


def settings_of(conf: StateStoreConf, num_partitions: int) -> dict[str, str]:
    """The confs with which a reader opens a state that was written with these settings."""
    return {
        PROVIDER: HDFS_PROVIDER,
        ENCODING_FORMAT: "unsaferow",
        GROUP_STATE_FORMAT: "2",
        COMPRESSION_CODEC: conf.compression_codec,
        ROW_CHECKSUM: str(conf.row_checksum_enabled).lower(),
        SHUFFLE_PARTITIONS: str(num_partitions),
    }


def hdfsstore_fields(entry: Entry, next_timeout_ms: int | None, shapes: Any = None) -> dict[str, Any]:
    """The object that we add to a batch's entry in commits."""
    fields: dict[str, Any] = {OFFSETS: entry.digest}
    if shapes is not None:
        fields[SHAPES] = shapes
    if next_timeout_ms is not None:
        fields[NEXT_TIMEOUT] = next_timeout_ms
    return fields
