"""Migrates a query from Spark's own operator: copies its state, and makes Spark accept our plan on the checkpoint.

Spark refuses to start our plan on such a checkpoint (4.3, tried), for two reasons. It compares the names of the
stateful operators in `<checkpoint>/state/*/_metadata` with those of the plan, and sees none there. With timeouts our
plan also has one source more than an entry of the offset log has lines (in format version 1 of that log). Spark does
not check the state's files. So the state of the newest committed batch N is copied, as version N + 1, and the
checkpoint is changed in two places:

    state/0/_metadata/metadata    moved to hdfsstore/taken-over/state/0/_metadata/metadata
    offsets/<N-1>, <N>, <N+1>     with timeouts, in format version 1: a line "-" (no offset yet) is added for the
                                  timeout source. The original files are in hdfsstore/taken-over/offsets. Spark reads
                                  the newest two

    1  hdfsstore/state             write a snapshot of each partition, which no log entry names yet
    2  hdfsstore/takeover          create; it exists until the end, and a start that finds it repeats all steps
    3  hdfsstore/commits, offsets  set aside the entries of an earlier start
    4  hdfsstore/offsets/<N>, commits/<N>  write
    5  the two changes, then delete hdfsstore/takeover

Until step 5 the user can start Spark's own query again. A repeated migration takes what that query has committed.
Spark's files of the state stay where they are, and the package never deletes them.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyarrow.fs import FileType

from hdfsstore.checkpoint.batch_logs import BatchLogs
from hdfsstore.checkpoint.commit_log import CommitLogEntry, encode_commit_log, read_commit_log
from hdfsstore.checkpoint.metadata_log import MetadataLog
from hdfsstore.checkpoint.offset_log import parse_offset_log, read_offset_log
from hdfsstore.checkpoint.operator_state import OperatorState
from hdfsstore.checkpoint.operators import Operator, list_operators
from hdfsstore.checkpoint.spark_quirks import GROUP_STATE_FORMAT
from hdfsstore.codecs.records import MAX_RECORD_BYTES
from hdfsstore.errors import BatchNotAvailableError, MissingFileError, UnsupportedQueryError, remedied
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.location import Location, resolve
from hdfsstore.fs.publish import publish, remove
from hdfsstore.fs.reading import file_types, read_file
from hdfsstore.spark.querylog.log_entries import (
    ENCODING_FORMAT,
    FOLDER,
    Entry,
    copied,
    hdfsstore_fields,
    read_entry,
    settings_of,
)
from hdfsstore.spark.querylog.rewind import copy_metadata, set_aside
from hdfsstore.spark.querylog.state_copy import copy_state, provider_of
from hdfsstore.spark.querylog.state_description import StateDescription, fits, shown, write_description
from hdfsstore.spark.spec import GROUP_STATE, NO_TIMEOUT, OPERATOR_ID
from hdfsstore.state.conf import StateStoreConf

log = logging.getLogger("hdfsstore.spark.migration")

_FUNCTIONS = ("applyInPandasWithState", "flatMapGroupsWithState", "transformWithState")
_NO_OFFSET = b"\n-"
_KEPT = "taken-over"
_NEW = "or start it with a new checkpointLocation, with no state"
_PUT_BACK = "Put it back as Spark has written it; or start the query with a new checkpointLocation, with no state"


@remedied(_PUT_BACK)
def migrate(checkpoint: Location, wanted: StateDescription, conf: StateStoreConf, upstream: Sequence[str]) -> None:
    """Migrates the state of Spark's operator to our stores, if the checkpoint has such a state; else does nothing.

    Args:
        checkpoint: the query's checkpointLocation, as a URI or a local path.
        wanted: the state as this start declares it.
        conf: settings of our stores.
        upstream: Spark's stateful operators before ours in the query. They keep their state.

    Raises:
        UnsupportedQueryError: the state does not fit this function, or cannot be migrated; the message names both.
        MissingFileError: the state was migrated before, and our copy of it is gone.
        StateStoreError: files are missing or damaged, or the filesystem fails.
    """
    fs, path = resolve(checkpoint)
    operator = _found(fs, path, wanted, upstream)
    if operator is not None:
        _Migration(fs, path, wanted, conf, operator).run()


@remedied(_PUT_BACK)
def check_migration(
    checkpoint: Location, wanted: StateDescription, conf: StateStoreConf, upstream: Sequence[str]
) -> None:
    """Checks as migrate does, without a change. Spark's operator may be running.

    It does not read the files of the state.
    """
    fs, path = resolve(checkpoint)
    operator = _found(fs, path, wanted, upstream)
    if operator is not None:
        _Migration(fs, path, wanted, conf, operator).look()


def _found(fs: FileManager, path: str, wanted: StateDescription, upstream: Sequence[str]) -> Operator | None:
    """The operator of Spark whose state must be migrated; None if there is none."""
    root = f"{path}/{FOLDER}"
    under_way = file_types(fs, [f"{root}/takeover"]) == [FileType.File]
    has_state = not under_way and bool(MetadataLog(fs, f"{root}/commits", read_commit_log).list().files)
    operators = list_operators(fs, path)
    if has_state:
        _check_one_state(path, operators, wanted)
        return None
    found = [operator for operator in operators if _is_candidate(operator, upstream)]
    if not found:
        return None
    kept = f"{root}/{_KEPT}"
    committed = MetadataLog(fs, f"{path}/commits", read_commit_log).list().files
    if committed and not under_way and file_types(fs, [kept]) == [FileType.Directory]:
        raise MissingFileError(
            f"the state was migrated from Spark's operator ({kept}), but this log has no entry of a batch",
            f"{root}/commits",
            remedy=f"Put the files of {root} back, or go back to Spark's operator as docs/stateful-protocol.md says",
        )
    _check(path, found, wanted, upstream)
    return found[0]


def _check_one_state(path: str, operators: Sequence[Operator], wanted: StateDescription) -> None:
    """Raises UnsupportedQueryError if Spark's operator has run again after a migration."""
    for operator in operators:
        if operator.name is not None and operator.name.startswith(_FUNCTIONS):
            raise UnsupportedQueryError(
                f"the checkpoint holds two states of the query: that of Spark's {operator.name} in "
                f"state/{operator.operator_id}, and that of hdfsstore's {wanted.method} in {FOLDER}",
                path,
                remedy=f"Move the folder {FOLDER} away to go on from Spark's, or the folder state to go on from ours",
            )


