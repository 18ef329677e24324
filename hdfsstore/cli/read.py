"""`hdfsstore read`: writes the rows of a state store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum
from functools import partial
from typing import Annotated

import pyarrow as pa
import typer

from hdfsstore.cli import options
from hdfsstore.cli.keys import key_of_condition
from hdfsstore.cli.output import choose_format, numbered, streams_to_terminal, write_rows
from hdfsstore.cli.progress import rows_counted
from hdfsstore.conditions.fields import ConditionError, Mask
from hdfsstore.conditions.names import unique_names
from hdfsstore.conditions.where import parse_condition


class JoinSide(StrEnum):
    LEFT = "left"
    RIGHT = "right"


def read(
    path: options.Location,
    operator: options.OperatorId = 0,
    store: options.StoreName = "default",
    batch: options.BatchId = None,
    join_side: Annotated[
        JoinSide | None,
        typer.Option(help="Show the rows that this side of a stream-stream join has buffered.", show_default=False),
    ] = None,
    state_var: Annotated[
        str | None,
        typer.Option(help="Show this state variable of transformWithState.", show_default=False),
    ] = None,
    flatten_collections: Annotated[
        bool,
        typer.Option(
            "--flatten-collections/--nested",
            help="Whether each element of a list and each entry of a map has a row of its own.",
        ),
    ] = True,
    timers: Annotated[bool, typer.Option("--timers", help="Show the registered timers of transformWithState.")] = False,
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
    if join_side is None:
        options.find_store(checkpoint, operator, store)
    of = operator, store, batch, join_side and join_side.value
    open_state = partial(
        checkpoint.open_state,
        *of,
        state_var=state_var,
        flatten_collections=flatten_collections,
        read_registered_timers=timers,
    )
    with open_state() as state:
        key = _key(where, state.schema) if where is not None and join_side is None else None
    with open_state(key=key) as state:
        quiet = streams_to_terminal(chosen, output)
        schema, rows = numbered(state.schema, state if quiet else rows_counted(state, "Reading"))
        if where is not None:
            try:
                rows = _filtered(rows, parse_condition(where, schema))
            except ConditionError as error:
                raise typer.BadParameter(str(error), param_hint="--where") from None
        write_rows(schema, rows, chosen, output, options.rows_limit(limit, chosen))


def _key(where: str, schema: pa.Schema) -> pa.StructArray | None:
    try:
        return key_of_condition(where, unique_names(schema))
    except ConditionError as error:
        raise typer.BadParameter(str(error), param_hint="--where") from None


def _filtered(rows: Iterable[pa.RecordBatch], condition: Mask) -> Iterator[pa.RecordBatch]:
    for batch in rows:
        if (kept := batch.filter(condition(batch))).num_rows:
            yield kept
