"""Threads that share images, maps and transactions: what one of them reads is never freed or replaced by another."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from hdfsstore._cext.versioned_map import VersionedMap
from tests.unit.state.maps import as_dict, image_of

ONE_PREFIX = (2, bytes(1))  # keys of two longs, found by the first of them


def at_once(work: Callable[[], object], threads: int) -> None:
    """Calls it on so many threads, which begin together."""
    barrier = threading.Barrier(threads)

    def run() -> None:
        barrier.wait()
        work()

    with ThreadPoolExecutor(threads) as pool:
        for done in [pool.submit(run) for _ in range(threads)]:
            done.result()


@pytest.mark.parametrize("threads", [2, 8])
def test_first_prefix_scans_of_an_image_at_once(threads: int) -> None:
    state = {struct.pack("<qqq", 0, 7, i): b"%d" % i for i in range(30_000)}
    prefix = struct.pack("<qq", 0, 7)
    for _ in range(5):
        map_ = VersionedMap(image_of(state, prefix=ONE_PREFIX))

        def scan(map_: VersionedMap = map_) -> None:
            assert as_dict(*map_.transaction(0).prefix_scan(prefix)) == state

        at_once(scan, threads)