def _is_candidate(operator: Operator, upstream: Sequence[str]) -> bool:
    """Whether our function might go on from the operator's state."""
    if operator.name is None:  # written before Spark 4.0, or left by a migration
        value_type = operator.stores[0].value_type
        return value_type is not None and [field.name for field in value_type.fields[:1]] == [GROUP_STATE]
    return operator.name.startswith(_FUNCTIONS) or not upstream


def _check(path: str, found: Sequence[Operator], wanted: StateDescription, upstream: Sequence[str]) -> None:
    """Raises UnsupportedQueryError unless there is one operator, and our state has its key and value types."""
    operator = found[0]
    store = operator.stores[0]
    key_type, value_type = store.key_type, store.value_type
    if len(found) > 1 or upstream:
        why = f"and {', '.join([*(str(other.name) for other in found[1:]), *upstream])} beside it"
    elif operator.name not in (wanted.method, None):
        why = "which keeps its state for itself"
    elif key_type is None or not fits(wanted.key_type, key_type):
        why = f"whose key is {shown(key_type) if key_type else 'not known'}, not {shown(wanted.key_type)}"
    elif value_type is None or not fits(wanted.value_type, value_type):
        why = f"whose state is {shown(value_type) if value_type else 'not known'}, not {shown(wanted.value_type)}"
    else:
        return
    raise _refused(path, operator, wanted, why)


