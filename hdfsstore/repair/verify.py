"""Checks a checkpoint without changing it: the logs, the chains of every retained batch, and the bytes of each file."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from hdfsstore.checkpoint import conf as confs
from hdfsstore.checkpoint.batch_conf import BatchConf
from hdfsstore.checkpoint.checkpoint import Checkpoint
from hdfsstore.checkpoint.location import sources_folder
from hdfsstore.checkpoint.offset_log import OffsetLogEntry
from hdfsstore.checkpoint.operator_state import OperatorState
from hdfsstore.checkpoint.operators import OperatorFiles, Store
from hdfsstore.codecs.records import MAX_RECORD_BYTES
from hdfsstore.errors import MissingFileError, StateStoreError, UnsupportedProviderError
from hdfsstore.fs.location import Location
from hdfsstore.fs.storage_options import StorageOptions
from hdfsstore.repair.findings import Finding, Findings
from hdfsstore.repair.limits import Progress, silent
from hdfsstore.repair.placement import Placement, possible_placements
from hdfsstore.repair.verified_logs import VerifiedLogs, verify_logs
from hdfsstore.repair.verified_partition import VerifiedFiles, verify_partition
from hdfsstore.repair.verified_sources import verify_sources


@dataclass(frozen=True, slots=True)
class Verified:
    """What was found.

    Attributes:
        path: the checkpoint.
        batches: the committed batches whose entries are there, in ascending order. Retention may have removed the state
            of the older ones.
        files: how many state files were read.
        rows: how many records were in them.
        findings: the damage.
        notes: what is not as after a clean stop, and no damage.
        seconds: how long it took.
    """

    path: str
    batches: list[int]
    files: int
    rows: int
    findings: list[Finding]
    notes: list[str]
    seconds: float

    @property
    def sound(self) -> bool:
        """Whether there is no damage."""
        return not self.findings

    def as_json(self) -> dict[str, Any]:
        """The same as one JSON object."""
        return {"sound": self.sound, **asdict(self)}


def verify(
    location: Location,
    *,
    logs: bool = False,
    storage_options: StorageOptions | None = None,
    progress: Progress = silent,
) -> Verified:
    """Checks every batch that a checkpoint retains, and goes on after a damage.

    Each entry of the logs, what the sources have noted, the operators' metadata, the schemas and the chain of each
    version are checked. Then every file of these chains is read to its end, and its rows must be in the partition where
    the rule of their operator puts them. Old batches whose state retention has removed are no damage. The query may
    run.

    Args:
        location, storage_options: as Checkpoint takes them.
        logs: no state file is read, but for the lineages in deltas with unique ids.
        progress: is told how far it is.

    Raises:
        CheckpointNotFoundError: there is no checkpoint.
        UnsupportedSettingError: as Checkpoint.
    """
    started = time.monotonic()
    checkpoint = Checkpoint(location, storage_options=storage_options)
    fs, path = checkpoint.file_manager, checkpoint.path
    findings, notes = Findings(), list[str]()
    try:
        _ = checkpoint.query_id
    except StateStoreError as error:
        findings.add(error, ())
    logged = verify_logs(fs, path, findings, notes)
    verify_sources(fs, sources_folder(fs, path), logged.newest, findings, notes)
    files = VerifiedFiles(None if logs else progress)
    batches = sorted(logged.offsets)
    numbers = sorted(int(i.base_name) for i in fs.list_folder(f"{path}/state") if i.base_name.isdecimal())
    named = {number for entry in logged.commits.values() for number in entry.state_unique_ids}
    for gone in sorted({*named, *range(max(numbers, default=0))}.difference(numbers)):
        lost = MissingFileError("the state of this operator is gone", f"{path}/state/{gone}", remedy="Restore it")
        findings.add(lost, batches)
    for number in numbers if batches else ():
        operator = OperatorFiles(fs, path, number, batches[-1])
        for same in _runs(operator, logged.offsets):
            try:
                state = _state(checkpoint, operator, same, logged)
                stores = [(store, _batches_by_partition(state, store, same)) for store in state.operator.stores]
            except StateStoreError as error:
                findings.add(error, same)
                continue
            if state.operator.name is None and any(store.has_families for store, _ in stores):
                lost = MissingFileError(
                    "the metadata of this operator is missing, and Spark does not start without it",
                    f"{path}/state/{number}/_metadata",
                    remedy="Restore it",
                )
                findings.add(lost, same)
            for store, by_partition in stores:
                if confs.COMPRESSION_CODEC in state.conf and not store.column_families:
                    missing = MissingFileError(
                        "the schema of this store is missing", store.schema_path, remedy="Restore the file"
                    )
                    findings.add(missing, same)
                rules = [] if logs else _rules(state, store, notes)
                for partition_id, its in by_partition.items():
                    latest = its[-1] == batches[-1]
                    verify_partition(state, store, partition_id, its, latest, rules, files, findings)
    return Verified(path, batches, files.files, files.rows, findings.all(), notes, time.monotonic() - started)


def _runs(operator: OperatorFiles, offsets: Mapping[int, OffsetLogEntry]) -> Iterator[list[int]]:
    """The batches that have the same settings and metadata, the newest first; each run in ascending order."""
    changes, run, last = operator.batch_ids, list[int](), None
    for number in sorted(offsets, reverse=True):
        now = offsets[number].conf, bisect_right(changes, number)
        if run and now != last:
            yield run[::-1]
            run = []
        run.append(number)
        last = now
    yield run[::-1]


def _state(checkpoint: Checkpoint, files: OperatorFiles, same: Sequence[int], logged: VerifiedLogs) -> OperatorState:
    newest = same[-1]
    conf = logged.offsets[newest].conf
    provider = conf.get(confs.PROVIDER) or checkpoint.provider
    if provider not in confs.BACKENDS:
        raise UnsupportedProviderError(
            f"the state is in the format of {provider}, which cannot be read here",
            f"{checkpoint.path}/state/{files.operator_id}",
        )
    number = files.operator_id
    entries = {batch: logged.commits[batch].state_unique_ids for batch in same if batch in logged.commits}
    return OperatorState(
        fs=checkpoint.file_manager,
        provider=provider,
        operator=files.at(newest, BatchConf(f"{checkpoint.path}/offsets/{newest}", conf)),
        version=newest + 1,
        unique_ids={batch + 1: ids[number] for batch, ids in entries.items() if number in ids},
        conf=conf,
        max_record_bytes=MAX_RECORD_BYTES,
    )


def _rules(state: OperatorState, store: Store, notes: list[str]) -> list[Placement]:
    if not store.column_families:
        return []
    try:
        return possible_placements(state, store)
    except StateStoreError as error:
        notes.append(f"Placement is not checked in batch {state.version - 1} and before: {error}")
        return []


def _batches_by_partition(state: OperatorState, store: Store, same: Sequence[int]) -> dict[int, Sequence[int]]:
    """The batches of a run that have state in each partition; those of lost partitions too.

    Spark's own repartition writes one version of partitions that an operator without keys never writes.
    """
    found: dict[int, Sequence[int]] = {}
    written = store.needed_partitions(store.key_type)
    for partition_id in sorted({*written, *store.partition_ids}):
        its = same
        if partition_id not in written:
            listing = state.files(store, partition_id).listing()
            versions = {version for version, _ in listing.snapshots | listing.deltas}
            its = [batch for batch in same if batch + 1 in versions]
        if its:
            found[partition_id] = its
    return found
