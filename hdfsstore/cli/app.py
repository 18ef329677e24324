"""Registers the commands with typer, and prints their errors."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated, Any

import typer
from rich.text import Text
from typer.core import TyperGroup

from hdfsstore.cli import diff, history, inspect, read, report, rewind, rewrite, sql, undo, verify, watch
from hdfsstore.cli.progress import STDERR
from hdfsstore.errors import StateStoreError

# What a person looks for, and what there is in its place.
_NOT_THERE = {
    "migrate": "Rows of a changed schema or of another state format cannot be taken over: start the changed query with "
    "a new checkpoint, from the offsets in the newest file of the old one's offsets/",
    "bootstrap": "State cannot be made without a query: start it with a first batch that reads the rows, or with the "
    "initial state of transformWithState",
    "remap": "Operators cannot get other numbers: keep the stateful operators of the query and their order, or start "
    "it with a new checkpoint",
}


class _Commands(TyperGroup):
    """Prints an error of the package or the system as one message, without a traceback; the exit code is 1."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] in _NOT_THERE:
            ctx.fail(f"There is no command '{args[0]}'. {_NOT_THERE[args[0]]}.")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise  # typer ends quietly when the reader of a pipe is gone.
        except (StateStoreError, OSError) as error:
            STDERR.print(Text(f"Error: {error}", "red"), highlight=False, soft_wrap=True)
            raise typer.Exit(1) from error


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"hdfsstore {version('hdfsstore')}")
        raise typer.Exit


@app.callback()
def _of_all(
    _: Annotated[
        bool, typer.Option("--version", "-V", help="Show the release and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Looks into the checkpoint of a Spark Structured Streaming query, and repairs it, without Spark."""


app.command()(inspect.inspect)
app.command()(read.read)
app.command()(sql.sql)
app.command()(report.report)
app.command()(watch.watch)
app.command()(verify.verify)
app.command()(history.history)
app.command()(diff.diff)
app.command()(rewrite.fork)
app.command()(rewrite.repartition)
app.command()(rewrite.convert)
app.command()(rewrite.edit)
app.command()(rewrite.rewrite)
app.command()(rewind.rewind)
app.command()(undo.undo)
