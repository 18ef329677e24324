"""`hdfsstore diff`: shows the changes of a state store between two batches."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Annotated

import pyarrow as pa
import pyarrow.compute as pc
import typer

from hdfsstore import Checkpoint
from hdfsstore.checkpoint.packed_values import has_msgpack
from hdfsstore.checkpoint.row_identity import KINDS
from hdfsstore.checkpoint.row_shape import RowShape, shaped
from hdfsstore.checkpoint.state_diff import Diff, read_diff
from hdfsstore.checkpoint.state_request import StateRequest
from hdfsstore.cli import options
from hdfsstore.cli.output import choose_format, columns_of, note, numbered, write_rows
from hdfsstore.cli.output_file import Format
from hdfsstore.cli.progress import rows_counted
from hdfsstore.conditions.texts import texts


def diff(
    path: options.Location,
    start: Annotated[
        int, typer.Option("--from", help="Compare the state after this batch ...", min=0, show_default=False)
    ],
    end: Annotated[int, typer.Option("--to", help="... with the state after this one.", min=0, show_default=False)],
    operator: options.OperatorId = 0,
    store: options.StoreName = "default",
    join_side: options.JoinSide = None,
    state_var: options.StateVar = None,
    flatten_collections: options.FlattenCollections = True,
    timers: options.Timers = False,
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
    request = options.state_request(checkpoint, operator, store, join_side, state_var, flatten_collections, timers)
    found = decoded_diff(checkpoint, request, start, end)
    changes = found.table
    counts = Counter(changes["change"].to_pylist())
    shown = 10 if limit is None and chosen == Format.TABLE else limit or len(changes)
    if chosen == Format.JSON:
        write_rows(*numbered(changes.schema, _of_each_kind(changes, shown).to_batches()), chosen)
        return
    typer.echo(", ".join(f"{counts[kind]:,} {kind}" for kind in KINDS) + f" from batch {start} to batch {end}")
    if merged := changed_rows(found, shown):
        write_rows(merged[0].schema, merged, chosen)
    if any(count > shown for count in counts.values()):
        note(f"The first {shown:,} of each kind; --limit 0 shows all.")


def decoded_diff(checkpoint: Checkpoint, request: StateRequest, start: int, end: int) -> Diff:
    """The rows that differ, with a progress bar; values that msgpack has packed as JSON, if it is installed."""
    found = read_diff(checkpoint, request, start, end, rows_counted)
    return replace(found, table=shaped(found.table, RowShape(decode_values=has_msgpack())))


def changed_rows(found: Diff, limit: int) -> list[pa.RecordBatch]:
    """For a person: so many rows of each kind, with each field of the value once, under the names of `read`."""
    _, rows = numbered(found.table.schema, _of_each_kind(found.table, limit).to_batches())
    return [_merged(batch, found.content) for batch in rows]


def _of_each_kind(changes: pa.Table, limit: int) -> pa.Table:
    parts = [changes.filter(pc.equal(changes["change"], kind)).slice(0, limit) for kind in KINDS]
    return pa.concat_tables(parts)


def _merged(batch: pa.RecordBatch, content: str) -> pa.RecordBatch:
    """For a person: each field of the value once, as `before → after` if it changed."""
    told = batch.schema.names[:-2]
    columns, names = [batch[name] for name in told], told
    sides = (pa.RecordBatch.from_arrays([batch[side]], [content]) for side in ("before", "after"))
    for (name, before), (_, after) in zip(*map(columns_of, sides), strict=True):
        names.append(name)
        rows = zip(batch["change"].to_pylist(), texts(before), texts(after), strict=True)
        columns.append(pa.array([_cell(*row) for row in rows], pa.string()))
    return pa.RecordBatch.from_arrays(columns, names)


def _cell(change: str, before: str | None, after: str | None) -> str | None:
    if change == "changed" and before != after:
        return f"{'null' if before is None else before} → {'null' if after is None else after}"
    return before if change == "removed" else after
