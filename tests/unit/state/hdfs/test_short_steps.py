"""The work behind commits goes in steps of a bounded number of records or bytes, and `close` waits for one of them."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

from hdfsstore._cext.versioned_map import VersionedMap
from hdfsstore.state.hdfs.provider import HdfsStateStoreProvider
from hdfsstore.state.local import image_file
from hdfsstore.state.local.folder import write_all
from hdfsstore.state.local.image_cache import ImageCache, StoreImages
from hdfsstore.state.maintenance.throttle import Stopped
from hdfsstore.state.versions.files import VersionId
from tests.support import images as by_hand
from tests.support.images import GIB, ID, STORE, image_of, rows_of
from tests.support.partition import EMPTY, Partition, read
from tests.unit.state.hdfs.executors import chain, commit, rows_at

MIB = 1 << 20
# A record beyond key and value has 8 bytes.
LARGE = {b"%6d" % i: bytes(1_010) for i in range(6_000)}


class Steps:
    """Counts steps, and ends the work at one of them."""

    def __init__(self, last: int | None = None) -> None:
        self.count = 0
        self._last = last

    def __call__(self) -> None:
        self.count += 1
        if self.count == self._last:
            raise Stopped


@pytest.fixture
def local(tmp_path: Path) -> Path:
    return tmp_path / "local"


@pytest.fixture
def store_images(local: Path) -> StoreImages:
    return ImageCache(str(local), GIB).store(STORE)


def test_an_image_is_written_a_mebibyte_at_a_time(local: Path, store_images: StoreImages) -> None:
    sizes = [0]

    def step() -> None:
        sizes.extend(file.stat().st_size for file in local.glob("*/*.tmp"))

    image = image_of(LARGE)
    steps = Steps()
    assert store_images.write(1, ID, image, {}, step=lambda: (steps(), step())) is not None
    assert max(after - before for before, after in pairwise(sizes)) <= MIB
    assert steps.count >= 2 * (image.records.size // MIB), "checksums, and writing"


def test_an_image_that_is_not_written_to_its_end_is_not_there(local: Path, store_images: StoreImages) -> None:
    image = image_of(LARGE)
    steps = Steps()
    store_images.write(1, ID, image, {}, step=steps)
    store_images.drop(1, ID)
    for last in range(1, steps.count + 1):
        with pytest.raises(Stopped):
            store_images.write(1, ID, image, {}, step=Steps(last))
        assert by_hand.files(local) == set()
    again = store_images.write(1, ID, image, {})
    assert again is not None
    assert rows_of(again) == LARGE


def test_an_image_is_verified_a_mebibyte_at_a_time(store_images: StoreImages) -> None:
    image = store_images.write(1, ID, image_of(LARGE), {})
    assert image is not None
    steps = Steps()
    image.verify(steps)
    assert steps.count >= image.records.size // MIB


def test_a_layer_is_added_some_records_at_a_time() -> None:
    map_ = VersionedMap(image_of({}))
    transaction = map_.transaction(0)
    keys = pa.array([b"%d" % i for i in range(50_000)], pa.binary())
    transaction.put_many(keys, keys)
    layer = transaction.seal()
    other = VersionedMap(image_of({b"1": b"old"}))
    steps = Steps()
    assert other.add(0, layer, steps) == 1
    assert steps.count >= 50_000 // 2_176
    with pytest.raises(Stopped):
        other.add(0, layer, Steps(3))
    with pytest.raises(ValueError, match="no layer"):
        other.transaction(2)
    assert other.transaction(1).get_many(keys).equals(keys)
    assert other.transaction(0).get(b"1") == b"old"
    assert other.num_keys(1) == 50_000
    assert other.transaction(other.add(0, layer)).get_many(keys).equals(keys)


def run(provider: HdfsStateStoreProvider, step: Steps) -> list[VersionId]:
    return provider._maintenance_run._snapshots.run(0.0, step)


@pytest.mark.parametrize("checkpoint_format_version", [1, 2])
def test_a_run_that_ends_at_any_step_loses_nothing(tmp_path: Path, checkpoint_format_version: int) -> None:
    """And what it has left to do is done by the next."""
    steps = Steps()
    last = 0
    while steps.count >= last:
        last += 1
        executors = Partition(tmp_path / str(last), checkpoint_format_version=checkpoint_format_version)
        provider = executors.open(min_deltas_for_snapshot=3)
        version = chain(provider, 4)[-1]
        steps = Steps(last)
        with suppress(Stopped):
            run(provider, steps)
        assert not list(executors.folder.glob(".*"))
        assert not [name for name in by_hand.files(executors.root / "host") if "tmp" in name or "lock" in name]
        assert read(provider, version) == rows_at(4)
        provider.do_maintenance()
        version = chain(provider, 4, version)[-1]
        provider.do_maintenance()
        assert read(provider, version) == rows_at(8)
        assert read(executors.open("another host"), version) == rows_at(8)
        executors.close()
    assert last > 10


def test_close_ends_the_writing_of_an_image_after_one_step(
    any_executors: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = any_executors.open(min_deltas_for_snapshot=3)
    version = chain(provider, 4, commit(provider, EMPTY, LARGE))[-1]
    written = []

    def write(file: int, data: memoryview) -> None:
        write_all(file, data)
        written.append(len(data))
        if len(written) == 3:
            provider.close()

    monkeypatch.setattr(image_file, "write_all", write)
    provider.do_maintenance()
    assert len(written) == 3
    assert max(written) <= MIB
    assert not [name for name in by_hand.files(any_executors.root / "host") if "tmp" in name or "lock" in name]
    assert len(read(any_executors.open(), version)) == len(LARGE) + 4
