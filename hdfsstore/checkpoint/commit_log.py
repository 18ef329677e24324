"""Reads and writes the commit log, `commits/<batch>`. A batch without an entry there is not done and runs again.

    v1   {"nextBatchWatermarkMs":0}           "{}", or nothing, in old ones
    v2   + "stateUniqueIds":{"0":[["<id>"],["<id>"]]}     operator id -> partition -> an id for each of its stores
    v3   + "sinkMetadataMap":{"<name>":{"sinkName":...,"commitOffset":"-","providerName":...,"isActive":true}}

hdfsstore's driver may add an object "hdfsstore" with facts of its own. Spark ignores it.
CommitLog.scala in Spark.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hdfsstore.checkpoint.json_files import JsonObject, Text, encode_versioned, read_versioned
from hdfsstore.checkpoint.metadata_log import NUMBER, MetadataLog
from hdfsstore.codecs.lineage import UNIQUE_ID
from hdfsstore.codecs.spark_json import dump_json
from hdfsstore.errors import CheckpointIdMismatchError, MissingFileError, StateStoreError
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.location import Location, resolve
from hdfsstore.fs.storage_options import StorageOptions
from hdfsstore.state.protocols import StateStoreCheckpointInfo

NEWEST_VERSION = 3
_HDFSSTORE = "hdfsstore"


@dataclass(frozen=True, slots=True)
class CommitLogEntry:
    """One file of the commit log.

    Attributes:
        next_watermark_ms: the watermark of the next batch, milliseconds since 1970.
        state_unique_ids: operator id -> partition -> the unique id of each store's new version; empty without them.
        sinks: the metadata of each sink, by name.
        hdfsstore_fields: fields that the driver of an hdfsstore query has added.
    """

    version: int
    next_watermark_ms: int
    state_unique_ids: dict[int, list[list[str]]]
    sinks: dict[str, Any]
    hdfsstore_fields: dict[str, Any] = field(default_factory=dict)


def read_commit_log(fs: FileManager, path: str, siblings: Collection[str] | None = None) -> CommitLogEntry:
    version, lines = read_versioned(fs, path, NEWEST_VERSION, siblings)
    line = lines[0] if lines else Text("{}", path, 0)
    fields = line.json_object()
    return CommitLogEntry(
        version,
        fields.integer("nextBatchWatermarkMs", 0),
        _unique_ids(fields),
        fields.plain("sinkMetadataMap"),
        fields.plain(_HDFSSTORE),
    )


def encode_commit_log(entry: CommitLogEntry) -> bytes:
    """The file of an entry, in its version, as Spark writes it."""
    fields: dict[str, Any] = {"nextBatchWatermarkMs": entry.next_watermark_ms}
    # Version 3 adds the sinks. It has ids only if the state has them.
    if entry.version == 2 or entry.state_unique_ids:
        fields["stateUniqueIds"] = {str(operator): ids for operator, ids in entry.state_unique_ids.items()}
    if entry.version == 3:
        fields["sinkMetadataMap"] = entry.sinks
    if entry.hdfsstore_fields:
        fields[_HDFSSTORE] = entry.hdfsstore_fields
    return encode_versioned(entry.version, dump_json(fields))


def _unique_ids(fields: JsonObject) -> dict[int, list[list[str]]]:
    ids: dict[int, list[list[str]]] = {}
    for operator_id, partitions in fields.plain("stateUniqueIds").items():
        if not NUMBER.fullmatch(operator_id) or not _is_list_of_string_lists(partitions):
            raise fields.error("stateUniqueIds is not, by operator id, a list of lists of strings")
        ids[int(operator_id)] = partitions
    return ids


def _is_list_of_string_lists(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(part, list) and all(isinstance(item, str) for item in part) for part in value
    )


class CommitLog:
    """The commit log of a checkpoint, for the one driver that writes it.

    An entry says which attempt's version of each store counts. It is written once and never replaced. `add` first
    checks that every partition has reported, and has started from the version that the log has for it.

    Args:
        location: the checkpoint, as Checkpoint takes it; its folder `commits` is made with the first entry.
        storage_options: as Checkpoint takes them.
        checkpoint_format_version: 2 writes unique ids; 1, Spark's default, does not.
        num_partitions: of each operator; None expects those of the batch before.
    """

    def __init__(
        self,
        location: Location,
        *,
        storage_options: StorageOptions | None = None,
        checkpoint_format_version: int = 2,
        num_partitions: int | None = None,
    ) -> None:
        if checkpoint_format_version not in (1, 2):
            raise ValueError(f"checkpoint_format_version is 1 or 2, not {checkpoint_format_version}")
        self._fs, path = resolve(location, storage_options)
        self._folder = f"{path}/commits"
        self._log: MetadataLog[CommitLogEntry] = MetadataLog(self._fs, self._folder, read_commit_log)
        self._format = checkpoint_format_version
        self._num_partitions = num_partitions

    def add(
        self,
        batch_id: int,
        next_watermark_ms: int,
        infos: Mapping[int, Mapping[int, Sequence[StateStoreCheckpointInfo]]],
        hdfsstore_fields: Mapping[str, Any] | None = None,
    ) -> CommitLogEntry:
        """Writes the entry of a batch, which commits it.

        Args:
            batch_id: the batch, which writes version batch_id + 1 of each store.
            next_watermark_ms: the watermark of the next batch, milliseconds since 1970.
            infos: operator id -> partition -> the report of its chosen task on each store, in the order of the stores.
            hdfsstore_fields: fields that the driver adds to the entry: values of JSON by name.

        Raises:
            BatchAlreadyLoggedError: the log has an entry of the batch.
            CheckpointIdMismatchError: a task started from another version than the one that the log holds.
            MissingFileError: the entry of the batch before is missing, so that the ids cannot be checked.
            StateStoreError: a partition has not reported, or has reported another version than this batch's.
        """
        entry = self.checked(batch_id, next_watermark_ms, infos, self._ids_before(batch_id), hdfsstore_fields)
        self._log.add(batch_id, encode_commit_log(entry))
        return entry

    def checked(
        self,
        batch_id: int,
        next_watermark_ms: int,
        infos: Mapping[int, Mapping[int, Sequence[StateStoreCheckpointInfo]]],
        before: Mapping[int, list[list[str]]],
        hdfsstore_fields: Mapping[str, Any] | None = None,
    ) -> CommitLogEntry:
        """The entry that `add` writes, after its checks. Nothing is read or written.

        Args:
            before: CommitLogEntry.state_unique_ids of the batch before; empty in batch 0.

        Raises:
            CheckpointIdMismatchError, StateStoreError: as `add` does.
        """
        path = f"{self._folder}/{batch_id}"
        if before and set(infos) != set(before):
            raise StateStoreError(
                f"operators {sorted(infos)} have reported; the batch before has {sorted(before)}", path
            )
        for operator_id, partitions in infos.items():
            self._check(path, batch_id, operator_id, partitions, before.get(operator_id))
        ids = {}
        if self._format > 1:
            ids = {
                operator_id: [
                    [info.checkpoint_unique_id or "" for info in infos[operator_id][i]] for i in sorted(parts)
                ]
                for operator_id, parts in sorted(infos.items())
            }
        return CommitLogEntry(self._format, next_watermark_ms, ids, {}, dict(hdfsstore_fields or {}))

    def get(self, batch_id: int) -> CommitLogEntry | None:
        """The entry of a batch; None if the batch is not committed, or its entry is purged."""
        try:
            return read_commit_log(self._fs, f"{self._folder}/{batch_id}")
        except FileNotFoundError:
            return None

    def latest(self) -> tuple[int, CommitLogEntry] | None:
        """The newest committed batch and its entry; None in a new log."""
        return self._log.latest()

    def purge(self, before: int) -> None:
        """Deletes the entries of all batches before `before`."""
        self._log.purge(before)

    def _ids_before(self, batch_id: int) -> dict[int, list[list[str]]]:
        """The ids that the batch has to start from; none in the first batch, and after an entry of version 1."""
        if batch_id == 0:
            return {}
        entry = self.get(batch_id - 1)
        if entry is not None:
            return entry.state_unique_ids
        if self._format == 1:
            return {}
        raise MissingFileError(
            f"batch {batch_id} cannot be committed: the entry of the batch before it is missing",
            f"{self._folder}/{batch_id - 1}",
            remedy="Commit the batches in their order, and never purge the newest one",
        )

    def _check(
        self,
        path: str,
        batch_id: int,
        operator_id: int,
        partitions: Mapping[int, Sequence[StateStoreCheckpointInfo]],
        before: list[list[str]] | None,
    ) -> None:
        """Raises unless the reports of an operator's tasks agree with each other and with the batch before."""
        operator = f"operator {operator_id}"
        expected = len(before) if before else self._num_partitions or max(partitions, default=0) + 1
        if set(partitions) != set(range(expected)):
            raise StateStoreError(
                f"{operator} has {expected} partitions, and {sorted(partitions)} have reported",
                path,
                remedy="Every partition has to commit a version, even one without updates: run the batch again",
            )
        for partition_id, infos in partitions.items():
            bases: list[str | None] = list(before[partition_id]) if before else [None] * len(partitions[0])
            where = f"{operator}, partition {partition_id}"
            if len(infos) != len(bases):
                raise StateStoreError(f"{where} has {len(bases)} stores, and {len(infos)} have reported", path)
            for info, base in zip(infos, bases, strict=True):
                if (info.partition_id, info.version) != (partition_id, batch_id + 1):
                    raise StateStoreError(
                        f"{where} has reported version {info.version} of partition {info.partition_id}; batch "
                        f"{batch_id} writes version {batch_id + 1}",
                        path,
                    )
                if (info.checkpoint_unique_id is not None) != (self._format > 1):
                    raise CheckpointIdMismatchError(
                        f"{where} has reported the unique id {info.checkpoint_unique_id}; this log is of checkpoint "
                        f"format version {self._format}",
                        path,
                        remedy="Give the providers and the log the same checkpoint_format_version",
                    )
                if info.checkpoint_unique_id is not None and not UNIQUE_ID.fullmatch(info.checkpoint_unique_id):
                    raise CheckpointIdMismatchError(
                        f"{where} has reported {info.checkpoint_unique_id!r}, which is not a unique id",
                        path,
                    )
                # In format 1 a task has no ids, but may report the id of the version that it started from.
                if info.base_checkpoint_unique_id != base and (self._format > 1 or info.base_checkpoint_unique_id):
                    raise CheckpointIdMismatchError(
                        f"{where} has started from version {batch_id} with the unique id "
                        f"{info.base_checkpoint_unique_id}, and the log holds {base} for it",
                        path,
                        remedy="Another attempt was chosen in the batch before: run this one again from its version",
                    )
