"""`hdfsstore inspect`: shows what is in a checkpoint. Of the state it only counts the rows."""

from __future__ import annotations

import json as json_module
from dataclasses import asdict
from typing import Annotated

import typer

from hdfsstore.cli import options
from hdfsstore.cli.inspection import examine
from hdfsstore.cli.overview import show


def inspect(
    path: options.Location,
    rows: Annotated[bool, typer.Option(help="Count the rows, which reads the newest state once.")] = True,
    json: Annotated[bool, typer.Option("--json", help="Write one JSON object.")] = False,
    option_file: options.OptionFile = None,
) -> None:
    """Show the query's batches, settings, operators, stores, schemas, and the size of each partition."""
    report = examine(options.open_checkpoint(path, option_file), rows)
    if json:
        typer.echo(json_module.dumps(asdict(report), ensure_ascii=False))
    else:
        show(report)
