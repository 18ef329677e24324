"""How long tests wait for what should happen soon: for ever so long, as a machine may be slow, and not for ever."""

from __future__ import annotations

import time
from collections.abc import Callable

WAIT_SECONDS = 600


def wait_until(is_so: Callable[[], bool]) -> None:
    """Waits until it is so; fails where that takes longer than any machine should."""
    until = time.monotonic() + WAIT_SECONDS
    while not is_so():
        assert time.monotonic() < until, "what was waited for did not happen"
        time.sleep(0.005)
