"""What commit, load, snapshot and clean-up cost over the number of keys."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import pytest

from bench import store_data
from bench.our_store import OurStore
from bench.report import Report

OLD_VERSIONS = 20


def timed(run: Callable[[], object]) -> float:
    """Its milliseconds."""
    start = time.perf_counter()
    run()
    return (time.perf_counter() - start) * 1e3


@pytest.mark.parametrize("num_keys", [10**power for power in range(4, 8)])
def test_curves(report: Report, smoke: bool, num_keys: int) -> None:
    if smoke and num_keys > 10**5:
        pytest.skip("small sizes do for a smoke run")
    with store_data.copy_of(num_keys) as folder:
        store = OurStore(folder, min_deltas_for_snapshot=OLD_VERSIONS)
        load = timed(store.load_cold)
        store.prepare(store_data.batches(num_keys))
        store.batch()  # a full snapshot, as the files are of another checkpoint format
        commit = statistics.median(timed(store.batch) for _ in range(OLD_VERSIONS + 1))
        snapshot = timed(store.maintain)
        store.batch()
        from_image = timed(store.load_cold)
        store.close()
        # Its maintenance has nothing to do but to delete: the last snapshot is new, and any image is good enough.
        settings = {"min_versions_to_retain": 1, "image_overlay_share": 1000}
        forgetful = OurStore(folder, store.version, store.checkpoint_unique_id, **settings)
        forgetful.prepare(store_data.batches(num_keys))
        forgetful.batch()
        clean_up = timed(forgetful.maintain)
        deleted = forgetful.provider.metrics["filesDeleted"]
        forgetful.close()
    parts = {
        "batch": commit,
        "load": load,
        "load from image + 1 delta": from_image,
        "snapshot": snapshot,
        f"clean-up of {deleted} files": clean_up,
    }
    measured = ", ".join(f"{name} {took:.1f}" for name, took in parts.items())
    report.add(f"curve: {num_keys:,} keys", measured, "ms")
