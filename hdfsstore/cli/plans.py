"""What the commands that change a checkpoint share: their options, and how a plan or a report is printed."""

from __future__ import annotations

import json as jsons
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from hdfsstore.repair.plan import Plan

DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and do nothing.")]


def show(plan: Plan, json: bool) -> None:
    """Prints a plan, or a report, on stdout."""
    if json:
        typer.echo(jsons.dumps(plan.as_json()))
        return
    console = Console(highlight=False, soft_wrap=True)
    for line in plan.lines():
        console.print(Text(line))
