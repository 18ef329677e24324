"""Gathers the report of `hdfsstore inspect` on a checkpoint."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow.compute as pc

from hdfsstore import Checkpoint, Operator, StateStoreError, Store, UnsupportedProviderError
from hdfsstore.checkpoint.batch_conf import Repartition
from hdfsstore.checkpoint.operator_state import OperatorState
from hdfsstore.checkpoint.state_schema import DEFAULT_FAMILY
from hdfsstore.cli.progress import counted, rows_counted
from hdfsstore.codecs.arrow_types import to_arrow_schema
from hdfsstore.codecs.types import StructType
from hdfsstore.conditions.texts import time_text
from hdfsstore.fs.hdfs.hdfs_files import HdfsFileManager
from hdfsstore.report.facts import rows_by_family
from hdfsstore.state.usage import Restart, Sizes, usage


@dataclass(frozen=True)
class FilesReport:
    """Some files, and their bytes together."""

    files: int
    bytes: int


Kinds = dict[str, FilesReport]  # By kind: "delta" and "snapshot", or "changelog", "zip" and "sst"; "other".


@dataclass(frozen=True)
class PartitionReport:
    """One partition of a store.

    `rows` is None if they were not counted. `kinds` has all files. `restart` has those that a restart downloads, and
    `shared` those of them that snapshots of other versions need, too; both are None where `rows` is.
    """

    partition_id: int
    rows: int | None
    bytes: int
    files: int
    kinds: Kinds
    restart: Kinds | None
    shared: FilesReport | None


Fields = list[tuple[str, str]]  # Name and Arrow type.


@dataclass(frozen=True)
class FamilyReport:
    """The schema of a column family; most stores have one, "default".

    `number` is the family's in the files, and `rows` are its rows in all partitions; None where it is not known.
    """

    name: str
    key: Fields
    value: Fields
    number: int | None
    rows: int | None


@dataclass(frozen=True)
class OtherPartitions:
    """Folders of partitions that the state does not have any more: of batches before a repartition, or unfinished."""

    partition_ids: list[int]
    files: int
    bytes: int


@dataclass(frozen=True)
class StoreReport:
    """One store. `schemas` is empty if there is no schema file; `note` says why rows are not counted.

    `partitions` are those of the newest committed batch; `other_partitions` is None if there are no other folders.
    """

    name: str
    num_partitions: int
    num_cols_prefix_key: int | None
    schemas: list[FamilyReport]
    partitions: list[PartitionReport]
    other_partitions: OtherPartitions | None
    note: str | None


@dataclass(frozen=True)
class OperatorReport:
    """One stateful operator and its stores."""

    operator_id: int
    name: str | None
    stores: list[StoreReport]


@dataclass(frozen=True)
class Report:
    """The whole report. Times are ISO 8601; `pinned` is the newest batch's conf in the offset log.

    `watermark` is that of the last committed batch, `next_watermark` that of the batch after it. Of
    `unfinished_batches` all run again at the next start but that of `unfinished_repartition`.

    `client` is what reaches the storage, with its release, where there is a choice (HDFS); else None.

    `damaged` has a text for each log whose newest entry is cut off: the error and its remedy. `repair` has one if an
    in-place repair has begun and not ended.
    """

    path: str
    client: str | None
    query_id: str | None
    provider: str
    committed_batches: list[int]
    unfinished_batches: list[int]
    unfinished_repartition: Repartition | None
    damaged: list[str]
    repair: str | None
    last_batch_time: str | None
    watermark: str | None
    next_watermark: str | None
    pinned: dict[str, str]
    operators: list[OperatorReport]


def examine(checkpoint: Checkpoint, count_rows: bool) -> Report:
    """Gathers the report."""
    fs = checkpoint.file_manager
    batches = checkpoint.batches
    newest = batches[-1] if batches else None
    committed = [batch for batch in batches if batch.committed]
    last = committed[-1] if committed else None
    return Report(
        checkpoint.path,
        fs.client_name if isinstance(fs, HdfsFileManager) else None,
        _query_id(checkpoint),
        checkpoint.provider,
        [batch.batch_id for batch in committed],
        [batch.batch_id for batch in batches if not batch.committed],
        checkpoint.unfinished_repartition,
        [str(error) for error in checkpoint.damaged],
        None if (repair := checkpoint.repair) is None else str(repair),
        time_text(last.timestamp_ms) if last else None,
        time_text(last.watermark_ms) if last else None,
        time_text(last.next_watermark_ms or 0) if last else None,
        dict(sorted(newest.conf.items())) if newest else {},
        [
            OperatorReport(
                operator.operator_id,
                operator.name,
                [_store(checkpoint, operator, store, count_rows and bool(committed)) for store in operator.stores],
            )
            for operator in checkpoint.operators
        ],
    )


def _query_id(checkpoint: Checkpoint) -> str | None:
    try:
        return checkpoint.query_id
    except StateStoreError:  # The rest can be shown without it.
        return None


def _store(checkpoint: Checkpoint, operator: Operator, store: Store, count_rows: bool) -> StoreReport:
    note, counts, restarts = None, Counter[tuple[int, str]](), dict[int, Restart]()
    partition_ids = store.partition_ids
    if count_rows:
        try:
            state = checkpoint.operator_state(operator.operator_id)
            partition_ids = state.partitions(store, store.key_type)
            counts = _count_families(state, store) if store.has_families else _count(checkpoint, operator, store)
            restarts = {number: state.files(store, number).restart(state.version) for number in partition_ids}
        except UnsupportedProviderError:
            note = "rows are not counted: this provider's files cannot be read yet"
        except StateStoreError as error:
            note = f"rows are not counted: {error}"
    known = count_rows and note is None
    numbers = {name: number for restart in restarts.values() for name, number in restart.families.items()}
    return StoreReport(
        store.name,
        store.num_partitions,
        store.num_cols_prefix_key,
        [
            FamilyReport(
                family.name,
                _fields(family.key_type),
                _fields(family.value_type),
                numbers.get(family.name),
                sum(rows for (_, name), rows in counts.items() if name == family.name) if known else None,
            )
            for family in store.column_families
        ],
        [
            _partition(checkpoint, store, number, counts, restarts.get(number) if known else None)
            for number in partition_ids
        ],
        _others(checkpoint, store, sorted({*store.partition_ids, *store.other_partition_ids} - {*partition_ids})),
        note,
    )


def _others(checkpoint: Checkpoint, store: Store, partition_ids: list[int]) -> OtherPartitions | None:
    if not partition_ids:
        return None
    folders = [usage(checkpoint.file_manager, store.partition_path(number)) for number in partition_ids]
    sizes = [size for kinds in folders for size in kinds.values()]
    return OtherPartitions(partition_ids, sum(size.files for size in sizes), sum(size.bytes for size in sizes))


def _partition(
    checkpoint: Checkpoint, store: Store, number: int, counts: Counter[tuple[int, str]], restart: Restart | None
) -> PartitionReport:
    kinds = usage(checkpoint.file_manager, store.partition_path(number))
    return PartitionReport(
        number,
        None if restart is None else sum(rows for (partition, _), rows in counts.items() if partition == number),
        sum(sizes.bytes for sizes in kinds.values()),
        sum(sizes.files for sizes in kinds.values()),
        _kinds(kinds),
        None if restart is None else _kinds(restart.files),
        None if restart is None else FilesReport(*restart.shared),
    )


def _kinds(sizes: Mapping[str, Sizes]) -> Kinds:
    return {kind: FilesReport(*of_kind) for kind, of_kind in sorted(sizes.items()) if of_kind.files}


def _count(checkpoint: Checkpoint, operator: Operator, store: Store) -> Counter[tuple[int, str]]:
    """Rows by partition and column family."""
    counts: Counter[tuple[int, str]] = Counter()
    with checkpoint.open_state(operator.operator_id, store.name) as state:
        for batch in rows_counted(state, _counting(store), len(store.partition_ids)):
            for count in pc.value_counts(batch["partition_id"]):
                counts[count["values"].as_py(), DEFAULT_FAMILY] += count["counts"].as_py()
    return counts


def _count_families(state: OperatorState, store: Store) -> Counter[tuple[int, str]]:
    """The same for a store with column families."""
    partition_ids = state.partitions(store, store.key_type)
    counts: Counter[tuple[int, str]] = Counter()
    for number in counted(partition_ids, _counting(store), len(partition_ids)):
        counts.update({(number, name): rows for name, rows in rows_by_family(state, store, number).items()})
    return counts


def _counting(store: Store) -> str:
    return f"Counting {store.name} of operator {store.operator_id}"


def _fields(struct: StructType) -> Fields:
    return [(field.name, str(field.type)) for field in to_arrow_schema(struct)]
