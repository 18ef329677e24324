"""Free ports of 127.0.0.1."""

from __future__ import annotations

import random
import socket

from tests.services.missing import ServiceMissingError

# None that the system gives to connections: a port stays free while its server is stopped.
_PORTS = range(20_000, 32_000)


def free_port() -> int:
    for port in random.sample(_PORTS, len(_PORTS)):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:  # somebody has it
                continue
        return port
    raise ServiceMissingError(f"There is no free port in {_PORTS}")
