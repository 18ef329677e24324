"""The process of a server, which ends with the one that started it, even if that is killed."""

from __future__ import annotations

import functools
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.services import reaper

_END_SECONDS = 60


class ServerProcess:
    """A running server.

    Args:
        log: what it writes to stderr is added to this file, and what it writes to stdout unless it `talks`.
        talks: `say` and `read_line` are its stdin and stdout.
    """

    def __init__(
        self, command: Sequence[str | Path], *, log: Path, environ: Mapping[str, str] | None = None, talks: bool = False
    ) -> None:
        self._log = log
        pipe = subprocess.PIPE
        with log.open("ab") as errors:
            # A session of its own: Ctrl-C is for the run, which ends its servers.
            self._process = subprocess.Popen(
                command,
                env=environ,
                stdin=pipe if talks else subprocess.DEVNULL,
                stdout=pipe if talks else errors,
                stderr=errors,
                bufsize=0,
                start_new_session=True,
            )
        _tell_reaper(self.pid)
        self._unread = b""

    @property
    def pid(self) -> int:
        return self._process.pid

    def running(self) -> bool:
        return self._process.poll() is None

    def log_end(self) -> str:
        """The end of what it has written to its log."""
        return self._log.read_text(errors="replace")[-3000:]

    def freeze(self) -> None:
        """It does nothing until `thaw`; its connections stay."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL, whatever state it is in."""
        self._end(signal.SIGKILL)

    def terminate(self) -> None:
        """SIGTERM: it may write what it has in memory."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        self._process.send_signal(how)  # nothing happens if it has ended
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        _tell_reaper(-self.pid)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def say(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")

    def read_line(self, timeout_s: float) -> str:
        """The next line of its stdout, without the line's end.

        Raises:
            TimeoutError: there is none in time.
            EOFError: it has ended.
        """
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        end = time.monotonic() + timeout_s
        while b"\n" not in self._unread:
            if not select.select([descriptor], [], [], max(0.0, end - time.monotonic()))[0]:
                raise TimeoutError(f"{self._process.args!r} has not answered for {timeout_s} s:\n{self.log_end()}")
            block = os.read(descriptor, 1 << 16)
            if not block:
                raise EOFError(f"{self._process.args!r} has ended:\n{self.log_end()}")
            self._unread += block
        line, self._unread = self._unread.split(b"\n", 1)
        return line.decode()


@functools.cache
def _reaper(_pid: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-I", "-S", reaper.__file__]
    return subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True, bufsize=0)


def _tell_reaper(pid: int) -> None:
    stdin = _reaper(os.getpid()).stdin
    assert stdin is not None
    stdin.write(reaper.RECORD.pack(pid))
