"""The longest step of the work behind commits: what a commit, or `close`, may have to wait for.

It is measured as time of a core, which is the step's own. By the clock it also has the time in which the system gave
its core to somebody else.
"""

from __future__ import annotations

import gc
import resource
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from bench import store_data
from bench.cache import cache_folder
from bench.images import image_of
from bench.report import Report
from hdfsstore import StateStoreId
from hdfsstore._cext.versioned_map import Image, Layer, Merger, PrefixPlan, VersionedMap
from hdfsstore.state.local.image_cache import ImageCache

SIZES = [1_000_000, 10_000_000]
CHANGED = 5  # each so many-th key
# Of keys of two columns the first, of which each key has another one: as many prefixes as there can be.
PREFIX: PrefixPlan = (2, b"\0")


@dataclass(frozen=True, slots=True)
class Used:
    """What a thread has used: milliseconds by the clock and of a core, and how often it lost the core."""

    clock: float
    core: float
    lost_core: int

    @staticmethod
    def now() -> Used:
        usage = resource.getrusage(resource.RUSAGE_THREAD)
        return Used(1e3 * time.perf_counter(), 1e3 * time.thread_time(), usage.ru_nivcsw)

    def since(self, before: Used) -> Used:
        return Used(self.clock - before.clock, self.core - before.core, self.lost_core - before.lost_core)


class Steps:
    """Measures what lies between two calls."""

    def __init__(self) -> None:
        self.taken: list[Used] = []
        self._last = Used.now()

    def __call__(self) -> None:
        self.taken.append(Used.now().since(self._last))
        self._last = Used.now()

    def all_of(self, more: Callable[[], object]) -> None:
        self._last = Used.now()
        while more():
            self()
        self()


def changed(image: Image, num_keys: int) -> Layer:
    transaction = VersionedMap(image).transaction(0)
    transaction.put_many(*store_data.rows(pa.array(range(0, num_keys, CHANGED), pa.int64())))
    return transaction.seal()


@pytest.mark.parametrize("num_keys", SIZES)
def test_the_longest_step(report: Report, smoke: bool, num_keys: int) -> None:
    if smoke:
        num_keys //= 100
    image = image_of(num_keys)
    layer = changed(image, num_keys)
    gc.disable()  # a collection would count as part of a step
    work = {"merged records": Steps(), "a new image": Steps(), "its local image": Steps(), "what is freed": Steps()}
    merger = Merger(image, [layer], prefix=PREFIX, timeout_offset=8)
    work["merged records"].all_of(lambda: merger.read() is not None)
    work["a new image"].all_of(merger.build)
    with tempfile.TemporaryDirectory(prefix="run-", dir=cache_folder()) as folder:
        cache = ImageCache(str(Path(folder, "images")), 16 << 30)
        with cache.store(StateStoreId(folder, 0, 0)) as images:
            step = work["its local image"] = Steps()
            images.write(1, "id", merger.finish(), {}, step=step)
            step()
    work["what is freed"].all_of(merger.free)
    gc.enable()
    for what, steps in work.items():
        core, clock = sorted(used.core for used in steps.taken), sorted(used.clock for used in steps.taken)
        most = len(core) * 99 // 100
        longest = max(steps.taken, key=lambda used: used.clock)
        note = (
            f"{len(core):,} steps, {sum(core):.0f} ms of a core; 99 of 100 below {core[most]:.2f} ms, "
            f"{sum(used > 1 for used in core)} above 1 ms; by the clock 99 of 100 below {clock[most]:.2f} ms, "
            f"the longest {clock[-1]:.2f} ms, which lost its core {longest.lost_core} times"
        )
        report.add(f"{what} of {num_keys:,} keys: the longest step", f"{core[-1]:.2f} ms of a core", note)
