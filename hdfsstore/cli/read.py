"""`hdfsstore read`: writes the rows of a state store."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import Annotated

import typer

from hdfsstore.checkpoint.packed_values import has_msgpack
from hdfsstore.checkpoint.reading import open_state
from hdfsstore.checkpoint.row_shape import RowShape
from hdfsstore.cli import options
from hdfsstore.cli.output import choose_format, numbered, streams_to_terminal, write_rows
from hdfsstore.cli.progress import rows_counted
from hdfsstore.conditions.fields import ConditionError


def read(
    path: options.Location,
    operator: options.OperatorId = 0,
    store: options.StoreName = "default",
    batch: options.BatchId = None,
    join_side: options.JoinSide = None,
    state_var: options.StateVar = None,
    flatten_collections: options.FlattenCollections = True,
    timers: options.Timers = False,
    where: Annotated[
        str | None,
        typer.Option(
            help="Only rows that meet a condition, such as: key.user = 42 and value.count > 1. "
            "It may have = != < <= > >= in like is null and or not ().",
            show_default=False,
        ),
    ] = None,
    limit: options.Limit = None,
    format: options.RowFormat = None,
    json: options.Json = False,
    output: options.Output = None,
    option_file: options.OptionFile = None,
) -> None:
    """Write the rows of a state store: key, value, partition_id; of a list, map or timer in columns of their own."""
    chosen = choose_format(format, json, output)
    checkpoint = options.open_checkpoint(path, option_file)
    request = options.state_request(checkpoint, operator, store, join_side, state_var, flatten_collections, timers)
    most = options.rows_limit(limit, chosen)
    try:
        wanted = checkpoint.rows_to_read(
            replace(request, batch_id=batch, shape=RowShape(where=where, decode_values=has_msgpack()))
        )
    except ConditionError as error:
        raise typer.BadParameter(str(error), param_hint="--where") from None
    with open_state(wanted, checkpoint.num_threads) as state:
        # One partition after the other, so that the first rows are the same ones each time.
        found = chain.from_iterable(map(wanted.stream, wanted.partition_ids)) if most else state
        quiet = streams_to_terminal(chosen, output)
        shown = found if quiet else rows_counted(found, "Reading", len(wanted.partition_ids))
        schema, rows = numbered(wanted.schema, shown)
        write_rows(schema, rows, chosen, output, most)
