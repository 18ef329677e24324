"""The command `hdfsstore`: looks into a checkpoint from a terminal. Exit codes: 0 done, 1 error, 2 usage."""

from __future__ import annotations

import io
import sys


def main() -> None:
    """Runs the command. If typer or rich is missing, it names the extra to install."""
    try:
        from hdfsstore.cli.app import app
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in ("typer", "rich"):
            raise
        print(f"The command needs {missing}: pip install 'hdfsstore[cli]'", file=sys.stderr)
        sys.exit(1)
    # In any locale: rows are UTF-8 anyway, and other encodings have no bars.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # None if it is closed
            stream.reconfigure(encoding="utf-8", errors=stream.errors)
    app(prog_name="hdfsstore")
