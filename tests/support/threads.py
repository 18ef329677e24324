"""Work that several threads begin together."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def at_once(work: Callable[[int], T], threads: int) -> list[T]:
    """What it returns on so many threads, which are numbered and begin together."""
    barrier = threading.Barrier(threads)

    def run(number: int) -> T:
        barrier.wait()
        return work(number)

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(run, range(threads)))
