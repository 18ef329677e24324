"""The longest step of the work behind commits: what a commit, or `close`, may have to wait for."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from bench import store_data
from bench.cache import cache_folder
from bench.report import Report
from bench.test_versioned_map import image_of
from hdfsstore import StateStoreId
from hdfsstore._cext.versioned_map import Image, Layer, Merger, PrefixPlan, VersionedMap
from hdfsstore.state.local_images import ImageCache

SIZES = [1_000_000, 10_000_000]
CHANGED = 5  # each so many-th key
# Of keys of two columns the first, of which each key has another one: as many prefixes as there can be.
PREFIX: PrefixPlan = (2, b"\0")


class Steps:
    """Times what lies between two calls."""

    def __init__(self) -> None:
        self.taken: list[float] = []
        self._last = time.perf_counter()

    def __call__(self) -> None:
        now = time.perf_counter()
        self.taken.append(now - self._last)
        self._last = now

    def all_of(self, more: Callable[[], object]) -> None:
        self._last = time.perf_counter()
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
    work = {"merged records": Steps(), "a new image": Steps(), "its local image": Steps()}
    merger = Merger(image, [layer], prefix=PREFIX, indexed_offset=8)
    work["merged records"].all_of(lambda: merger.read() is not None)
    work["a new image"].all_of(merger.build)
    with tempfile.TemporaryDirectory(prefix="run-", dir=cache_folder()) as folder:
        cache = ImageCache(str(Path(folder, "images")), 16 << 30)
        with cache.store(StateStoreId(folder, 0, 0)) as images:
            step = work["its local image"] = Steps()
            images.write(1, "id", merger.finish(), {}, step=step)
            step()
    for what, steps in work.items():
        taken = sorted(1e3 * seconds for seconds in steps.taken)
        most = taken[len(taken) * 99 // 100]
        note = f"{len(taken):,} steps, {sum(taken):.0f} ms; 99 of 100 are below {most:.2f} ms"
        report.add(f"{what} of {num_keys:,} keys: the longest step", f"{taken[-1]:.2f} ms", note)
