"""Gathers the report of `hdfsstore inspect` on a checkpoint."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from hdfsstore import Checkpoint, Operator, StateStoreError, Store, UnsupportedProviderError
from hdfsstore.cli.progress import rows_counted
from hdfsstore.cli.values import texts
from hdfsstore.codecs.arrow_types import to_arrow_schema
from hdfsstore.codecs.types import StructType
from hdfsstore.fs.hdfs.hdfs_files import HdfsFileManager

ROCKSDB_FOLDERS = ("SSTs", "logs")  # In a partition's folder, beside its versions.


@dataclass(frozen=True)
class PartitionReport:
    """One partition of a store; `rows` is None if they were not counted."""

    partition_id: int
    rows: int | None
    bytes: int
    files: int


Fields = list[tuple[str, str]]  # Name and Arrow type.


@dataclass(frozen=True)
class FamilyReport:
    """The schema of a column family; a store of the HDFS-backed provider has one, "default"."""

    name: str
    key: Fields
    value: Fields


@dataclass(frozen=True)
class StoreReport:
    """One store. `schemas` is empty if there is no schema file; `note` says why rows are not counted."""

    name: str
    num_partitions: int
    num_cols_prefix_key: int | None
    schemas: list[FamilyReport]
    partitions: list[PartitionReport]
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

    `client` is what reaches the storage, with its release, where there is a choice (HDFS); else None.

    `damaged` has a text for each log whose newest entry is cut off: the error and its remedy.
    """

    path: str
    client: str | None
    query_id: str | None
    provider: str
    committed_batches: list[int]
    unfinished_batches: list[int]
    damaged: list[str]
    last_batch_time: str | None
    watermark: str | None
    pinned: dict[str, str]
    operators: list[OperatorReport]


def examine(checkpoint: Checkpoint, count_rows: bool) -> Report:
    """Gathers the report."""
    fs = checkpoint.file_manager
    batches = checkpoint.batches
    newest = batches[-1] if batches else None
    committed = [batch for batch in batches if batch.committed]
    # The last commit has the watermark of the next batch.
    watermark = max([batch.next_watermark_ms or batch.watermark_ms for batch in committed[-1:]], default=0)
    return Report(
        checkpoint.path,
        fs.client_name if isinstance(fs, HdfsFileManager) else None,
        _query_id(checkpoint),
        checkpoint.provider,
        [batch.batch_id for batch in committed],
        [batch.batch_id for batch in batches if not batch.committed],
        [str(error) for error in checkpoint.damaged],
        _time(committed[-1].timestamp_ms) if committed else None,
        _time(watermark),
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
    note, counts = None, Counter[int]()
    if count_rows:
        try:
            counts = _count(checkpoint, operator, store)
        except UnsupportedProviderError:
            note = "rows are not counted: this provider's files cannot be read yet"
        except StateStoreError as error:
            note = f"rows are not counted: {error}"
    known = count_rows and note is None
    partitions = [
        PartitionReport(number, counts[number] if known else None, *_files(checkpoint, store, number))
        for number in store.partition_ids
    ]
    return StoreReport(
        store.name,
        store.num_partitions,
        store.num_cols_prefix_key,
        [
            FamilyReport(family.name, _fields(family.key_type), _fields(family.value_type))
            for family in store.column_families
        ],
        partitions,
        note,
    )


def _count(checkpoint: Checkpoint, operator: Operator, store: Store) -> Counter[int]:
    counts: Counter[int] = Counter()
    with checkpoint.open_state(operator.operator_id, store.name) as state:
        for batch in rows_counted(state, f"Counting {store.name} of operator {operator.operator_id}"):
            for count in pc.value_counts(batch["partition_id"]):
                counts[count["values"].as_py()] += count["counts"].as_py()
    return counts


def _files(checkpoint: Checkpoint, store: Store, partition_id: int) -> tuple[int, int]:
    """Bytes and number of a partition's files, without hidden files (checksums)."""
    folders = [store.partition_path(partition_id)]
    sizes: list[int] = []
    while folders:
        for info in checkpoint.file_manager.list_folder(folders.pop()):
            if info.is_file and not info.base_name.startswith("."):
                sizes.append(info.size)
            elif info.base_name in ROCKSDB_FOLDERS:
                folders.append(info.path)
    return sum(sizes), len(sizes)


def _fields(struct: StructType) -> Fields:
    return [(field.name, str(field.type)) for field in to_arrow_schema(struct)]


def _time(milliseconds: int) -> str | None:
    """Milliseconds since 1970 as text. Spark writes 0 for no time yet."""
    return texts(pa.array([milliseconds], pa.timestamp("ms", "UTC")))[0] if milliseconds else None