def _refused(path: str, operator: Operator, wanted: StateDescription, why: str) -> UnsupportedQueryError:
    return UnsupportedQueryError(
        f"the checkpoint holds the state of Spark's operator {operator.name or 'without a name'}, {why}: "
        f"hdfsstore's {wanted.method} cannot go on from it",
        f"{path}/state/{operator.operator_id}",
        remedy=f"Run the query with Spark's operator, as before; {_NEW}",
    )


@dataclass(frozen=True, slots=True)
class _Left:
    """What Spark's operator has left in the logs.

    Attributes:
        batch_id: the newest committed batch; -1 if there is none.
        commit: its entry.
        entries: Spark's entries of offsets, as our plan needs them, from the batch before `batch_id` on.
    """

    batch_id: int
    commit: CommitLogEntry | None
    entries: dict[int, Entry]


@dataclass(frozen=True, slots=True)
class _Migration:
    """The steps of a migration from one operator of Spark."""

    fs: FileManager
    path: str
    wanted: StateDescription
    conf: StateStoreConf
    operator: Operator

    def look(self) -> _Left:
        """Reads the logs, and refuses a state that cannot be migrated."""
        logs = BatchLogs(self.fs, self.path)
        for error in logs.look().damaged:
            raise error
        committed, begun = logs.commits.latest(), logs.offsets.latest()
        batch_id = committed[0] if committed else -1
        oldest, newest = max(batch_id - 1, 0), begun[0] if begun else -1
        found = {number: self._entry(number) for number in range(oldest, newest + 1)}
        entries = {number: entry for number, entry in found.items() if entry is not None}
        if committed and batch_id not in entries:
            raise MissingFileError(
                "this entry is not there, and the batch is committed",
                f"{self.path}/offsets/{batch_id}",
                remedy="Put it back",
            )
        if committed:
            self._check_partitions(batch_id)
            provider_of(self._theirs, entries[batch_id].parsed.conf)
        return _Left(batch_id, committed[1] if committed else None, entries)

    def run(self) -> None:
        left = self.look()
        batch_id, entries = left.batch_id, left.entries
        new_ids = self._copy_state(batch_id + 1, left.commit, entries[batch_id]) if left.commit else []
        marker = f"{self._root}/takeover"
        publish(self.fs, marker, f'{{"batchId":{batch_id}}}'.encode(), overwrite=True)
        self._set_aside()
        if left.commit:
            self._log(batch_id, left.commit, entries[batch_id], new_ids)
        self._change(entries)
        remove(self.fs, [marker])
        log.warning(
            "%s: the state of Spark's %s was migrated at the end of batch %d, in %d partitions. %s has the original "
            "files of the checkpoint that were changed",
            self.path,
            self.operator.name or "operator",
            batch_id,
            self._partitions,
            self._kept,
        )

    @property
    def _root(self) -> str:
        return f"{self.path}/{FOLDER}"

    @property
    def _theirs(self) -> str:
        return f"{self.path}/state"

    @property
    def _kept(self) -> str:
        return f"{self._root}/{_KEPT}"

    @property
    def _partitions(self) -> int:
        return self.operator.stores[0].num_partitions

    def _entry(self, number: int) -> Entry | None:
        """Spark's entry of a batch as our plan needs it; None if it does not exist."""
        path = f"{self.path}/offsets/{number}"
        entry = read_entry(self.fs, path)
        if entry is None:
            return None
        spark_conf = entry.parsed.conf
        for name, value in ((GROUP_STATE_FORMAT, "2"), (ENCODING_FORMAT, "unsaferow")):
            if spark_conf.get(name, value) != value:
                raise _refused(
                    self.path, self.operator, self.wanted, f"kept under {name}={spark_conf[name]}, not {value}"
                )
        # In format version 2 Spark finds sources by their ids, and starts a new one at its first offset.
        if self.wanted.timeout_conf == NO_TIMEOUT or entry.parsed.version > 1:
            return entry
        before = read_entry(self.fs, f"{self._kept}/offsets/{number}")
        if before is not None and before.content + _NO_OFFSET == entry.content:  # changed by an earlier migration
            return entry
        content = entry.content + _NO_OFFSET
        return Entry(content, parse_offset_log(content, path))

    def _check_partitions(self, batch_id: int) -> None:
        """Raises MissingFileError if the folder of a partition does not exist."""
        store = self.operator.stores[0]
        found = set(store.partition_ids)
        missing = next((i for i in store.needed_partitions(store.key_type) if i not in found), None)
        if missing is not None:
            raise MissingFileError(
                f"batch {batch_id} has written {self._partitions} partitions of the state, and this one is not there",
                store.partition_path(missing),
                remedy=_PUT_BACK,
            )

    def _set_aside(self) -> None:
        """Does step 3."""
        logs = (MetadataLog(self.fs, f"{self._root}/{name}", read_offset_log) for name in ("offsets", "commits"))
        numbers = {number for each in logs for number in each.list().files}
        if numbers:
            set_aside(self.fs, self._root, numbers, "the state of Spark's operator is migrated")

    def _copy_state(self, version: int, committed: CommitLogEntry, entry: Entry) -> list[str | None]:
        """Does step 1. Returns the unique id of each partition's snapshot."""
        ids = committed.state_unique_ids.get(self.operator.operator_id)
        conf = entry.parsed.conf
        theirs = OperatorState(
            fs=self.fs,
            provider=provider_of(self._theirs, conf),
            operator=self.operator,
            version=version,
            unique_ids={version: ids} if ids else {},
            conf=conf,
            max_record_bytes=MAX_RECORD_BYTES,
            empty_folders=False,
        )
        try:
            return copy_state(theirs, f"{self._root}/state", (self.wanted.key_type, self.wanted.value_type), self.conf)
        except BatchNotAvailableError as error:
            raise MissingFileError(
                f"batch {version - 1} is committed, and Spark's operator has left no state of it: {error.message}",
                error.path,
                remedy=f"Put the files back; if the query has run with hdfsstore.spark since, its folder {FOLDER}",
            ) from error

    def _log(self, batch_id: int, committed: CommitLogEntry, entry: Entry, new_ids: list[str | None]) -> None:
        """Does step 4."""
        copy_metadata(self.fs, self.path, self._root)
        write_description(self.fs, self._root, replace(self.wanted, num_partitions=self._partitions))
        ours = copied(entry, settings_of(self.conf, self._partitions))
        publish(self.fs, f"{self._root}/offsets/{batch_id}", ours.content, overwrite=True)
        # The state may have any timeouts, so the first batch must look for expired ones.
        fields = hdfsstore_fields(entry, None if self.wanted.timeout_conf == NO_TIMEOUT else 0)
        logged_ids = {OPERATOR_ID: [[each] for each in new_ids if each is not None]}
        commit = CommitLogEntry(
            self.conf.checkpoint_format_version,
            committed.next_watermark_ms,
            logged_ids if self.conf.checkpoint_format_version > 1 else {},
            {},
            fields,
        )
        publish(self.fs, f"{self._root}/commits/{batch_id}", encode_commit_log(commit), overwrite=True)

    def _change(self, entries: dict[int, Entry]) -> None:
        """Does the changes of step 5."""
        for number, entry in entries.items():
            name = f"offsets/{number}"
            content = read_file(self.fs, f"{self.path}/{name}")
            if content != entry.content:
                publish(self.fs, f"{self._kept}/{name}", content, overwrite=True)
                publish(self.fs, f"{self.path}/{name}", entry.content, overwrite=True)
        name = f"state/{self.operator.operator_id}/_metadata/metadata"
        if self.operator.name is not None:
            content = read_file(self.fs, f"{self.path}/{name}")
            publish(self.fs, f"{self._kept}/{name}", content, overwrite=True)
            remove(self.fs, [f"{self.path}/{name}"])
