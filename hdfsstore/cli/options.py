"""Declares the arguments and options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer

from hdfsstore import Checkpoint
from hdfsstore.checkpoint.join_state import SIDES
from hdfsstore.checkpoint.operators import JOIN, Operator
from hdfsstore.checkpoint.parts import parts_of_store
from hdfsstore.checkpoint.state_request import StateRequest
from hdfsstore.cli.option_file import read_options
from hdfsstore.cli.output import TABLE_ROWS, note
from hdfsstore.cli.output_file import Format

_JOIN_SIDE = "--join-side left or right"


class Side(StrEnum):
    value: Literal["left", "right"]

    LEFT = "left"
    RIGHT = "right"


Location = Annotated[
    str, typer.Argument(metavar="PATH", help="The query's checkpoint: a folder or a URI.", show_default=False)
]
OperatorId = Annotated[int, typer.Option("--operator", help="Number of the stateful operator.", min=0)]
StoreName = Annotated[str, typer.Option("--store", help="Name of the state store of that operator.")]
BatchId = Annotated[
    int | None,
    typer.Option("--batch", help="Show the state after this batch; by default the newest committed one.", min=0),
]
JoinSide = Annotated[
    Side | None,
    typer.Option(help="Show the rows that this side of a stream-stream join has buffered.", show_default=False),
]
StateVar = Annotated[
    str | None, typer.Option(help="Show this state variable of transformWithState.", show_default=False)
]
FlattenCollections = Annotated[
    bool,
    typer.Option(
        "--flatten-collections/--nested",
        help="Whether each element of a list and each entry of a map has a row of its own.",
    ),
]
Timers = Annotated[bool, typer.Option("--timers", help="Show the registered timers of transformWithState.")]
RowFormat = Annotated[
    Format | None,
    typer.Option(
        "--format",
        help="Output format; by default told by the name of the -o file, else a table.",
        show_default=False,
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        help="Write to this file, which appears when it is complete; - is stdout. A name that ends in .gz or .zst is "
        "compressed (csv and json).",
        dir_okay=False,
        allow_dash=True,
        callback=lambda path: None if path == Path("-") else path,
        show_default=False,
    ),
]
OptionFile = Annotated[
    Path | None,
    typer.Option(
        help="How the storage is reached: a file with lines name=value, such as aws_endpoint_url=http://host:9000. "
        "Unless given, HADOOP_CONF_DIR and AWS's environment variables say it.",
        dir_okay=False,
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Write one JSON object a line.")]
Limit = Annotated[
    int | None,
    typer.Option(
        help=f"Show at most this many rows; 0 means all. By default {TABLE_ROWS} in a table, else all.",
        min=0,
        show_default=False,
    ),
]


def checkpoint_at(path: str, option_file: Path | None) -> Checkpoint:
    """The checkpoint at a location, reached as the option file says."""
    return Checkpoint(path, storage_options=read_options(option_file) or None)


def open_checkpoint(path: str, option_file: Path | None) -> Checkpoint:
    """The same. It prints what a person should know of it."""
    checkpoint = checkpoint_at(path, option_file)
    if checkpoint.remark is not None:
        note(f"{checkpoint.remark}.")
    return checkpoint


def rows_limit(limit: int | None, format: Format) -> int:
    """The number of rows to write; 0 = all."""
    if limit is not None:
        return limit
    return TABLE_ROWS if format == Format.TABLE else 0


def state_request(
    checkpoint: Checkpoint,
    operator_id: int,
    store_name: str,
    join_side: Side | None,
    state_var: str | None,
    flatten_collections: bool,
    timers: bool,
) -> StateRequest:
    """What the options ask for, of no batch. Raises BadParameter, which lists what there is, if it is no one part."""
    if state_var is not None and timers:
        raise typer.BadParameter("timers are no state variable: give --state-var or --timers")
    if join_side is None:
        _check_store(checkpoint, operator_id, store_name)
        if state_var is None and not timers:
            _check_part(checkpoint.operator(operator_id), store_name)
    return StateRequest(
        operator_id=operator_id,
        store_name=store_name,
        join_side=None if join_side is None else join_side.value,
        state_var=state_var,
        flatten_collections=flatten_collections,
        read_registered_timers=timers,
    )


def _check_store(checkpoint: Checkpoint, operator_id: int, store_name: str) -> None:
    """Raises BadParameter, which lists the stores."""
    there = [(operator, store) for operator in checkpoint.operators for store in operator.stores]
    if (operator_id, store_name) in [(operator.operator_id, store.name) for operator, store in there]:
        return
    names = [f"--operator {operator.operator_id} --store {store.name} ({operator.name})" for operator, store in there]
    listed = "; there are " + ", ".join(names) if there else "; this checkpoint has no state"
    of_join = any(
        operator.name == JOIN or store.name.startswith(tuple(f"{side}-" for side in SIDES)) for operator, store in there
    )
    advice = f". {_JOIN_SIDE} shows what a side of the join buffers" if of_join else ""
    raise typer.BadParameter(f"operator {operator_id} has no store {store_name}{listed}{advice}")


def _check_part(operator: Operator, store_name: str) -> None:
    """Raises BadParameter if the store's parts are read one by one. Of a join's own stores it says a better way."""
    store = operator.store(store_name)
    if not store.has_families:
        if operator.name == JOIN:
            note(f"These are the rows of one of the join's own stores. {_JOIN_SIDE} shows what a side buffers.")
        return
    parts = parts_of_store(operator, store)
    variables = sorted(part.name for part in parts if "state_var" in part.arguments)
    wanted = [f"--state-var {' or '.join(variables)}"] if variables else []
    wanted += ["--timers"] if any("read_registered_timers" in part.arguments for part in parts) else []
    wanted += [_JOIN_SIDE] if any("join_side" in part.arguments for part in parts) else []
    if wanted:
        raise typer.BadParameter(
            f"the store of operator {operator.operator_id} ({operator.name}) has parts that are read one by one: "
            f"give {', or '.join(wanted)}"
        )
