"""The shim (shim.c), built with the machine's compiler, and the memory by which it is told what to do."""

from __future__ import annotations

import ctypes
import dataclasses
import enum
import hashlib
import mmap
import subprocess
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path

SOURCE = Path(__file__).with_name("shim.c")
BUILD = Path(__file__).parents[2] / "build" / "faults"
_PATH_MAX = 4096


class Action(enum.IntEnum):
    """What happens at the chosen call."""

    COUNT = 0
    KILL_BEFORE = 1
    KILL_HALF_WAY = 2  # after half of the bytes of a write, and after any other call
    FAIL_ONCE = 3
    FAIL_FROM = 4  # that call and all that follow


@dataclasses.dataclass(frozen=True)
class Fault:
    """What happens at the `at`-th call (1 is the first) that writes or changes the file system below `folder`."""

    folder: str
    action: Action = Action.COUNT
    at: int = 0
    error: int = 0


class _Control(ctypes.Structure):
    _fields_ = (
        ("calls", ctypes.c_long),
        ("at", ctypes.c_long),
        ("action", ctypes.c_int),
        ("error", ctypes.c_int),
        ("hits", ctypes.c_long),
        ("trace", ctypes.c_int),
        ("prefix", ctypes.c_char * _PATH_MAX),
        ("what", ctypes.c_char * _PATH_MAX),
    )


def library() -> Path:
    """Builds the shim, unless that was done before. Returns what LD_PRELOAD takes."""
    built = BUILD / f"shim-{hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]}.so"
    if not built.exists():
        BUILD.mkdir(parents=True, exist_ok=True)
        temporary = built.with_suffix(f".{uuid.uuid4()}.tmp")  # threads, and processes, may all be the first
        flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
        subprocess.run(["cc", *flags, "-o", str(temporary), str(SOURCE), "-ldl"], check=True)
        temporary.rename(built)
    return built


class Shim:
    """The shim of this process and of the children that it forks, which share one counter."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, ctypes.sizeof(_Control))
        self._control = _Control.from_buffer(self._memory)
        self._use = ctypes.CDLL(None).fault_use  # AttributeError: this process was started without the shim
        self._use.argtypes = [ctypes.c_void_p]

    def arm(self, fault: Fault) -> None:
        """Counts from here on, in this process and its children."""
        self._use(None)
        ctypes.memset(ctypes.byref(self._control), 0, ctypes.sizeof(_Control))
        self._control.prefix = str(Path(fault.folder).resolve()).encode()
        self._control.at, self._control.action, self._control.error = fault.at, fault.action, fault.error
        self._use(ctypes.addressof(self._control))

    def disarm(self) -> None:
        """No fault any more; the counter goes on."""
        self._control.action = Action.COUNT

    def traced(self, work: Callable[[], object]) -> list[tuple[str, str]]:
        """The calls that something makes, in their order: what is called, and the path below the folder."""
        with tempfile.TemporaryFile() as file:
            self._control.trace = file.fileno()
            try:
                work()
            finally:
                self._control.trace = 0
            file.seek(0)
            lines = file.read().decode().splitlines()
        return [(call, path) for call, _, path in (line.partition(" ") for line in lines)]

    @property
    def calls(self) -> int:
        """How many calls were counted."""
        return int(self._control.calls)

    @property
    def what(self) -> str:
        """The call that was hit first, and its path below the folder; empty where none was."""
        return bytes(self._control.what).decode()
