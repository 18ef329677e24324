"""`hdfsstore rewind`: sets a query back to a batch."""

from __future__ import annotations

from typing import Annotated

import typer

from hdfsstore import repair
from hdfsstore.cli import options
from hdfsstore.cli.option_file import read_options
from hdfsstore.cli.plans import MEMORY, DryRun, Memory, Tmp, limits_of, show
from hdfsstore.cli.progress import rows_told


def rewind(
    path: options.Location,
    to_batch: Annotated[
        int, typer.Option(help="The committed batch after which the query goes on.", min=0, show_default=False)
    ],
    replay: Annotated[
        bool, typer.Option("--replay", help="The next batch gets the rows again that it had, and no others.")
    ] = False,
    replay_merged: Annotated[
        bool, typer.Option("--replay-merged", help="The next batch gets the rows of all batches that are taken back.")
    ] = False,
    continue_numbers: Annotated[
        bool,
        typer.Option(
            "--continue-numbers",
            help="Keep all batches, and add two with the offsets and the state of that batch: no number comes again.",
        ),
    ] = False,
    sink_accepts_batches_again: Annotated[
        bool,
        typer.Option(
            "--sink-accepts-batches-again", help="The sink does not skip a batch whose number it has seen before."
        ),
    ] = False,
    file_sink: Annotated[
        str | None,
        typer.Option(metavar="FOLDER", help="The folder of the query's file sink, whose log is set back too."),
    ] = None,
    memory: Memory = MEMORY,
    tmp: Tmp = None,
    dry_run: DryRun = False,
    json: options.Json = False,
    option_file: options.OptionFile = None,
) -> None:
    """Set a stopped query back to a batch. The batches after it never happened.

    What they left moves to _hdfsstore_backup in the checkpoint; `hdfsstore undo` puts it back.

    Example: hdfsstore rewind /data/checkpoint --to-batch 56 --file-sink /data/out
    """
    if replay + replay_merged + continue_numbers > 1:
        raise typer.BadParameter("--replay, --replay-merged and --continue-numbers exclude each other")
    with rows_told() as progress:
        plan = repair.rewind(
            path,
            to_batch,
            replay=replay,
            replay_merged=replay_merged,
            continue_numbers=continue_numbers,
            sink_accepts_batches_again=sink_accepts_batches_again,
            file_sink=file_sink,
            dry_run=dry_run,
            storage_options=read_options(option_file) or None,
            limits=limits_of(memory, tmp),
            progress=progress,
        )
    show(plan, json)
