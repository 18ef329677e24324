"""The command `hdfsstore` on a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from typing import Self

_SECONDS = 120
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


class OnATerminal:
    """`hdfsstore` with these arguments. The terminal is its controlling one, so that a typed Ctrl-C is a SIGINT.

    Args:
        redirected: what a shell would do with the command: `<&-`.

    Attributes:
        shown: what it has written since the last key was typed.
    """

    def __init__(
        self, *arguments: str, columns: int = 80, lines: int = 24, redirected: str = "", **environment: str
    ) -> None:
        self._ours, self._theirs = pty.openpty()
        self.resize(columns, lines)
        self._settings = termios.tcgetattr(self._theirs)
        # xdist's workers have these, which rich takes in the place of the terminal's size.
        inherited = {name: text for name, text in os.environ.items() if name not in ("COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            ["sh", "-c", f'exec "$@" {redirected}', "sh", sys.executable, "-m", "hdfsstore", *arguments],
            stdin=self._theirs,
            stdout=self._theirs,
            stderr=self._theirs,
            env={**inherited, "TERM": "xterm-256color", **environment},
            start_new_session=True,
            preexec_fn=_control,
        )
        self.shown = ""

    def resize(self, columns: int, lines: int) -> None:
        """Gives the terminal another size; the process is told of it."""
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def wait_for(self, text: str) -> None:
        self.wait_until(lambda: text in self.shown)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + _SECONDS
        while not condition():
            assert time.monotonic() < end, self.shown
            self._read(1)

    def type(self, text: str) -> None:
        self.shown = ""
        os.write(self._ours, text.encode())

    def screen(self) -> list[str]:
        """The lines of the last screen that was drawn whole, without those that are empty at its end."""
        frames = [_ESCAPES.sub("", frame).replace("\r", "").rstrip() for frame in self.shown.split("\x1b[H")[1:-1]]
        return next((frame.split("\n") for frame in reversed(frames) if frame), [])

    def ended(self) -> int:
        """Its exit status. What it writes until then is read."""
        end = time.monotonic() + _SECONDS
        while self.process.poll() is None:
            assert time.monotonic() < end, self.shown
            self._read(0.05)
        self._read(0)
        return self.process.wait()

    @property
    def is_restored(self) -> bool:
        """Whether the terminal has the settings that it had, shows the cursor, and is not on its second screen."""
        pairs = [("\x1b[?25l", "\x1b[?25h"), ("\x1b[?1049h", "\x1b[?1049l")]
        visible = all(self.shown.rfind(on) <= self.shown.rfind(off) for on, off in pairs)
        return visible and termios.tcgetattr(self._theirs) == self._settings

    def _read(self, seconds: float) -> None:
        if select.select([self._ours], [], [], seconds)[0]:
            self.shown += os.read(self._ours, 1 << 20).decode(errors="replace")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._ours)
        os.close(self._theirs)


def _control() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    # A shell that has started the tests in the background lets its jobs ignore it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
