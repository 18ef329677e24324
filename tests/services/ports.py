"""Free ports of 127.0.0.1."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

from tests.services.missing import ServiceMissingError

_PORTS = range(10_000, 32_000)
_RANGE_OF_CONNECTIONS = Path("/proc/sys/net/ipv4/ip_local_port_range")
# Open files whose locks keep other runs of this machine from the ports of this process until it ends.
_taken: list[int] = []


def free_port() -> int:
    """A port that nobody listens on. It is this process's until it ends, also while its server is stopped."""
    ports = _ports()
    # Not the common generator: hypothesis seeds it, so that processes side by side would try the same ports.
    first = random.SystemRandom().randrange(len(ports))
    for port in (*ports[first:], *ports[:first]):
        if not _take(port):
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:  # somebody else has it
                continue
        return port
    raise ServiceMissingError(f"There is no free port in {_PORTS}")


def _ports() -> range:
    """None that the system gives to connections, where that leaves any: such a port can be gone at any moment."""
    try:
        first, last = map(int, _RANGE_OF_CONNECTIONS.read_text().split())
    except FileNotFoundError:  # no Linux
        return _PORTS
    below, above = range(_PORTS.start, min(first, _PORTS.stop)), range(last + 1, 65_536)
    return max(below, above, key=len) or _PORTS


def _take(port: int) -> bool:
    folder = Path(tempfile.gettempdir(), f"hdfsstore-ports-{os.getuid()}")
    folder.mkdir(exist_ok=True)
    descriptor = os.open(folder / str(port), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return False
    _taken.append(descriptor)
    return True
