"""Registers the commands with typer, and prints their errors."""

from __future__ import annotations

from typing import Any

import typer
from rich.console import Console
from rich.text import Text
from typer.core import TyperGroup

from hdfsstore.cli import diff, history, inspect, read, sql
from hdfsstore.errors import StateStoreError


class _Commands(TyperGroup):
    """Prints an error of the package or the system as one message, without a traceback; the exit code is 1."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise  # typer ends quietly when the reader of a pipe is gone.
        except (StateStoreError, OSError) as error:
            Console(stderr=True, highlight=False, soft_wrap=True).print(Text(f"Error: {error}", "red"))
            raise typer.Exit(1) from error


app = typer.Typer(
    cls=_Commands,
    help="Looks into the checkpoint of a Spark Structured Streaming query, without Spark.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(inspect.inspect)
app.command()(read.read)
app.command()(sql.sql)
app.command()(history.history)
app.command()(diff.diff)
