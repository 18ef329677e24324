"""The rows of a state that differ between two batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from hdfsstore.checkpoint import reading
from hdfsstore.checkpoint.row_identity import (
    ADDED,
    CHANGED,
    REMOVED,
    IdentifiedRows,
    RowIdentity,
    WrittenIds,
    differences,
    kinds_of,
    single,
)
from hdfsstore.checkpoint.state_request import StateRequest
from hdfsstore.errors import BatchNotAvailableError

_ROWS_AT_A_TIME = 1 << 16

# Passes on the record batches of a state, for a progress bar: the batches, what they are, and the number of partitions.
Watch: TypeAlias = Callable[[Iterable[pa.RecordBatch], str, int], Iterable[pa.RecordBatch]]


class StateReader(Protocol):
    """Reads the state of a checkpoint.

    Attributes:
        num_threads: for so many partitions at the same time.
    """

    num_threads: int

    def rows_to_read(self, request: StateRequest) -> reading.RowsToRead:
        """As Checkpoint has it."""

    def changes_to_read(self, start_batch_id: int, request: StateRequest) -> reading.ChangesToRead:
        """As Checkpoint has it."""


@dataclass(frozen=True)
class Diff:
    """The rows that differ between two states.

    Attributes:
        table: as Checkpoint.diff has it, with Spark's names.
        content: the column of read_state that `before` and `after` are.
    """

    table: pa.Table
    content: str


def unwatched(batches: Iterable[pa.RecordBatch], _what: str, _partitions: int) -> Iterable[pa.RecordBatch]:
    """Watches nothing."""
    return batches


def read_diff(
    checkpoint: StateReader, request: StateRequest, start_batch_id: int, end_batch_id: int, watch: Watch = unwatched
) -> Diff:
    """The rows that differ between the states after two batches.

    If there is a change feed, only rows that the batches in between wrote are looked up in the older state.

    Args:
        request: for the rows; it names no batch and no shape.
    """
    at_end = checkpoint.rows_to_read(replace(request, batch_id=end_batch_id))
    at_start = checkpoint.rows_to_read(replace(request, batch_id=start_batch_id))
    identity = RowIdentity(at_end.schema, of_join_side=request.join_side is not None)
    earlier, later = f"Batch {start_batch_id}", f"Batch {end_batch_id}"
    changes = _changes(checkpoint, identity, replace(request, batch_id=end_batch_id), start_batch_id)
    if changes is None:
        after = identity.of(_table(checkpoint, at_end, watch, later))
        before = identity.of(_table(checkpoint, at_start, watch, earlier))
        return Diff(_told(identity, before, after, *differences(before, after)), identity.content)
    written, exists = identity.of_changes(changes)
    ids = WrittenIds(written.ids)
    with reading.open_state(at_start, checkpoint.num_threads) as state:
        batches = _at_least(_ROWS_AT_A_TIME, watch(state, earlier, len(at_start.partition_ids)))
        found = [identity.of_written(batch, ids) for batch in batches]
    before = identity.together([rows for rows, _ in found])
    places = pa.concat_arrays([pa.array([], pa.int32()), *(places for _, places in found)])
    after, of_after = written.filter(exists), ids.rows_at(places).filter(exists)
    is_removed = pc.invert(exists.take(places))
    told = _told(identity, before, after, kinds_of(before, after, of_after), of_after, is_removed)
    return Diff(told, identity.content)


def _changes(
    checkpoint: StateReader, identity: RowIdentity, request: StateRequest, start_batch_id: int
) -> pa.Table | None:
    """What the batches after `start_batch_id` wrote, in the order of time; None where nothing tells it."""
    if not identity.in_changes:
        return None
    try:
        changes = checkpoint.changes_to_read(start_batch_id + 1, request)
        return reading.read_changes_of_keys(changes, checkpoint.num_threads)
    except BatchNotAvailableError:  # Spark writes no changelog of a RocksDB unless told to
        return None


def _table(checkpoint: StateReader, rows: reading.RowsToRead, watch: Watch, what: str) -> pa.Table:
    with reading.open_state(rows, checkpoint.num_threads) as state:
        return pa.Table.from_batches(watch(state, what, len(rows.partition_ids)), rows.schema)


def _at_least(rows: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The rows of several batches as one table of so many rows at least, but for the last one."""
    held: list[pa.RecordBatch] = []
    missing = rows
    for batch in batches:
        held.append(batch)
        missing -= batch.num_rows
        if missing <= 0:
            yield pa.Table.from_batches(held)
            held, missing = [], rows
    if held:
        yield pa.Table.from_batches(held)


def _told(
    identity: RowIdentity,
    before: IdentifiedRows,
    after: IdentifiedRows,
    kinds: pa.StringArray,
    places: pa.Int32Array,
    is_removed: pa.BooleanArray,
) -> pa.Table:
    """The arguments are as `differences` has them."""
    removed = before.table.filter(is_removed)
    of_kind = [pc.indices_nonzero(pc.equal(kinds, kind)) for kind in (ADDED, CHANGED)]
    rows = pa.concat_arrays(of_kind)
    there = after.table.take(rows)
    content = identity.schema.field(identity.content)
    columns = {
        "change": pa.concat_arrays([kinds.take(rows), pa.repeat(pa.scalar(REMOVED), len(removed))]),
        **{name: pa.concat_arrays([single(there[name]), single(removed[name])]) for name in identity.schema.names[:-1]},
        "before": pa.concat_arrays(
            [single(before.table[content.name]).take(places.take(rows)), single(removed[content.name])]
        ),
        "after": pa.concat_arrays([single(there[content.name]), pa.nulls(len(removed), content.type)]),
    }
    fields = [pa.field("change", pa.string()), *list(identity.schema)[:-1]]
    fields += [content.with_name(name).with_nullable(True) for name in ("before", "after")]
    return pa.Table.from_arrays(list(columns.values()), schema=pa.schema(fields))
