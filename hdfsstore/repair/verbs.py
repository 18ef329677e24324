"""The verbs that write a whole new state: fork, repartition, convert, edit, and all of them in one pass."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, TypedDict, Unpack

from hdfsstore.checkpoint import conf as confs
from hdfsstore.errors import RepairError
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.location import Location, shown_location
from hdfsstore.fs.storage_options import StorageOptions
from hdfsstore.repair.edit import Edit
from hdfsstore.repair.limits import MOST_PARTITIONS, Limits, Progress, silent
from hdfsstore.repair.new_batch import NewBatch
from hdfsstore.repair.new_checkpoint import NewCheckpoint
from hdfsstore.repair.plan import Plan, Report
from hdfsstore.repair.rewrite import Rewrite, UniqueIds
from hdfsstore.repair.sink_log import absolute_location
from hdfsstore.repair.source import Source

log = logging.getLogger("hdfsstore.repair")

# The state store providers by the names that users give.
_FORMAT_VERSION = "spark.sql.streaming.stateStore.checkpointFormatVersion"


class Options(TypedDict, total=False):
    """What all of these verbs take.

    Attributes:
        batch_id: a committed batch; the newest by default.
        keep_query_id: the new checkpoint has the query id of the source.
        drop_begun: a batch that was begun and is not committed is left out. Its rows are planned anew.
        keep_begun: such a batch is begun in the new checkpoint, too, with the same offsets.
        file_sink: in place: the folder of the query's file sink, whose log gets an entry of the batch.
        dry_run: nothing is written; the plan is returned.
        storage_options, to_storage_options: how the checkpoint and the new one are reached, as Checkpoint takes them.
        operator_kinds: operator -> what it is, one of operator_kinds.KINDS, where Spark has not named it.
        limits: what the work may take.
        progress: is told how far it is.
    """

    batch_id: int | None
    keep_query_id: bool
    drop_begun: bool
    keep_begun: bool
    file_sink: str | PathLike[str] | None
    dry_run: bool
    storage_options: StorageOptions | None
    to_storage_options: StorageOptions | None
    operator_kinds: Mapping[int, str]
    limits: Limits
    progress: Progress


def fork(location: Location, to: Location, **options: Unpack[Options]) -> Plan:
    """Writes a whole new checkpoint at one batch, to try things on or to start a second query.

    Args:
        location: the checkpoint, which is only read. Its query may run.
        to: the new checkpoint: a folder that is empty or missing.
        options: see Options.

    Returns:
        A Report; with dry_run the Plan.

    Raises:
        RepairError: a batch was begun, and nothing says what to do about it; or there are files at `to`.
        StateStoreError: the source is damaged, or a storage fails.
    """
    return _written("fork", location, to, options)


def repartition(location: Location, to: Location | None, partitions: int, **options: Unpack[Options]) -> Plan:
    """Writes a new checkpoint at one batch with another number of state partitions, the same for every operator.

    Args:
        partitions: the number.
        to: as fork has it; None: a batch with that state is added to the checkpoint itself (new_batch.py), whose query
            must be stopped.
        location, options: as fork has them.

    Raises:
        PlacementError: rows are not where the rule of their operator puts them, or the rule is not known.
        RepairError, StateStoreError: as with fork.
    """
    return _written("repartition", location, to, options, partitions)


def convert(location: Location, to: Location | None, provider: str, **options: Unpack[Options]) -> Plan:
    """Writes a new checkpoint at one batch for another state store provider.

    Args:
        provider: "hdfs" or "rocksdb".
        location, to, options: as repartition has them.

    Raises:
        RepairError: the provider has no such stores; or as with fork.
        StateStoreError: as with fork.
    """
    return _written("convert", location, to, options, provider=provider)


def edit(location: Location, to: Location | None, change: Edit, **options: Unpack[Options]) -> Plan:
    """Writes a new checkpoint at one batch in which rows of one store are others.

    Args:
        change: what becomes of the rows.
        location, to, options: as repartition has them.

    Raises:
        ConditionError: the condition does not fit the store.
        PlacementError: rows are not where the rule of their operator puts them, or the rule is not known.
        SchemaMismatchError: rows do not fit the store; the message has the number of the first one.
        RepairError: there is no such store, or it keeps counts or indexes beside its rows; or as with fork.
        StateStoreError: as with fork.
    """
    return _written("edit", location, to, options, edits=(change,))


def rewrite(
    location: Location,
    to: Location | None,
    *,
    partitions: int | None = None,
    provider: str | None = None,
    edits: Sequence[Edit] = (),
    **options: Unpack[Options],
) -> Plan:
    """Does what fork, repartition, convert and edit do in one pass over the state; see there.

    Args:
        partitions: the number of state partitions; None: as it is.
        provider: "hdfs" or "rocksdb"; None: as it is.
        edits: changes of rows, at most one of each store.
    """
    return _written("rewrite", location, to, options, partitions, provider, edits)


def _written(
    verb: str,
    location: Location,
    to: Location | None,
    options: Options,
    partitions: int | None = None,
    provider: str | None = None,
    edits: Sequence[Edit] = (),
) -> Plan:
    started = time.monotonic()
    if partitions is not None and not 1 <= partitions <= MOST_PARTITIONS:
        raise ValueError(f"partitions is {partitions:,}; give 1 to {MOST_PARTITIONS:,}")
    if provider is not None and provider not in confs.PROVIDERS:
        raise ValueError(f"provider is {provider!r}, not one of {', '.join(confs.PROVIDERS)}")
    if to is not None and options.get("file_sink") is not None:
        raise RepairError(
            "the log of a file sink goes on by itself from a new checkpoint",
            shown_location(to),
            remedy="--file-sink is for a repair in place: leave it out",
        )
    source = Source.open(location, options.get("batch_id"), options.get("storage_options"))
    if not source.states and (partitions is not None or provider is not None):
        raise RepairError(
            "there is no state to write anew",
            f"{source.path}/state",
            remedy="Was the checkpoint copied whole? Queries without stateful operators have none",
        )
    keep = _kept(source, to, options)
    new = None if to is None else NewCheckpoint(source, to, options.get("to_storage_options"))
    work = Rewrite(
        source,
        partitions,
        None if provider is None else confs.PROVIDERS[provider],
        edits,
        options.get("operator_kinds", {}),
        options.get("limits", Limits()),
        options.get("progress", silent),
        on_top=new is None and source.batch_id == source.latest and not _may_be_written_over(source),
    )
    plan = Plan(verb, source.path, source.batch_id, None if to is None else shown_location(to), work.plan())
    plan.conf = {name: (source.conf.get(name), value) for name, value in work.conf_changes.items()}
    plan.notes = list(_notes(source, options))
    if any(state.unique_ids for state in source.states):
        plan.session = {_FORMAT_VERSION: "1" if work.provider == confs.HDFS_PROVIDER else "2"}
    dry_run = options.get("dry_run", False)
    if dry_run or new is None:  # in place, what rows refuse has to be known before anything is touched
        work.count(plan.operators)
        plan.disk_bytes = sum(store.bytes_in or 0 for operator in plan.operators for store in operator.stores)

    def write(fs: FileManager, path: str, version: int) -> UniqueIds:
        return work.write(fs, path, version, plan.operators)

    if new is None:
        sink = options.get("file_sink")
        arguments: dict[str, Any] = {
            "batch_id": options.get("batch_id"),
            "partitions": partitions,
            "provider": provider,
            "edits": work.edits_told(),
            "operator_kinds": {str(number): kind for number, kind in work.kinds.items()},
            "file_sink": None if sink is None else absolute_location(sink),
        }
        storage_options = options.get("storage_options")
        if source.begun and not dry_run:
            log.warning(
                "%s: batch %d was begun, and its number is taken. End the query first: a task of it that still runs "
                "may write over the new state",
                source.path,
                source.begun[0],
            )
        batch = NewBatch(source, work.conf_changes, partitions, arguments["file_sink"], storage_options)
        batch.add(plan, arguments, write, dry_run=dry_run)
    elif not dry_run:
        plan.files = new.write(
            write,
            query_id=source.query_id if options.get("keep_query_id") else str(uuid.uuid4()),
            conf=work.conf_changes,
            partitions=partitions,
            keep=keep,
        )
    return plan if dry_run else Report.of(plan, time.monotonic() - started, verified=True)


def _may_be_written_over(source: Source) -> bool:
    """Whether a task of a batch that was begun may still write a delta of the same name as one on top."""
    return bool(source.begun) and not any(state.unique_ids for state in source.states)


def _kept(source: Source, to: Location | None, options: Options) -> tuple[int, ...]:
    """The begun batches that are kept. Raises RepairError unless it is clear what to do about them."""
    drop, keep = options.get("drop_begun", False), options.get("keep_begun", False)
    if drop and keep:
        raise RepairError("a batch that was begun is either dropped or kept, not both")
    if keep and to is None:
        raise RepairError(
            "a batch that was begun cannot be kept behind a batch that is added",
            source.path,
            remedy="Drop it, or write a new checkpoint",
        )
    begun = source.begun if to is None or source.batch_id == source.latest else ()
    if begun and not drop and not keep:
        raise RepairError(
            f"batch {begun[-1]} was begun and is not committed",
            source.path,
            remedy="Give --drop-begun to have its rows planned anew (a sink that goes by batch ids may get them "
            "twice), or --keep-begun to let Spark run it again with the same offsets",
        )
    return begun if keep else ()


def _notes(source: Source, options: Options) -> list[str]:
    notes = []
    if not source.states:
        notes.append(
            "There is no state, as in queries without stateful operators: if this one has any, the checkpoint was not "
            "copied whole"
        )
    if options.get("keep_query_id"):
        notes.append(
            "Both checkpoints have the same query id: a sink that goes by query id and batch, such as Delta's, takes a "
            "batch of one query for the same batch of the other"
        )
    if source.begun and source.batch_id == source.latest and options.get("drop_begun"):
        notes.append(
            f"Batch {source.begun[-1]} is dropped: a sink that goes by batch ids may have its rows already, and skips "
            "the new batch of that number"
        )
    return notes
