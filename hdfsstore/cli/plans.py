"""What the commands that change a checkpoint share: their options, and how a plan or a report is printed."""

from __future__ import annotations

import json as jsons
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from hdfsstore.repair.limits import DEFAULT_MEMORY, Limits
from hdfsstore.repair.plan import Plan
from hdfsstore.state.conf import parse_bytes

DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would be done, and do nothing.")]
Memory = Annotated[
    str, typer.Option(help="Memory that the work may take, such as 256m. What does not fit goes to --tmp.")
]
Tmp = Annotated[
    Path | None,
    typer.Option(help="A local folder for what does not fit; by default the system's.", show_default=False),
]
MEMORY = f"{DEFAULT_MEMORY >> 20}m"


def limits_of(memory: str, tmp: Path | None) -> Limits:
    """What --memory and --tmp say."""
    try:
        return Limits(parse_bytes(memory), None if tmp is None else str(tmp))
    except (ValueError, KeyError):
        raise typer.BadParameter(f"{memory!r} is not a size such as 256m or 2g", param_hint="--memory") from None


def show(plan: Plan, json: bool) -> None:
    """Prints a plan, or a report, on stdout."""
    if json:
        typer.echo(jsons.dumps(plan.as_json()))
        return
    console = Console(highlight=False, soft_wrap=True)
    for line in plan.lines():
        console.print(Text(line))
