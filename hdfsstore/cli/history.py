"""`hdfsstore history`: shows the value of a key after each batch that the checkpoint keeps."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from hdfsstore import BatchNotAvailableError
from hdfsstore.checkpoint.key_history import batches_between, read_history
from hdfsstore.checkpoint.packed_values import has_msgpack
from hdfsstore.checkpoint.row_shape import RowShape, shaped
from hdfsstore.cli import options
from hdfsstore.cli.output import choose_format, note, numbered, write_rows
from hdfsstore.cli.progress import counted
from hdfsstore.conditions.fields import ConditionError
from hdfsstore.conditions.keys import parse_key


def history(
    path: options.Location,
    key: Annotated[
        str,
        typer.Option(
            help="""The key's fields as JSON: '{"user": 42}'. With fewer fields, all keys that match.""",
            show_default=False,
        ),
    ],
    operator: options.OperatorId = 0,
    store: options.StoreName = "default",
    join_side: options.JoinSide = None,
    state_var: options.StateVar = None,
    flatten_collections: options.FlattenCollections = True,
    timers: options.Timers = False,
    start: Annotated[
        int | None, typer.Option("--from", help="Begin with this batch.", min=0, show_default=False)
    ] = None,
    end: Annotated[int | None, typer.Option("--to", help="End with this batch.", min=0, show_default=False)] = None,
    changes_only: Annotated[bool, typer.Option(help="Leave out batches that did not change the value.")] = False,
    limit: Annotated[
        int, typer.Option(help="Show at most this many rows; 0 means all.", min=0, show_default=False)
    ] = 0,
    json: options.Json = False,
    option_file: options.OptionFile = None,
) -> None:
    """Show the value of a key after each batch that is kept."""
    checkpoint = options.open_checkpoint(path, option_file)
    request = options.state_request(checkpoint, operator, store, join_side, state_var, flatten_collections, timers)
    try:
        batches = batches_between(checkpoint.batches, start, end)
    except BatchNotAvailableError as error:
        raise typer.BadParameter(str(error)) from None
    watch = partial(counted, what="Batches", total=len(batches))
    try:
        found = read_history(checkpoint, request, partial(parse_key, key), batches, watch)
    except ConditionError as error:
        raise typer.BadParameter(str(error), param_hint="--key") from None
    if found.unavailable:
        note(found.remark)
    if not len(found.table):
        note("None of the batches that are kept has such a key.")
        return
    table = shaped(found.changes if changes_only else found.table, RowShape(decode_values=has_msgpack()))
    write_rows(*numbered(table.schema, table.to_batches()), choose_format(None, json, None), limit=limit)
