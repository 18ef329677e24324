"""The rows of some keys after each batch that a checkpoint keeps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from hdfsstore.checkpoint import reading
from hdfsstore.checkpoint.batch import Batch
from hdfsstore.checkpoint.number_ranges import number_ranges
from hdfsstore.checkpoint.operators import DEFAULT_STORE, Operator
from hdfsstore.checkpoint.row_converter import Key, key_array
from hdfsstore.checkpoint.row_identity import REMOVED, IdentifiedRows, RowIdentity, differences, single
from hdfsstore.checkpoint.state_diff import StateReader
from hdfsstore.checkpoint.state_request import StateRequest
from hdfsstore.codecs.arrow_types import from_arrow_schema
from hdfsstore.codecs.murmur3 import partition_ids
from hdfsstore.codecs.unsafe_row import RowCodec
from hdfsstore.conditions.keys import KeyPattern, key_pattern
from hdfsstore.conditions.names import unique_names, with_names
from hdfsstore.conditions.one_key import has_one_form
from hdfsstore.conditions.texts import json_texts
from hdfsstore.errors import (
    BatchNotAvailableError,
    CheckpointNotFoundError,
    MissingFileError,
    StateStoreError,
    UnsupportedTypeError,
)

# Operators that partition by the hash of the whole key. Session windows are partitioned by the key without the session,
# and the stores of a join, unlike its sides, have more in their keys than the join's.
_BY_WHOLE_KEY = (
    "stateStoreSave",
    "dedupe",
    "dedupeWithinWatermark",
    "flatMapGroupsWithState",
    "applyInPandasWithState",
    "transformWithStateExec",
    "transformWithStateInPandasExec",
    "transformWithStateInPySparkExec",
)

# In the keys of joins of state format 4, beside the join's key.
_EVENT_TIME = "__event_time"

_HEAD = pa.schema([("batch_id", pa.int64()), ("batch_time", pa.timestamp("ms", "UTC")), ("change", pa.string())])

# Gives the keys that are meant, for rows of a schema with unique names. Raises ConditionError.
ParseKey: TypeAlias = Callable[[pa.Schema], KeyPattern]


class HistoryReader(StateReader, Protocol):
    """Reads the state of a checkpoint, and its operators."""

    def operator(self, operator_id: int = 0, batch_id: int | None = None) -> Operator:
        """As Checkpoint has it."""


@dataclass(frozen=True)
class History:
    """The rows of some keys over time.

    Attributes:
        table: as Checkpoint.history has it, with Spark's names.
        unavailable: why, for the batches whose state cannot be read. What they did counts to the next batch.
    """

    table: pa.Table
    unavailable: dict[int, StateStoreError]

    @property
    def changes(self) -> pa.Table:
        """The rows of batches that changed them."""
        return self.table.filter(pc.not_equal(self.table["change"], ""))

    @property
    def remark(self) -> str:
        """What a person should know of `unavailable`, where there is such a batch."""
        newest = max(self.unavailable)
        batches = number_ranges(self.unavailable)
        return f"The state of batch {batches} cannot be read; of batch {newest}: {self.unavailable[newest]}"


def parse_given(key: Key, schema: pa.Schema) -> KeyPattern:
    """The keys that a mapping of fields, or an array of one key, means. Raises ConditionError, SchemaMismatchError."""
    if not isinstance(key, pa.StructArray):
        return key_pattern(key, schema)
    row = key_array(key, schema.field("key").type)
    rows = RowCodec(from_arrow_schema(pa.schema(list(row.type))))
    (stored,) = rows.encode(row)
    return KeyPattern(lambda batch: pc.equal(rows.encode(batch["key"]), stored), row)


def batches_between(batches: Iterable[Batch], start_batch_id: int | None, end_batch_id: int | None) -> list[Batch]:
    """The committed ones of these numbers. Raises BatchNotAvailableError where there are none."""
    committed = [batch for batch in batches if batch.committed]
    first = start_batch_id or 0
    last = max((batch.batch_id for batch in committed), default=0) if end_batch_id is None else end_batch_id
    found = [batch for batch in committed if first <= batch.batch_id <= last]
    if not found:
        kept = f"It keeps batches {committed[0].batch_id} to {committed[-1].batch_id}" if committed else "It keeps none"
        raise BatchNotAvailableError(f"the checkpoint keeps no batch from {first} to {last}", remedy=kept)
    return found


def read_history(
    checkpoint: HistoryReader,
    request: StateRequest,
    parse: ParseKey,
    batches: Sequence[Batch],
    watch: Callable[[Sequence[Batch]], Iterable[Batch]] = iter,
) -> History:
    """Reads the state after the first batch that can be read, and then what each batch that can be read changed.

    A whole key is looked for where Spark's hash places it. If it is not there, rows are read to check the hash.

    Args:
        request: for the rows; it names no batch, key or shape.
        parse: gives the keys that are meant.
        batches: in their order.
        watch: passes on the batches, for a progress bar.

    Raises:
        StateStoreError: the state of no batch can be read, and why that of the last one cannot.
    """
    story = _Story(checkpoint, request, parse, batches)
    tables = [story.after(batch) for batch in watch(batches)]
    if placed_otherwise := story.placed_otherwise(is_found=any(map(len, tables))):
        story = _Story(checkpoint, request, parse, batches, placed_otherwise)
        tables = [story.after(batch) for batch in batches]
    if len(story.unavailable) == len(batches):
        raise story.unavailable[batches[-1].batch_id]
    table = pa.concat_tables(tables)
    names = story.identity.names
    rows = pa.StructArray.from_arrays([single(table[name]) for name in names], names)
    texts = pa.array(json_texts(rows), pa.string())
    order = pa.table({"row": texts, "batch_id": table["batch_id"]})
    table = table.take(pc.sort_indices(order, [("row", "ascending"), ("batch_id", "ascending")]))
    return History(table, story.unavailable)


class _Story:
    """Follows rows from batch to batch.

    Args:
        placed_otherwise: the numbers of partitions with which Spark's hash does not place the keys.
        The others: as read_history has them.
    """

    def __init__(
        self,
        checkpoint: HistoryReader,
        request: StateRequest,
        parse: ParseKey,
        batches: Sequence[Batch],
        placed_otherwise: Collection[int | None] = (),
    ) -> None:
        self.unavailable: dict[int, StateStoreError] = {}
        schema = checkpoint.rows_to_read(replace(request, batch_id=batches[-1].batch_id)).schema
        self.identity = RowIdentity(schema, of_join_side=request.join_side is not None)
        self._checkpoint = checkpoint
        self._request = request
        self._pattern = parse(unique_names(schema))
        self._last_of_number = {batch.num_partitions: batch.batch_id for batch in batches}
        # By the number of partitions: where the key is by its hash, and the last batch that was read.
        self._places: dict[int | None, KeyPlace | None] = dict.fromkeys(placed_otherwise)
        self._last_read: dict[int | None, StateRequest] = {}
        self._rows: IdentifiedRows | None = None
        self._rows_after = -1  # this batch

    def after(self, batch: Batch) -> pa.Table:
        """The rows after this batch, and those that it removed. Call it for the batches in their order."""
        before = self._rows
        try:
            request = self._at(batch)
            rows = self._state(request) if before is None else self._next(request, before)
        except (BatchNotAvailableError, CheckpointNotFoundError, MissingFileError) as error:
            self.unavailable[batch.batch_id] = error
            return self._table(batch, [])
        if before is None:
            before = self.identity.together([]) if batch.batch_id == 0 else rows
        self._rows, self._rows_after = rows, batch.batch_id
        self._last_read[batch.num_partitions] = request
        kinds, _, is_removed = differences(before, rows)
        removed = before.table.filter(is_removed)
        if self.identity.has_values:
            content = self.identity.schema.field(self.identity.content)
            nulls = pa.nulls(len(removed), content.type)
            removed = removed.set_column(removed.num_columns - 1, content, nulls)
        return self._table(batch, [(kinds, rows.table), (pa.repeat(pa.scalar(REMOVED), len(removed)), removed)])

    def placed_otherwise(self, *, is_found: bool) -> set[int | None]:
        """The numbers of partitions with which the key may be in another partition than that of its hash.

        A key that was found is in no other partition, unless their number was changed by hand.
        """
        if is_found and len(self._last_of_number) == 1:
            return set()
        return {
            number
            for number, request in self._last_read.items()
            if (place := self._places[number]) is not None and not holds_by_hash(self._checkpoint, request, place)
        }

    def _at(self, batch: Batch) -> StateRequest:
        number = batch.num_partitions
        if number not in self._places:
            last = replace(self._request, batch_id=self._last_of_number[number])
            self._places[number] = place_of(self._checkpoint, last, self._pattern)
        place = self._places[number]
        partitions = None if place is None else [place.partition_id]
        return replace(self._request, batch_id=batch.batch_id, partitions=partitions)

    def _next(self, request: StateRequest, before: IdentifiedRows) -> IdentifiedRows:
        if not self.identity.in_changes:
            return self._state(request)
        try:
            # A batch in between may have lost its entry in the log of commits, or a file: what it did counts to this.
            changes = self._checkpoint.changes_to_read(self._rows_after + 1, request)
            table = reading.read_changes_of_keys(changes, self._checkpoint.num_threads)
        except (BatchNotAvailableError, MissingFileError):  # Spark writes no changelog of a RocksDB unless told to
            return self._state(request)
        written, exists = self.identity.of_changes(self._meant(table.to_batches(), table.schema))
        return self.identity.together([before.without(written.ids), written.filter(exists)])

    def _state(self, request: StateRequest) -> IdentifiedRows:
        row = self._pattern.row
        if row is not None and has_one_form(row.type):
            request = replace(request, near_key=row) if request.join_side else replace(request, key=row)
        rows = self._checkpoint.rows_to_read(request)
        with reading.open_state(rows, self._checkpoint.num_threads) as state:
            return self.identity.of(self._meant(state, rows.schema))

    def _meant(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
        """The rows that the pattern selects."""
        named = unique_names(schema)
        kept = (batch.filter(self._pattern.mask(with_names(batch, named))) for batch in batches)
        return pa.Table.from_batches(kept, schema)

    def _table(self, batch: Batch, parts: Sequence[tuple[pa.StringArray, pa.Table]]) -> pa.Table:
        time = pa.scalar(batch.timestamp_ms or None, _HEAD.field("batch_time").type)
        number = pa.scalar(batch.batch_id, pa.int64())
        schema = pa.schema([*_HEAD, *(field.with_nullable(True) for field in self.identity.schema)])
        tables = [
            pa.Table.from_arrays(
                [pa.repeat(number, len(rows)), pa.repeat(time, len(rows)), kinds, *rows.columns], schema=schema
            )
            for kinds, rows in parts
        ]
        return pa.concat_tables([schema.empty_table(), *tables])


class KeyPlace(NamedTuple):
    """The partition of a key by Spark's hash, and the number of partitions."""

    partition_id: int
    num_partitions: int


