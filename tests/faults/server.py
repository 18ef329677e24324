"""Processes with the shim, forked from one that has everything imported: a start takes milliseconds.

The server has no thread but its first, and runs nothing itself, so that what it forks starts clean.
"""

from __future__ import annotations

import dataclasses
import gc
import importlib
import importlib.abc
import logging
import multiprocessing.connection as connection
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.faults.shim import Fault, Shim, library

ROOT = Path(__file__).parents[2]
# A child that says nothing for longer hangs, however long all that it does takes.
DEADLINE = 120.0
# To glibc: memory that was freed is used again. Else a child's time goes into pages that the system gives and takes.
_KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 30)}


@dataclasses.dataclass(frozen=True)
class Child:
    """What a function that runs in a child is given first: a way to tell the parent, and the shim."""

    report: Callable[[Any], None]
    shim: Shim


@dataclasses.dataclass(frozen=True)
class Outcome:
    """How a child ended.

    Attributes:
        killed: by SIGKILL, whoever sent it.
        hung: it was killed for saying nothing for too long.
        error: the traceback, where the function raised or the process died of something else.
        messages: what the function reported until then.
        calls: how many calls the shim counted.
        what: the call that was hit.
    """

    killed: bool
    hung: bool
    error: str | None
    messages: list[Any]
    calls: int
    what: str


class Server:
    """A process with the shim that forks one child after the other.

    Args:
        modules: what it imports.
    """

    def __init__(self, *modules: str) -> None:
        ours, theirs = socket.socketpair()
        environment = os.environ | {"LD_PRELOAD": str(library())} | _KEEP_MEMORY
        # Not as __main__, which would be another module than the one that the parent has.
        start = "from tests.faults.server import serve; serve()"
        command = [sys.executable, "-c", start, str(theirs.fileno()), *modules]
        self._process = subprocess.Popen(command, cwd=ROOT, env=environment, pass_fds=[theirs.fileno()])
        theirs.close()
        self._connection = connection.Connection(ours.detach())

    def run(self, function: Callable[..., None], *args: Any, fault: Fault, kill_after: float | None = None) -> Outcome:
        """Runs `function(child, *args)` in a child, and kills that after so many seconds."""
        self._connection.send((function, args, fault, kill_after))
        outcome: Outcome = self._connection.recv()
        return outcome

    def close(self) -> None:
        self._connection.close()
        self._process.wait()

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _NoPandas(importlib.abc.MetaPathFinder):
    """pyarrow goes without it. Else each child would import it, which takes longer than all that it does itself."""

    def find_spec(self, fullname: str, *_: object) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("not in tests of faults", name=fullname)


def serve() -> None:
    """What the server's process does; its arguments are a socket's descriptor and modules."""
    os.environ.pop("LD_PRELOAD")  # what the children start needs no shim
    sys.meta_path.insert(0, _NoPandas())
    logging.getLogger().addHandler(logging.NullHandler())  # of what goes wrong here on purpose there are warnings
    for name in sys.argv[2:]:
        importlib.import_module(name)
    gc.freeze()  # what is here stays: the children shall not copy its pages to count references
    shim = Shim()
    with connection.Connection(int(sys.argv[1])) as requests:
        while True:
            try:
                function, args, fault, kill_after = requests.recv()
            except EOFError:
                return
            requests.send(_outcome(shim, function, args, fault, kill_after))


def _outcome(
    shim: Shim, function: Callable[..., None], args: tuple[Any, ...], fault: Fault, kill_after: float | None
) -> Outcome:
    shim.arm(fault)
    receiver, sender = connection.Pipe(duplex=False)
    pid = os.fork()
    if pid == 0:
        _child(shim, function, args, sender)
    sender.close()
    deadline = time.monotonic() + (DEADLINE if kill_after is None else kill_after)
    messages: list[Any] = []
    hung = False
    while True:
        if not receiver.poll(max(0.0, deadline - time.monotonic())):
            os.kill(pid, signal.SIGKILL)
            hung = kill_after is None
            deadline = time.monotonic() + DEADLINE
            continue
        try:
            messages.append(receiver.recv())
            if kill_after is None:
                deadline = time.monotonic() + DEADLINE
        except (EOFError, pickle.UnpicklingError):  # the process ended, maybe in the middle of a message
            break
    receiver.close()
    _, status = os.waitpid(pid, 0)
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    error = None
    if not killed and status != 0:
        error = messages.pop() if os.WIFEXITED(status) and messages else f"the process ended with status {status}"
    return Outcome(killed, hung, error, messages, shim.calls, shim.what)


def _child(shim: Shim, function: Callable[..., None], args: tuple[Any, ...], sender: connection.Connection) -> None:
    try:
        function(Child(sender.send, shim), *args)
    except BaseException:  # noqa: BLE001  # the parent is told, whatever it is
        sender.send(traceback.format_exc())
        os._exit(1)
    finally:
        os._exit(0)
