"""Gathers what the report shows over time: batches, rows, files of each version, and the largest values."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from hdfsstore import Checkpoint, Operator, StateStoreError, Store
from hdfsstore.checkpoint.batch_logs import BatchLogs, Logged
from hdfsstore.checkpoint.conf import ROCKSDB_PROVIDER
from hdfsstore.checkpoint.metadata_log import Listing
from hdfsstore.checkpoint.operator_state import OperatorState
from hdfsstore.checkpoint.parts import parts_of_store
from hdfsstore.checkpoint.state_schema import DEFAULT_FAMILY
from hdfsstore.codecs.arrow_types import from_arrow_schema
from hdfsstore.codecs.records import DELTA_FILES
from hdfsstore.codecs.unsafe_row import RowCodec
from hdfsstore.state.rocksdb.archive import CHANGELOG_FILES
from hdfsstore.state.versions.files import StateFiles, parse_name

LARGEST = 5
# The file of a batch's offsets is written when the batch begins. If it is so much younger, it has been copied.
_COPIED_MS = 60_000


@dataclass(frozen=True, slots=True)
class BatchFacts:
    """A batch that the logs keep. Times are milliseconds since 1970; `seconds` is None where it is not known."""

    batch_id: int
    committed: bool
    time_ms: int
    watermark_ms: int
    seconds: float | None

    @property
    def lag_seconds(self) -> float | None:
        """How far the watermark is behind the clock of the batch; None without a watermark."""
        return (self.time_ms - self.watermark_ms) / 1000 if self.watermark_ms and self.time_ms else None


@dataclass(frozen=True, slots=True)
class VersionFacts:
    """The files of one version in all partitions: of its deltas or changelogs, and of its snapshots or zips."""

    version: int
    delta_bytes: int
    snapshot_bytes: int
    snapshots: int


@dataclass(frozen=True, slots=True)
class Freed:
    """What a clean-up to so many versions would free."""

    versions: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Value:
    """One of the largest values of a store.

    Attributes:
        bytes: its size as a row of Spark.
        key: the row of its key alone.
        part: the state variable or side of a join that has it; None in a store without column families.
    """

    bytes: int
    key: pa.StructArray
    part: str | None


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """A store over time.

    Attributes:
        operator_id, name: of the store.
        rows: (batch, rows) of some of the retained batches that can be read; of all column families together.
        versions: those that have files.
        freed: for some numbers of versions that could be kept.
        largest: the largest values after the newest batch.
    """

    operator_id: int
    name: str
    rows: list[tuple[int, int]]
    versions: list[VersionFacts]
    freed: list[Freed]
    largest: list[Value]


def batch_facts(logs: BatchLogs, logged: Logged, newest: int | None = None) -> list[BatchFacts]:
    """The batches of the logs, and how long they took as far as the files tell.

    Args:
        logged: a listing of the logs.
        newest: only so many of the newest batches; unless given, all.
    """
    numbers = list(logged.offsets.files)
    entries = logs.offsets.read_all(logged.offsets, numbers if newest is None else numbers[-newest:])
    facts = []
    for number, entry in entries.items():
        start, end = _written_ms(logged.offsets, number), _written_ms(logged.commits, number)
        known = start and end and start - entry.timestamp_ms < _COPIED_MS and end >= start
        seconds = (end - start) / 1000 if known else None
        facts.append(BatchFacts(number, number in logged.done, entry.timestamp_ms, entry.watermark_ms, seconds))
    return facts


def rows_by_family(state: OperatorState, store: Store, partition_id: int) -> Counter[str]:
    """The rows of a partition by column family. They are counted as they are stored: none is decoded."""
    families: list[str | None] = [family.name for family in store.named_families] if store.has_families else [None]
    return Counter(
        {
            name or DEFAULT_FAMILY: sum(state.reader(store, partition_id, name).stream(state.version, len))
            for name in families
        }
    )


def store_facts(
    checkpoint: Checkpoint,
    operator: Operator,
    store: Store,
    batch_ids: Sequence[int],
    wrap: Callable[[Iterable[pa.RecordBatch], str], Iterable[pa.RecordBatch]],
) -> StoreFacts:
    """Reads a store at some batches, and lists its files.

    Args:
        batch_ids: committed batches, ascending; those that cannot be read are left out.
        wrap: shows the progress of a stream of rows, whose name is given.
    """
    rows: list[tuple[int, int]] = []
    largest: list[Value] = []
    for batch_id in batch_ids:
        what = f"{store.name} at batch {batch_id}"
        into = largest if batch_id == batch_ids[-1] else None
        try:
            if store.has_families:
                counted = _count_families(checkpoint.operator_state(operator.operator_id, batch_id), store.name)
            else:
                with checkpoint.open_state(operator.operator_id, store.name, batch_id) as state:
                    counted = _read(wrap(state, what), into)
            if store.has_families and into is not None:
                _find_largest(checkpoint, operator, store, batch_id, into, wrap)
        except StateStoreError:
            continue  # the page of the store says what cannot be read at the newest batch
        rows.append((batch_id, counted))
    files = _files(checkpoint, store)
    return StoreFacts(operator.operator_id, store.name, rows, _versions(files), _freed(files), largest)


def _written_ms(log: Listing, number: int) -> int:
    """When the entry of a batch was written, in milliseconds since 1970; 0 where there is none, or it is not known."""
    info = log.files.get(number)
    return (info.mtime_ns or 0) // 1_000_000 if info else 0


def _count_families(state: OperatorState, store_name: str) -> int:
    store = state.operator.store(store_name)
    return sum(rows_by_family(state, store, i).total() for i in state.partitions(store, store.key_type))


def _find_largest(
    checkpoint: Checkpoint,
    operator: Operator,
    store: Store,
    batch_id: int,
    largest: list[Value],
    wrap: Callable[[Iterable[pa.RecordBatch], str], Iterable[pa.RecordBatch]],
) -> None:
    """Notes the largest values of all parts of a store with column families. Timers have none."""
    found: list[Value] = []
    for part in parts_of_store(operator, store):
        if "read_registered_timers" not in part.arguments:
            with checkpoint.open_state(operator.operator_id, batch_id=batch_id, **part.arguments) as state:
                _read(wrap(state, f"{part.name} at batch {batch_id}"), found, part.name)
    largest += sorted(found, key=lambda value: value.bytes, reverse=True)[:LARGEST]


def _read(state: Iterable[pa.RecordBatch], largest: list[Value] | None, part: str | None = None) -> int:
    """Counts the rows; notes the largest values in `largest`."""
    count, codec = 0, None
    heap: list[tuple[int, int, pa.StructArray]] = []
    for batch in state:
        if largest is not None and batch.num_rows:
            values = _values(batch)
            codec = codec or RowCodec(from_arrow_schema(pa.schema(list(values.type))))
            sizes = pc.binary_length(codec.encode(values))
            for at in pc.select_k_unstable(sizes, LARGEST, [("", "descending")]).to_pylist():
                heapq.heappush(heap, (sizes[at].as_py() or 0, count + at, batch["key"].slice(at, 1)))
            heap = heapq.nlargest(LARGEST, heap, key=lambda item: item[0])
            heapq.heapify(heap)
        count += batch.num_rows
    if largest is not None:
        found = sorted(heap, key=lambda item: item[:2], reverse=True)
        largest += [Value(bytes_, key, part) for bytes_, _, key in found]
    return count


def _values(batch: pa.RecordBatch) -> pa.StructArray:
    """What is told of each key: its value, an element of its list, an entry of its map."""
    content = [field for field in batch.schema if field.name not in ("key", "partition_id")]
    if len(content) == 1 and pa.types.is_struct(content[0].type):
        return batch[content[0].name]
    return pa.StructArray.from_arrays([batch[field.name] for field in content], fields=content)


Files = list[dict[tuple[int, str], int]]  # For each partition: version and kind ("delta", "snapshot") -> bytes.


def _files(checkpoint: Checkpoint, store: Store) -> Files:
    extensions = CHANGELOG_FILES if checkpoint.provider == ROCKSDB_PROVIDER else DELTA_FILES
    found: Files = []
    for partition_id in store.partition_ids:
        listing = StateFiles.list(checkpoint.file_manager, store.partition_path(partition_id), extensions)
        sizes: Counter[tuple[int, str]] = Counter()
        for name, size in listing.sizes.items():
            if parsed := parse_name(name, extensions):
                (version, _), kind = parsed
                sizes[version, kind] += size
        found.append(dict(sizes))
    return found


def _versions(files: Files) -> list[VersionFacts]:
    total: Counter[tuple[int, str]] = Counter()
    snapshots: Counter[int] = Counter()
    for partition in files:
        total.update(partition)
        snapshots.update(version for version, kind in partition if kind == "snapshot")
    numbers = sorted({version for version, _ in total})
    return [VersionFacts(v, total[v, "delta"], total[v, "snapshot"], snapshots[v]) for v in numbers]


def _freed(files: Files) -> list[Freed]:
    """What could go if only the newest versions were kept: all below the snapshot that the oldest of them needs."""
    newest = max((version for partition in files for version, _ in partition), default=0)
    freed = []
    for keep in (1, 10, 100):
        if keep >= newest:
            break
        total = 0
        for partition in files:
            bases = [v for v, kind in partition if kind == "snapshot" and v <= newest - keep + 1]
            total += sum(size for (v, _), size in partition.items() if v < max(bases, default=0))
        freed.append(Freed(keep, total))
    return freed
