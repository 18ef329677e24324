"""`hdfsstore undo`: takes back what the last repair in place has done."""

from __future__ import annotations

from typing import Annotated

import typer

from hdfsstore import repair
from hdfsstore.cli import options
from hdfsstore.cli.option_file import read_options
from hdfsstore.cli.plans import DryRun, show
from hdfsstore.cli.progress import rows_told


def undo(
    path: options.Location,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Also if the query has run since, whose batches then move to a backup; or if files of the backup are "
            "gone, or the checkpoint was moved.",
        ),
    ] = False,
    dry_run: DryRun = False,
    json: options.Json = False,
    option_file: options.OptionFile = None,
) -> None:
    """Take back the last repair in place, byte for byte, or one that was killed.

    Example: hdfsstore undo /data/checkpoint
    """
    with rows_told() as progress:
        plan = repair.undo(
            path, force=force, dry_run=dry_run, storage_options=read_options(option_file) or None, progress=progress
        )
    show(plan, json)
