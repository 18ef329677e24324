"""Opens the checkpoint of a streaming query: its batches, its operators, and their state."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from functools import cached_property, partial

import pyarrow as pa

from hdfsstore.checkpoint import reading
from hdfsstore.checkpoint.batch import Batch, to_batch
from hdfsstore.checkpoint.batch_conf import Repartition, first_repartition, nearest_conf
from hdfsstore.checkpoint.batch_logs import BatchLogs
from hdfsstore.checkpoint.committed_states import CommittedStates
from hdfsstore.checkpoint.key_history import batches_between, parse_given, read_history
from hdfsstore.checkpoint.location import find_checkpoint
from hdfsstore.checkpoint.notebook import html_table
from hdfsstore.checkpoint.operator_state import OperatorState
from hdfsstore.checkpoint.operators import DEFAULT_STORE, Operator, OperatorFiles, operators_at
from hdfsstore.checkpoint.query_metadata import read_query_id
from hdfsstore.checkpoint.row_converter import Key
from hdfsstore.checkpoint.row_shape import RowShape, Where, shaped
from hdfsstore.checkpoint.state_diff import read_diff
from hdfsstore.checkpoint.state_request import JoinSide, StateRequest
from hdfsstore.codecs.records import MAX_RECORD_BYTES
from hdfsstore.errors import (
    BatchNotAvailableError,
    CheckpointNotFoundError,
    CorruptFileError,
    RepairUnderWayError,
    StateStoreError,
    remedied,
)
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.local_files import LocalFileManager
from hdfsstore.fs.location import Location, resolve
from hdfsstore.fs.storage_options import StorageOptions

log = logging.getLogger("hdfsstore.checkpoint")

# For files that name no other remedy: logs, metadata and schemas.
_RESTORE = "Restore the file from a copy"
# So many requests at a time are as quick as more, where each takes 20 ms.
_REMOTE_THREADS = 16


class Checkpoint:
    """A checkpoint, opened only for reading.

    A running query may add and remove batches at any time, so the properties about batches and operators list the files
    anew each time.

    Args:
        location: a URI, a local path, or (pyarrow.fs.FileSystem, path). Of a query of hdfsstore.spark, its
            checkpointLocation, or the folder `hdfsstore` in it.
        storage_options: how the storage of a URI is reached, by names such as `aws_endpoint_url` or `fs.s3a.endpoint`;
            docs/storage.md has all. What they leave out, HADOOP_CONF_DIR and AWS's environment variables say.
        num_threads: how many partitions are read at the same time; by default the number of processors, and at least 16
            on a remote storage, where most of them wait for bytes.
        max_record_bytes: a key or value of a state file that declares more bytes than this counts as damage.

    Attributes:
        path: the folder that was opened.
        remark: what a person should know of it, where the location has two checkpoints; else None.
        num_threads: how many partitions are read at the same time.

    Raises:
        CheckpointNotFoundError: there is no checkpoint.
        UnsupportedSettingError: there is no such storage option, or a setting cannot be honoured.
        ValueError: num_threads is less than 1, or there are storage options beside a pair.
    """

    def __init__(
        self,
        location: Location,
        *,
        storage_options: StorageOptions | None = None,
        num_threads: int | None = None,
        max_record_bytes: int = MAX_RECORD_BYTES,
    ) -> None:
        if num_threads is not None and num_threads < 1:
            raise ValueError(f"num_threads is {num_threads}; give at least one thread")
        self._fs, given = resolve(location, storage_options)
        usual = 1 if isinstance(self._fs, LocalFileManager) else _REMOTE_THREADS
        self.num_threads = num_threads or max(usual, os.cpu_count() or 1)
        self.path, self.remark = find_checkpoint(self._fs, given)
        self._logs = BatchLogs(self._fs, self.path)
        self._states = CommittedStates(self._fs, self.path, self._logs, max_record_bytes)

    def __repr__(self) -> str:
        return f"Checkpoint({self.path!r})"

    def _repr_html_(self) -> str:
        batches = self._logs.look()
        done = f"batches {min(batches.done)} to {max(batches.done)} committed" if batches.done else "no batch committed"
        stores = [
            (operator.operator_id, operator.name or "of unknown kind", store.name, store.num_partitions)
            for operator in self.operators
            for store in operator.stores
        ]
        return html_table(f"{self.path}: {done}", ("operator", "name", "store", "partitions"), stores)

    @property
    def file_manager(self) -> FileManager:
        """Lists and reads the files where `path` is."""
        return self._fs

    @cached_property
    def query_id(self) -> str:
        """The query's id, the same over all restarts.

        Raises:
            CheckpointNotFoundError: the checkpoint lacks the file `metadata`.
        """
        path = f"{self.path}/metadata"
        try:
            return read_query_id(self._fs, path)
        except FileNotFoundError:
            raise CheckpointNotFoundError(
                "the checkpoint lacks this file, which holds the query's id",
                path,
                remedy="Was the checkpoint copied whole? All else can still be read",
            ) from None

    @property
    def batches(self) -> list[Batch]:
        """The batches that the checkpoint still has, by number. A batch whose offsets are in `damaged` is left out.

        Raises:
            CorruptFileError: a damaged entry of a log that is not in `damaged`.
        """
        with remedied(_RESTORE):
            logged = self._logs.look()
            started = self._logs.offsets.read_all(logged.offsets, logged.offsets.files)
            committed = [batch_id for batch_id in started if batch_id in logged.commits.files]
            finished = self._logs.commits.read_all(logged.commits, committed)
        files = logged.offsets.files
        return [
            to_batch(number, files[number].path, entry, finished.get(number), number in logged.done)
            for number, entry in started.items()
        ]

    @property
    def damaged(self) -> list[CorruptFileError]:
        """The newest entry of `offsets` and of `commits` if it is empty or cut off, as after a power cut.

        Spark does not sync these files. Such a batch does not count as begun, or as committed. The errors say how to
        start the query again.
        """
        return self._logs.look().damaged

    @property
    def repair(self) -> RepairUnderWayError | None:
        """The in-place repair that has begun and not ended, if there is one. The batches are those that it has left."""
        return self._logs.look().repair

    @property
    def latest_batch_id(self) -> int:
        """The newest batch that is committed.

        Raises:
            BatchNotAvailableError: no batch is committed.
        """
        return self._states.latest(self._logs.look())

    @property
    def unfinished_repartition(self) -> Repartition | None:
        """A batch that has begun and is not committed, and that changes the number of partitions; None: there is none.

        Such a batch does not just run again. Spark 4.2 and later refuse to start the query
        (STREAMING_UNFINISHED_REPARTITION_DETECTED) until the repartition to the same number has run again. Older
        releases would start it, and lose state.
        """
        logged = self._logs.look()
        return first_repartition(self._logs, logged, logged.offsets.files.keys() - logged.done)

    def batch(self, batch_id: int) -> Batch:
        """One batch.

        Raises:
            BatchNotAvailableError: the checkpoint does not have it.
            CorruptFileError: its entry is damaged.
        """
        logged = self._logs.look()
        begun = logged.offsets.files
        for error in logged.damaged:
            if error.path == f"{self.path}/offsets/{batch_id}":
                raise error
        started = self._logs.offsets.read(logged.offsets, batch_id) if batch_id in begun else None
        if started is None:
            kept = f"It keeps batches {min(begun)} to {max(begun)}" if begun else "It keeps none"
            raise BatchNotAvailableError(f"the checkpoint does not keep batch {batch_id}", self.path, remedy=kept)
        is_ended = batch_id in logged.commits.files
        finished = self._logs.commits.read(logged.commits, batch_id) if is_ended else None
        return to_batch(batch_id, begun[batch_id].path, started, finished, batch_id in logged.done)

    @property
    def operators(self) -> list[Operator]:
        """The stateful operators, by number, as they are at the newest committed batch."""
        logged = self._logs.look()
        at = max(logged.done, default=None)
        found = operators_at(self._fs, self.path, at, nearest_conf(self._logs, logged, at))
        return [self._with_rows(operator, at) for operator in found]

    def operator(self, operator_id: int = 0, batch_id: int | None = None) -> Operator:
        """One operator, with the metadata and partitions it has at a batch (the newest committed one by default).

        Raises:
            CheckpointNotFoundError: the query has no such operator.
        """
        logged = self._logs.look()
        at = max(logged.done, default=None) if batch_id is None else batch_id
        conf = nearest_conf(self._logs, logged, at)
        return self._with_rows(self._states.operator(OperatorFiles(self._fs, self.path, operator_id, at), at, conf), at)

    def read_state(
        self,
        operator_id: int = 0,
        store_name: str = DEFAULT_STORE,
        batch_id: int | None = None,
        join_side: JoinSide | None = None,
        partitions: Sequence[int] | None = None,
        *,
        key_schema: pa.Schema | None = None,
        value_schema: pa.Schema | None = None,
        key: Key | None = None,
        state_var: str | None = None,
        flatten_collections: bool = True,
        read_registered_timers: bool = False,
        columns: Sequence[str] | None = None,
        where: Where | None = None,
        unique_names: bool = True,
        flatten_columns: bool = False,
        decode_values: bool = False,
    ) -> pa.Table:
        """The rows of a store at a batch: key (struct), value (struct) and partition_id (int32), in no order.

        Columns, types and rows are those of Spark's `statestore` source. Only the second of two fields of one name has
        another name there, see `unique_names`.

        Args:
            operator_id, store_name: the store.
            batch_id: a committed batch; the newest by default.
            join_side: "left" or "right": reads the rows of that side of a stream-stream join, instead of a store.
            partitions: the partitions to read; all by default.
            key_schema, value_schema: replace a schema that is missing or wrong.
            key: reads the row of this key alone: a mapping of its fields, or a pyarrow.StructArray of one row. Of a
                RocksDB only the blocks that may have the key are read.
            state_var: a state variable of transformWithState. A value is in `value`; an element of a list in
                `list_element`, a row each; an entry of a map in `user_map_key` and `user_map_value`, a row each.
            flatten_collections: False: a list is in `list_value`, a map in `map_value`, with one row for a key.
            read_registered_timers: reads the timers of transformWithState: key, expiration_timestamp_ms (int64).
            columns: only these columns and fields, such as `key`, `value.count`, `key.window.start`, in the order of
                the store. What is not needed is not decoded.
            where: only rows for which it is true: a condition as `hdfsstore read --where` takes it, or a
                pyarrow.compute.Expression. If a text leaves one key, or one partition, only that is read.
            unique_names: numbers the second of two fields of one name, `sum_2`, because polars, DuckDB and `to_pylist`
                take no two. False: both have Spark's name. Columns and conditions always go by the unique names.
            flatten_columns: makes columns `key.user`, `value.count` of the fields of structs, with unique names.
            decode_values: gives states of hdfsstore.spark's mapWithState without a schema as JSON (string); else they
                are msgpack's bytes. It needs msgpack, and `where` is on the JSON.

        Raises:
            BatchNotAvailableError: the batch is not committed, or retention has removed what it needs.
            CheckpointNotFoundError: there is no such operator, store, partition or state variable.
            CorruptFileError, MissingFileError: files that the batch needs are damaged or missing.
            ConditionError: there is no such column, or `where` cannot be parsed. It is a ValueError.
            SchemaMismatchError: there is no schema, or the rows do not fit it; the message describes the rows.
            UnsupportedProviderError, UnsupportedTypeError: this release cannot read the state.
        """
        request = StateRequest(
            operator_id=operator_id,
            store_name=store_name,
            batch_id=batch_id,
            join_side=join_side,
            partitions=partitions,
            key_schema=key_schema,
            value_schema=value_schema,
            key=key,
            state_var=state_var,
            flatten_collections=flatten_collections,
            read_registered_timers=read_registered_timers,
            shape=RowShape(columns, where, unique_names, flatten_columns, decode_values),
        )
        return reading.read_table(self.rows_to_read(request), self.num_threads)

    def open_state(
        self,
        operator_id: int = 0,
        store_name: str = DEFAULT_STORE,
        batch_id: int | None = None,
        join_side: JoinSide | None = None,
        partitions: Sequence[int] | None = None,
        *,
        key_schema: pa.Schema | None = None,
        value_schema: pa.Schema | None = None,
        key: Key | None = None,
        state_var: str | None = None,
        flatten_collections: bool = True,
        read_registered_timers: bool = False,
        columns: Sequence[str] | None = None,
        where: Where | None = None,
        unique_names: bool = True,
        flatten_columns: bool = False,
        decode_values: bool = False,
    ) -> pa.RecordBatchReader:
        """As read_state, but as a stream of record batches, in memory that does not grow with the store.

        The stream holds the keys of the deltas since the last snapshot, and a few megabytes for each thread. A snapshot
        on a remote storage is checked before its first row comes; meanwhile it is kept in memory, or in a
        temporary file (TMPDIR) if it is larger than 4 MiB. Without room there it is downloaded twice. The reader
        raises the errors that only show while rows are read.
        """
        request = StateRequest(
            operator_id=operator_id,
            store_name=store_name,
            batch_id=batch_id,
            join_side=join_side,
            partitions=partitions,
            key_schema=key_schema,
            value_schema=value_schema,
            key=key,
            state_var=state_var,
            flatten_collections=flatten_collections,
            read_registered_timers=read_registered_timers,
            shape=RowShape(columns, where, unique_names, flatten_columns, decode_values),
        )
        return reading.open_state(self.rows_to_read(request), self.num_threads)

    def read_changes(
        self,
        start_batch_id: int,
        end_batch_id: int,
        operator_id: int = 0,
        store_name: str = DEFAULT_STORE,
        partitions: Sequence[int] | None = None,
        *,
        key_schema: pa.Schema | None = None,
        value_schema: pa.Schema | None = None,
        state_var: str | None = None,
        columns: Sequence[str] | None = None,
        where: Where | None = None,
        unique_names: bool = True,
        flatten_columns: bool = False,
        decode_values: bool = False,
    ) -> pa.Table:
        """The changes of a store in the batches from `start_batch_id` to `end_batch_id`, both included.

        Columns: batch_id (int64), change_type, key, value (null for a delete), partition_id (int32), as Spark's
        `statestore` source has them with readChangeFeed. The change types are "update" and "delete"; in RocksDB also
        "append" of a value that is merged, and "delete_range". The key of the latter is the first one of the range,
        and the value is no value, but the end of the range as its bytes look as one.

        Raises:
            As read_state; BatchNotAvailableError also if a batch has no delta any more, if the number of partitions
                changes, or if a range of keys was deleted whose end does not look like a value.
        """
        request = StateRequest(
            operator_id=operator_id,
            store_name=store_name,
            batch_id=end_batch_id,
            partitions=partitions,
            key_schema=key_schema,
            value_schema=value_schema,
            state_var=state_var,
            shape=RowShape(columns, where, unique_names, flatten_columns, decode_values),
        )
        return reading.read_table(self.changes_to_read(start_batch_id, request), self.num_threads)

    def history(
        self,
        key: Key,
        operator_id: int = 0,
        store_name: str = DEFAULT_STORE,
        start_batch_id: int | None = None,
        end_batch_id: int | None = None,
        *,
        join_side: JoinSide | None = None,
        key_schema: pa.Schema | None = None,
        value_schema: pa.Schema | None = None,
        state_var: str | None = None,
        flatten_collections: bool = True,
        read_registered_timers: bool = False,
        changes_only: bool = False,
        limit: int | None = None,
        unique_names: bool = True,
        flatten_columns: bool = False,
        decode_values: bool = False,
    ) -> pa.Table:
        """The rows of a key after each committed batch that is kept, by key and batch.

        Columns: batch_id (int64), batch_time (timestamp, null where the log lacks it), change, and those of read_state
        but partition_id. `change` is "added", "changed", "removed", or "" where the batch did not change the row. In
        the first batch it is "", because the state before is unknown, unless it is batch 0. Of a row that was removed
        the value is null. Elements of lists, timers and rows of a join's side have no value of their own: they are
        added and removed, and shown in either case.

        Batches whose state is gone are left out, with a warning.

        Args:
            key: a mapping of some or all of the key's fields to Python's values, or to those that JSON has for them; or
                a pyarrow.StructArray of one whole key. A field of a struct may have its full name: `window.start`.
            start_batch_id, end_batch_id: the first and the last batch; all that are kept by default.
            changes_only: leaves out batches that did not change the row.
            limit: at most so many rows.
            The others: as read_state has them.

        Raises:
            As read_state; BatchNotAvailableError if the checkpoint keeps no such batch, or the state of none.
            ConditionError: the key has no such field, or it cannot have such a value. It is a ValueError.
        """
        request = StateRequest(
            operator_id=operator_id,
            store_name=store_name,
            join_side=join_side,
            key_schema=key_schema,
            value_schema=value_schema,
            state_var=state_var,
            flatten_collections=flatten_collections,
            read_registered_timers=read_registered_timers,
        )
        batches = batches_between(self.batches, start_batch_id, end_batch_id)
        found = read_history(self, request, partial(parse_given, key), batches)
        if found.unavailable:
            log.warning("%s: %s", self.path, found.remark)
        table = found.changes if changes_only else found.table
        shape = RowShape(None, None, unique_names, flatten_columns, decode_values)
        return shaped(table.slice(0, limit), shape)

    def diff(
        self,
        start_batch_id: int,
        end_batch_id: int,
        operator_id: int = 0,
        store_name: str = DEFAULT_STORE,
        *,
        join_side: JoinSide | None = None,
        key_schema: pa.Schema | None = None,
        value_schema: pa.Schema | None = None,
        state_var: str | None = None,
        flatten_collections: bool = True,
        read_registered_timers: bool = False,
        unique_names: bool = True,
        flatten_columns: bool = False,
        decode_values: bool = False,
    ) -> pa.Table:
        """The rows that differ between the states after two batches: those added, then those changed, then removed.

        Columns: change ("added", "changed", "removed"), key, before and after: the value, null where the row is not
        there. Of a map with an entry a row there is user_map_key besides. Elements of lists, timers and rows of a
        join's side are only added and removed, and are themselves in before or after.

        Where there are deltas or changelogs of all batches in between, only rows that these batches wrote are compared.
        The others are read whole.

        Raises:
            As read_state; StateStoreError if the first batch is not before the second one.
        """
        if start_batch_id >= end_batch_id:
            raise StateStoreError(
                f"batch {start_batch_id} is not before batch {end_batch_id}",
                self.path,
                remedy="Give the earlier one first",
            )
        request = StateRequest(
            operator_id=operator_id,
            store_name=store_name,
            join_side=join_side,
            key_schema=key_schema,
            value_schema=value_schema,
            state_var=state_var,
            flatten_collections=flatten_collections,
            read_registered_timers=read_registered_timers,
        )
        table = read_diff(self, request, start_batch_id, end_batch_id).table
        return shaped(table, RowShape(None, None, unique_names, flatten_columns, decode_values))

    def rows_to_read(self, request: StateRequest) -> reading.RowsToRead:
        """The same rows as read_state's, to be read partition by partition. It raises the same errors."""
        with remedied(_RESTORE):
            return reading.rows_to_read(self.operator_state(request.operator_id, request.batch_id), request)

    def changes_to_read(self, start_batch_id: int, request: StateRequest) -> reading.ChangesToRead:
        """The same changes as read_changes', to be read partition by partition; `request` names the last batch."""
        end_batch_id = self.latest_batch_id if request.batch_id is None else request.batch_id
        if start_batch_id > end_batch_id:
            raise StateStoreError(
                f"batch {start_batch_id} comes after batch {end_batch_id}",
                self.path,
                remedy="Give the earlier one first",
            )
        with remedied(_RESTORE):
            self._states.committed(start_batch_id)
            self._states.check_deltas(range(start_batch_id, end_batch_id + 1))
            state = self.operator_state(request.operator_id, end_batch_id, range(start_batch_id, end_batch_id + 1))
            return reading.changes_to_read(state, request, range(start_batch_id + 1, end_batch_id + 2))

    def operator_state(
        self, operator_id: int = 0, batch_id: int | None = None, batch_ids: Sequence[int] = ()
    ) -> OperatorState:
        """The files of an operator's state after a committed batch (the newest by default), for what is not in rows.

        Args:
            batch_ids: the batches whose unique ids are needed; that batch by default.

        Raises:
            As read_state.
        """
        return self._states.find(operator_id, batch_id, batch_ids)

    @property
    def provider(self) -> str:
        """The class of the state store provider: pinned by the newest batch, else told by the files."""
        offsets = self._logs.look().offsets
        newest = self._logs.offsets.read(offsets, max(offsets.files)) if offsets.files else None
        return self._states.provider_of(newest.conf if newest else {})

    def _with_rows(self, operator: Operator, batch_id: int | None) -> Operator:
        """The operator with stores that read their rows at that batch."""
        return operator.with_rows(lambda name: self.open_state(operator.operator_id, name, batch_id))
