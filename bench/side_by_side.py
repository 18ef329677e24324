"""Times several pieces of work in turn, A B C A B C ..., so that a machine whose speed drifts is fair to all."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping


def side_by_side(
    work: Mapping[str, Callable[[], object]],
    rounds: int,
    outside: Mapping[str, Callable[[], object]] | None = None,
) -> dict[str, float]:
    """Median seconds of each piece of work over `rounds` rounds, after one round that does not count.

    What `outside` has under a work's name is called after it, untimed: the maintenance of a store.
    """
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for counted in range(rounds + 1):
        for name, run in work.items():
            gc.collect()
            start = time.perf_counter()
            result = run()
            elapsed = time.perf_counter() - start
            del result
            if outside and name in outside:
                outside[name]()
            if counted:
                seconds[name].append(elapsed)
    return {name: statistics.median(taken) for name, taken in seconds.items()}
