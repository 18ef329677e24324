"""Asks for one statement after the other, and ends a running one on Ctrl-C."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")

_FIRST, _MORE = "sql> ", "...> "
_END = ("exit", "quit", ".exit", ".quit")


def statements() -> Iterator[str]:
    """The statements that a person types, each up to a line that ends with `;`, or an empty line. Ctrl-C drops one."""
    if sys.stdin.isatty():
        import readline  # noqa: F401 - gives input() its history and editing

    lines: list[str] = []
    while True:
        try:
            line = input(_MORE if lines else _FIRST).strip()
        except EOFError:
            print(file=sys.stderr)
            return
        except KeyboardInterrupt:
            print(file=sys.stderr)
            lines = []
            continue
        if not lines and line.rstrip(";").lower() in _END:
            return
        lines += [line] if line else []
        if lines and (not line or line.endswith(";")):
            yield "\n".join(lines)
            lines = []


def interruptible(connection: Any, work: Callable[[], T]) -> T:
    """Does work on a DuckDB connection in another thread: DuckDB itself does not see a Ctrl-C.

    Raises:
        KeyboardInterrupt: Ctrl-C. The query has ended then.
    """
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised again by result()
            done.set_exception(error)

    thread = Thread(target=run, name="hdfsstore-sql", daemon=True)
    thread.start()
    try:
        return done.result()
    except KeyboardInterrupt:
        while thread.is_alive():  # an interrupt that comes before the query has begun is lost
            connection.interrupt()
            thread.join(0.1)
        raise
