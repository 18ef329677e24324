"""Declares the arguments and options that several commands share."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import pyarrow as pa
import typer

from hdfsstore import Checkpoint, Operator, SchemaMismatchError, Store, UnsupportedProviderError
from hdfsstore.cli.option_file import read_options
from hdfsstore.cli.output import TABLE_ROWS, note
from hdfsstore.cli.output_file import Format


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


def open_checkpoint(path: str, option_file: Path | None) -> Checkpoint:
    """The checkpoint at a location, reached as the option file says."""
    checkpoint = Checkpoint(path, storage_options=read_options(option_file) or None)
    if checkpoint.remark is not None:
        note(f"{checkpoint.remark}.")
    return checkpoint


def rows_limit(limit: int | None, format: Format) -> int:
    """The number of rows to write; 0 = all."""
    if limit is not None:
        return limit
    return TABLE_ROWS if format == Format.TABLE else 0


def find_store(checkpoint: Checkpoint, operator_id: int, store_name: str) -> tuple[Operator, Store]:
    """Finds the store. Raises BadParameter, which lists the stores."""
    for operator in checkpoint.operators:
        for store in operator.stores:
            if (operator.operator_id, store.name) == (operator_id, store_name):
                return operator, store
    there = [
        f"--operator {operator.operator_id} --store {store.name} ({operator.name})"
        for operator in checkpoint.operators
        for store in operator.stores
    ]
    listed = "; there are " + ", ".join(there) if there else "; this checkpoint has no state"
    raise typer.BadParameter(f"operator {operator_id} has no store {store_name}{listed}")


def suggest_join_side(checkpoint: Checkpoint, operator_id: int, state_var: str | None) -> None:
    """Says of a join's own stores that there is a better way to look at them."""
    if state_var is None and checkpoint.operator(operator_id).name == "symmetricHashJoin":
        note("These are the rows of one of the join's own stores. --join-side left or right shows what a side buffers.")


def key_schema(store: Store) -> pa.Schema:
    """The column `key` of `read_state`.

    Raises:
        UnsupportedProviderError: the store has column families, each with keys of its own.
        SchemaMismatchError: it has no schema file.
    """
    if store.key_schema is None and store.has_families:
        raise UnsupportedProviderError(
            "this store has column families, which this command does not read",
            store.schema_path,
            remedy="hdfsstore read has --state-var, --timers and --join-side for them",
        )
    if store.key_schema is None:
        raise SchemaMismatchError(
            "this store has no schema file (Spark 2 wrote none)",
            store.schema_path,
            remedy="In Python, give the schemas to Checkpoint.read_state(key_schema=, value_schema=)",
        )
    return pa.schema([("key", pa.struct(list(store.key_schema)))])
