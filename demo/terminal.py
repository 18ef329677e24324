"""How the demo speaks: numbered steps, and the commands that it runs as a person would type them."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.rule import Rule


class Teller:
    """Writes to the terminal, and keeps the number of the step."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._steps = 0

    @contextmanager
    def step(self, line: str) -> Iterator[None]:
        """One step: what it does before it, the seconds it took after it."""
        self._steps += 1
        self.console.print(Rule(style="dim"))
        self.console.print(f"[bold cyan]{self._steps}[/] [bold]{escape(line)}[/]", soft_wrap=True)
        started = time.perf_counter()
        yield
        self.console.print(f"[dim]{time.perf_counter() - started:.1f} s[/]", justify="right")

    def say(self, line: str) -> None:
        self.console.print(f"  {escape(line)}", soft_wrap=True)

    def command(self, *arguments: str) -> None:
        """Runs `hdfsstore` with the arguments. Raises CalledProcessError when it fails."""
        self.console.print(f"  [green]$ hdfsstore {escape(shlex.join(arguments))}[/]", soft_wrap=True)
        sys.stdout.flush()
        subprocess.run([sys.executable, "-m", "hdfsstore", *arguments], check=True)
