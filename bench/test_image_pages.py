"""What it costs a task that its worker gave up the pages of its partition's image: lookups that map them again."""

from __future__ import annotations

import random
import resource
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest

from bench import store_data
from bench.cache import cache_folder
from bench.images import image_of
from bench.report import Report
from bench.side_by_side import side_by_side
from hdfsstore import StateStoreId
from hdfsstore._cext.versioned_map import Image, VersionedMap
from hdfsstore.state.local.image_cache import ImageCache

# Keys of a partition, and those that a batch of 50,000 keys looks up: 32 partitions and 2.
SIZES = [(160_000, 1_500), (2_500_000, 25_000)]
# A file on disk has pages as large as the system chooses; these are small.
FOLDERS = {"disk": cache_folder(), "pages of 4 KiB": Path("/dev/shm")}


def mapped(image: Image, folder: str) -> Image:
    """The image on a file below that folder."""
    written = ImageCache(f"{folder}/images", 1 << 30).store(StateStoreId(folder, 0, 0)).write(1, "id", image, {})
    assert written is not None
    return written


@pytest.mark.parametrize("where", FOLDERS)
@pytest.mark.parametrize(("num_keys", "num_lookups"), SIZES)
def test_lookups_in_dropped_pages(
    report: Report, smoke: bool, rounds: int, num_keys: int, num_lookups: int, where: str
) -> None:
    if smoke:
        num_keys, num_lookups = num_keys // 100, num_lookups // 100
    ids = random.Random(7).sample(range(num_keys), num_lookups)
    keys, _ = store_data.rows(pa.array(ids, pa.int64()))
    faults: list[int] = []
    with tempfile.TemporaryDirectory(prefix="run-", dir=FOLDERS[where]) as folder:
        image = mapped(image_of(num_keys), folder)
        held = VersionedMap(image)

        def look_up() -> None:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            assert held.transaction(0).get_many(keys).null_count == 0
            faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)

        work = {"kept": look_up, "give up": image.drop_resident_pages, "mapped again": look_up}
        seconds = {name: 1e3 * taken for name, taken in side_by_side(work, 10 * rounds).items()}
    what = f"{num_lookups:,} lookups in an image of {image.nbytes / 1e6:.0f} MB, {where}"
    again = f"{seconds['mapped again']:.2f} + {seconds['give up']:.2f} ms"
    report.add(f"{what}: pages kept", f"{seconds['kept']:.2f} ms", "")
    report.add(f"{what}: given up", again, f"{faults[-1]:,} page faults")
