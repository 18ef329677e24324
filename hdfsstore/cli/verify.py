"""`hdfsstore verify`: checks a checkpoint, and names what is damaged."""

from __future__ import annotations

import json as jsons
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from hdfsstore.cli import options
from hdfsstore.cli.option_file import read_options
from hdfsstore.cli.progress import rows_told
from hdfsstore.repair.verify import verify as check


def verify(
    path: options.Location,
    logs: Annotated[
        bool, typer.Option("--logs", help="Check the logs and which files are there; read no rows.")
    ] = False,
    json: options.Json = False,
    option_file: options.OptionFile = None,
) -> None:
    """Check every batch that the checkpoint retains. The exit status is 1 if something is damaged.

    Example: hdfsstore verify /data/checkpoint
    """
    with rows_told() as tell:
        found = check(path, logs=logs, storage_options=read_options(option_file) or None, progress=tell)
    if json:
        typer.echo(jsons.dumps(found.as_json()))
    else:
        console = Console(highlight=False, soft_wrap=True)
        for finding in found.findings:
            console.print(Text(f"Damaged: {finding}"))
        for note in found.notes:
            console.print(Text(f"Note: {note}"))
        read = "" if logs else f", {found.files:,} state files with {found.rows:,} records"
        result = "Sound" if found.sound else f"{len(found.findings):,} damaged"
        console.print(Text(f"{result}: {len(found.batches):,} batches{read}"))
    if not found.sound:
        raise typer.Exit(1)
