"""Kills what it was told to watch once the process that started it is gone.

Its input is 4 bytes for each process: the id of one to watch, or, negative, of one to forget. An id may mean another
process by then, so where the system has them (Linux) it holds descriptors of processes.
"""

from __future__ import annotations

import os
import select
import signal
import struct

RECORD = struct.Struct("=i")
_POLL_SECONDS = 1.0


def main() -> None:
    parent = os.getppid()
    watched: dict[int, int | None] = {}
    # A forked child of the parent may hold the pipe open for longer, so its end is not all that counts.
    while os.getppid() == parent:
        if select.select([0], [], [], _POLL_SECONDS)[0]:
            record = os.read(0, RECORD.size)
            if not record:
                break
            (pid,) = RECORD.unpack(record)
            if pid > 0:
                _watch(pid, watched)
            elif (descriptor := watched.pop(-pid, None)) is not None:
                os.close(descriptor)
    for pid, descriptor in watched.items():
        try:
            if descriptor is None:
                os.kill(pid, signal.SIGKILL)
            else:
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        except ProcessLookupError:
            continue  # it has ended by itself


def _watch(pid: int, watched: dict[int, int | None]) -> None:
    try:
        watched[pid] = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
    except ProcessLookupError:
        return  # it has ended already


if __name__ == "__main__":
    main()
