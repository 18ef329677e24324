"""`hdfsstore read`: writes the rows of a state store."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

import typer

from hdfsstore.cli import options
from hdfsstore.cli.output import choose_format, numbered, streams_to_terminal, write_rows
from hdfsstore.cli.progress import rows_counted
from hdfsstore.conditions.fields import ConditionError


class JoinSide(StrEnum):
    value: Literal["left", "right"]

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
    try:
        state = checkpoint.open_state(
            operator,
            store,
            batch,
            None if join_side is None else join_side.value,
            state_var=state_var,
            flatten_collections=flatten_collections,
            read_registered_timers=timers,
            where=where,
        )
    except ConditionError as error:
        raise typer.BadParameter(str(error), param_hint="--where") from None
    with state:
        quiet = streams_to_terminal(chosen, output)
        schema, rows = numbered(state.schema, state if quiet else rows_counted(state, "Reading"))
        write_rows(schema, rows, chosen, output, options.rows_limit(limit, chosen))