def place_of(checkpoint: HistoryReader, request: StateRequest, pattern: KeyPattern) -> KeyPlace | None:
    """Where Spark looks for the key at the request's batch; None: all partitions have to be searched."""
    operator = checkpoint.operator(request.operator_id, request.batch_id)
    by_key = operator.name in _BY_WHOLE_KEY and request.store_name == DEFAULT_STORE
    if (
        pattern.row is None
        or not (by_key or request.join_side)
        or _EVENT_TIME in [field.name for field in pattern.row.type]
    ):
        return None
    store = operator.stores[0] if request.join_side else operator.store(request.store_name)
    if not store.num_partitions:
        return None
    key_type = from_arrow_schema(pa.schema(list(pattern.row.type)))
    try:
        partition = partition_ids(pattern.row, key_type, store.num_partitions)[0].as_py()
    except UnsupportedTypeError:  # Spark's hash does not take such a key, or its collation needs ICU.
        return None
    return KeyPlace(partition, store.num_partitions) if partition in store.partition_ids else None


def holds_by_hash(checkpoint: HistoryReader, request: StateRequest, place: KeyPlace) -> bool:
    """Whether the partition has rows at the request's batch, and the first of them are there by the hash of their keys.

    Spark before 3.3 could keep an aggregation in the partitioning of its input, and a number of partitions that was
    changed by hand leaves rows where they were.
    """
    rows = checkpoint.rows_to_read(replace(request, partitions=[place.partition_id]))
    keys = next((batch["key"] for batch in rows.stream(place.partition_id) if batch.num_rows), None)
    if keys is None:
        return False
    key_type = from_arrow_schema(pa.schema(list(rows.schema.field("key").type)))
    found: list[int] = partition_ids(keys, key_type, place.num_partitions).unique().to_pylist()
    return found == [place.partition_id]
