"""`hdfsstore read`: writes the rows of a state store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Annotated

import pyarrow as pa
import typer

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
        partitions = options.find_store(checkpoint, operator, store)[1].partition_ids
        options.suggest_join_side(checkpoint, operator, state_var)
    else:
        partitions = checkpoint.operator(operator, batch).stores[0].partition_ids
    open_state = partial(
        checkpoint.open_state,
        operator,
        store,
        checkpoint.latest_batch_id if batch is None else batch,
        None if join_side is None else join_side.value,
        state_var=state_var,
        flatten_collections=flatten_collections,
        read_registered_timers=timers,
        where=where,
    )
    most = options.rows_limit(limit, chosen)
    try:
        state = open_state()
    except ConditionError as error:
        raise typer.BadParameter(str(error), param_hint="--where") from None
    with state:
        found = _in_order(open_state, partitions) if most else state
        quiet = streams_to_terminal(chosen, output)
        schema, rows = numbered(state.schema, found if quiet else rows_counted(found, "Reading", len(partitions)))
        write_rows(schema, rows, chosen, output, most)


def _in_order(open_state: Callable[..., pa.RecordBatchReader], partitions: Sequence[int]) -> Iterator[pa.RecordBatch]:
    """The rows of one partition after the other, so that the first of them are the same ones each time."""
    for partition_id in partitions:
        with open_state(partitions=[partition_id]) as state:
            yield from state
