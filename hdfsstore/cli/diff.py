"""`hdfsstore diff`: shows the changes of a state store between two batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Annotated

import pyarrow as pa
import pyarrow.compute as pc
import typer

from hdfsstore import BatchNotAvailableError, Checkpoint
from hdfsstore.cli import options
from hdfsstore.cli.output import choose_format, note, numbered, write_rows
from hdfsstore.cli.output_file import Format
from hdfsstore.cli.progress import rows_counted
from hdfsstore.cli.values import texts
from hdfsstore.codecs.arrow_types import from_arrow_schema
from hdfsstore.codecs.unsafe_row import RowCodec

KINDS = ("added", "changed", "removed")


def diff(
    path: options.Location,
    start: Annotated[
        int, typer.Option("--from", help="Compare the state after this batch ...", min=0, show_default=False)
    ],
    end: Annotated[int, typer.Option("--to", help="... with the state after this one.", min=0, show_default=False)],
    operator: options.OperatorId = 0,
    store: options.StoreName = "default",
    limit: Annotated[
        int | None,
        typer.Option(
            help="Show at most this many rows of each kind; 0 means all. By default 10 in a table, else all.",
            min=0,
            show_default=False,
        ),
    ] = None,
    json: options.Json = False,
    option_file: options.OptionFile = None,
) -> None:
    """Count and show the keys that were added, changed and removed between two batches."""
    if start >= end:
        raise typer.BadParameter("--from has to be an earlier batch than --to")
    chosen = choose_format(None, json, None)
    checkpoint = options.open_checkpoint(path, option_file)
    options.find_store(checkpoint, operator, store)
    changes = compare(checkpoint, operator, store, start, end)
    counts = Counter(changes["change"].to_pylist())
    shown = 10 if limit is None and chosen == Format.TABLE else limit or len(changes)
    if chosen == Format.JSON:
        write_rows(*numbered(changes.schema, _of_each_kind(changes, shown).to_batches()), chosen)
        return
    typer.echo(", ".join(f"{counts[kind]:,} {kind}" for kind in KINDS) + f" from batch {start} to batch {end}")
    if merged := changed_rows(changes, shown):
        write_rows(merged[0].schema, merged, chosen)
    if any(count > shown for count in counts.values()):
        note(f"The first {shown:,} of each kind; --limit 0 shows all.")


def changed_rows(changes: pa.Table, limit: int) -> list[pa.RecordBatch]:
    """For a person: so many rows of each kind, with each field of the value once."""
    _, rows = numbered(changes.schema, _of_each_kind(changes, limit).to_batches())
    return [_merged(batch) for batch in rows]


def _of_each_kind(changes: pa.Table, limit: int) -> pa.Table:
    parts = [changes.filter(pc.equal(changes["change"], kind)).slice(0, limit) for kind in KINDS]
    return pa.concat_tables(parts)


def compare(checkpoint: Checkpoint, operator_id: int, store_name: str, start: int, end: int) -> pa.Table:
    """The keys that differ between the states after two batches.

    Only keys that the batches in between wrote can differ, so only those are looked up in the older state. Rows are
    compared by the bytes that Spark stores. Returns the columns change ("added", "changed", "removed"), key, before and
    after (null without such a key).
    """
    written = _written(checkpoint, operator_id, store_name, start, end)
    keys, values = _codec(written, "key"), _codec(written, "value")
    last = _last_of_each(keys.encode(_single(written["key"])))
    written = written.take(last)
    written_keys = keys.encode(_single(written["key"]))

    after = _single(written["value"])

    partitions = len(checkpoint.operator(operator_id).store(store_name).partition_ids)
    places, values_before = [pa.array([], pa.int32())], [pa.array([], after.type)]
    with checkpoint.open_state(operator_id, store_name, start) as state:
        # index_in makes a table of the keys at each call, so it gets as many rows at a time as there are keys.
        for batch in _at_least(len(written), rows_counted(state, f"Batch {start}", partitions)):
            place = pc.index_in(keys.encode(batch["key"]), value_set=written_keys)
            places.append(place.drop_null())
            values_before.append(batch["value"].filter(place.is_valid()))
    place_of = pc.index_in(pa.array(range(len(written)), pa.int32()), value_set=pa.concat_arrays(places))
    before = pa.concat_arrays(values_before).take(place_of)

    existed, exists = before.is_valid(), after.is_valid()
    same = pc.fill_null(pc.equal(values.encode(before), values.encode(after)), False)
    differs = pc.and_(pc.or_(existed, exists), pc.invert(same))
    change = pc.if_else(existed, pc.if_else(exists, "changed", "removed"), "added")
    table = pa.table({"change": change, "key": written["key"], "before": before, "after": after})
    return table.filter(differs)


def _written(checkpoint: Checkpoint, operator_id: int, store_name: str, start: int, end: int) -> pa.Table:
    """The keys that batches after `start` may have written, with their values in the order of time; null: removed."""
    try:
        return checkpoint.read_changes(start + 1, end, operator_id, store_name).select(["key", "value"])
    except BatchNotAvailableError:  # Spark writes no changelog of a RocksDB unless told to
        before, after = (
            checkpoint.read_state(operator_id, store_name, batch_id).select(["key", "value"])
            for batch_id in (start, end)
        )
        removed = pa.nulls(len(before), before.schema.field("value").type)
        return pa.concat_tables([before.set_column(1, before.schema.field("value"), removed), after])


def _at_least(rows: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of several batches as one of so many rows at least, but for the last one."""
    held: list[pa.RecordBatch] = []
    missing = rows
    for batch in batches:
        held.append(batch)
        missing -= batch.num_rows
        if missing <= 0:
            yield pa.concat_batches(held)
            held, missing = [], rows
    if held:
        yield pa.concat_batches(held)


def _last_of_each(keys: pa.Array) -> pa.Array:
    """The index of the last occurrence of each key, in order."""
    rows = pa.table({"key": keys, "row": pa.array(range(len(keys)), pa.int64())})
    last = rows.group_by("key").aggregate([("row", "max")])["row_max"].combine_chunks()
    return last.take(pc.sort_indices(last))


def _codec(rows: pa.Table, column: str) -> RowCodec:
    return RowCodec(from_arrow_schema(pa.schema(list(rows.schema.field(column).type))))


def _single(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays([pa.array([], column.type), *column.chunks])


def _merged(batch: pa.RecordBatch) -> pa.RecordBatch:
    """For a person: each field of the value once, as `before → after` if it changed."""
    columns = [batch["change"], *batch["key"].flatten()]
    names = ["change", *(f"key.{field.name}" for field in batch["key"].type)]
    pairs = zip(batch["before"].flatten(), batch["after"].flatten(), strict=True)
    for field, (before, after) in zip(batch["before"].type, pairs, strict=True):
        names.append(f"value.{field.name}")
        rows = zip(batch["change"].to_pylist(), texts(before), texts(after), strict=True)
        columns.append(pa.array([_cell(*row) for row in rows], pa.string()))
    return pa.RecordBatch.from_arrays(columns, names)


def _cell(change: str, before: str | None, after: str | None) -> str | None:
    if change == "changed" and before != after:
        return f"{'null' if before is None else before} → {'null' if after is None else after}"
    return before if change == "removed" else after
