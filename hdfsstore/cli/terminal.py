"""Waits for keys, signals and the threads of this process at once, on a terminal whose settings are restored."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType


class Wakes:
    """Wakes the thread that waits for keys."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)

    def wake(self) -> None:
        """Any thread may call it, any number of times."""
        with suppress(BlockingIOError):  # it has enough to wake up for
            os.write(self._write, b"\0")

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """A new size of the terminal wakes. SIGTERM raises SystemExit, so that the terminal is restored."""
        before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGWINCH)}
        signal.signal(signal.SIGTERM, _exit)
        signal.signal(signal.SIGWINCH, lambda *_: self.wake())
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def typed(self) -> Iterator[str]:
        """The keys that are typed; an empty text whenever something wakes. It never ends."""
        files = [self._read, *([sys.stdin.fileno()] if _has_keys() else [])]
        while True:
            ready = select.select(files, [], [])[0]
            typed = b""
            if self._read in ready:
                os.read(self._read, 65536)
            if len(files) > 1 and files[1] in ready:
                typed = os.read(files[1], 1024)
                if not typed:
                    files.pop()  # the terminal has hung up
            yield typed.decode(errors="replace")


@contextmanager
def keys_at_once() -> Iterator[None]:
    """Keys come without Enter and are not shown. Ctrl-C interrupts as ever; Ctrl-Z is left out."""
    if not _has_keys():
        yield
        return
    stdin = sys.stdin.fileno()
    before = termios.tcgetattr(stdin)
    try:
        tty.setcbreak(stdin)
        settings = termios.tcgetattr(stdin)
        settings[6][termios.VSUSP] = b"\0"
        termios.tcsetattr(stdin, termios.TCSADRAIN, settings)
        yield
    finally:
        termios.tcsetattr(stdin, termios.TCSADRAIN, before)


def _has_keys() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()  # a shell's `<&-` leaves none


def _exit(number: int, _: FrameType | None) -> None:
    raise SystemExit(128 + number)
