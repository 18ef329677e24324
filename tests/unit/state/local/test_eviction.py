"""What leaves the cache of images: above the budget, unused, left over."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from hdfsstore.state.local import eviction
from hdfsstore.state.local.eviction import IN_USE, evict
from hdfsstore.state.local.image_cache import ImageCache, StoreImages
from hdfsstore.state.store_id import StateStoreId
from tests.support.images import (
    ID,
    OTHER,
    STORE,
    files,
    find,
    folder_of,
    image_of,
    line,
    rows,
    rows_of,
    said,
    start,
    write,
)

# The budget


def size_of(images: StoreImages, local_dir: Path) -> int:
    write(images, 0)
    [size] = [path.stat().st_size for path in local_dir.glob("*/0_*.image")]
    images.drop(0, ID)
    return size


def used_long_ago(local_dir: Path) -> None:
    """Gives the images there times in the order of their versions: a filesystem may give two that follow the same."""
    for path in local_dir.glob("*/*.image"):
        version = int(path.name.partition("_")[0])
        os.utime(path, (10**9 + version,) * 2)


def test_the_least_recently_used_go_first(local_dir: Path, images: StoreImages) -> None:
    budget = 4 * size_of(images, local_dir) + 2000  # for the small files beside the images
    with ImageCache(str(local_dir), budget).store(STORE) as limited:
        for version in (1, 2, 3, 4):
            write(limited, version)
        used_long_ago(local_dir)
        assert find(limited, 1) is not None
        write(limited, 5)
        assert limited.names() == [(1, ID), (3, ID), (4, ID), (5, ID)]
        write(limited, 6)
        assert limited.names() == [(1, ID), (4, ID), (5, ID), (6, ID)]


def test_where_there_is_room_not_all_folders_are_looked_through_each_time(
    local_dir: Path, images: StoreImages, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []

    def counted(root: int, max_bytes: int) -> int:
        looks.append(max_bytes)
        return evict(root, max_bytes)

    monkeypatch.setattr(eviction, "evict", counted)
    size = size_of(images, local_dir)
    looks.clear()
    with ImageCache(str(local_dir), 100 * size).store(STORE) as roomy:
        for version in range(30):
            write(roomy, version)
        assert len(roomy.names()) == 30
    assert 3 <= len(looks) <= 4, "an eighth of the room is 12 images at first, and less then"
    with ImageCache(str(local_dir), 31 * size).store(STORE) as full:
        for version in range(30, 34):
            write(full, version)
        assert len(full.names()) == 30, "of the 31 images' bytes store.json takes some"
    assert len(looks) >= 7


def test_stores_in_use_come_last(local_dir: Path, images: StoreImages) -> None:
    budget = 4 * size_of(images, local_dir) + 2000
    limited = ImageCache(str(local_dir), budget)
    write(images, 1)
    write(images, 2)
    used_long_ago(local_dir)
    with limited.store(OTHER) as other:
        write(other, 1)
        write(other, 2)
    with limited.store(StateStoreId("file:///x", 0, 0)) as third:
        write(third, 1)
        assert len(images.names()) == 2  # the oldest images, but in use
        write(third, 2)
        assert len(images.names()) == 2
        write(third, 3)  # nothing else is left
        assert images.names() == [(2, ID)]
        assert len(third.names()) == 3
    with limited.store(OTHER) as other:
        assert other.names() == []


def test_an_evicted_image_stays_mapped(local_dir: Path, images: StoreImages) -> None:
    mapped = write(images, 1)
    size = size_of(images, local_dir)
    with ImageCache(str(local_dir), size + 2000).store(OTHER) as other:
        write(other, 1)
        assert images.names() == []
        assert rows_of(mapped) == rows(100, "1")


def test_an_image_that_is_larger_than_the_budget_evicts_nothing(local_dir: Path, images: StoreImages) -> None:
    write(images, 1)
    with ImageCache(str(local_dir), 1000).store(OTHER) as other:
        assert other.write(1, ID, image_of(rows(1000)), {}) is None
    assert images.names() == [(1, ID)]


# Cleaning


def unused_since(local_dir: Path, seconds: float) -> None:
    """Puts back the time at which each store was last used, and that of the last cleaning."""
    for path in (*local_dir.glob(f"*/{IN_USE}"), *local_dir.glob("cleaning.lock")):
        os.utime(path, (path.stat().st_mtime - seconds,) * 2)


def test_stores_that_nobody_used_for_a_time_are_deleted(local_dir: Path, cache: ImageCache) -> None:
    with cache.store(STORE) as images:
        write(images, 1)
        with cache.store(OTHER) as other:
            write(other, 1)
        unused_since(local_dir, 3500)
        cache.clean()
        assert len(list(local_dir.glob("*/*.image"))) == 2
        unused_since(local_dir, 110)
        cache.clean()
        assert images.names() == [(1, ID)]
        assert [path.parent for path in local_dir.glob("*/store.json")] == [folder_of(local_dir, STORE)]
    cache.clean()  # used until now
    assert len(list(local_dir.glob("*/*.image"))) == 1
    unused_since(local_dir, 4000)
    cache.clean()
    assert [path.name for path in local_dir.iterdir()] == ["cleaning.lock"]


def test_a_store_whose_process_was_killed_keeps_its_images_for_that_time(local_dir: Path, cache: ImageCache) -> None:
    code = """
        images = store(sys.argv[1])
        images.write(1, None, image_of(rows(3)), {})
        print("open", flush=True)
        sys.stdin.read()
    """
    with start(code, local_dir) as process:
        assert line(process) == "open\n"
        unused_since(local_dir, 4000)  # opened long ago
        cache.clean()
        assert files(local_dir) == {"1.image"}
        process.kill()
    unused_since(local_dir, 100)
    cache.clean()
    assert files(local_dir) == {"1.image"}
    unused_since(local_dir, 3600)
    cache.clean()
    assert files(local_dir) == set()


def test_cleaning_is_not_done_again_at_once(local_dir: Path, cache: ImageCache, images: StoreImages) -> None:
    cache.clean()
    (folder_of(local_dir) / f"1_{ID}.image.lock").touch(mode=0o600)
    cache.clean()
    assert files(local_dir) == {f"1_{ID}.image.lock"}
    unused_since(local_dir, 61)
    cache.clean()
    assert files(local_dir) == set()
    assert images.names() == []


def test_a_clock_that_was_set_back_does_not_put_it_off(local_dir: Path, cache: ImageCache, images: StoreImages) -> None:
    write(images, 1)
    images.close()
    cache.clean()
    to_come = time.time() + 10**8
    for path in (local_dir / "cleaning.lock", folder_of(local_dir) / IN_USE):
        os.utime(path, (to_come, to_come))
    cache.clean()
    for path in (local_dir / "cleaning.lock", folder_of(local_dir) / IN_USE):
        assert path.stat().st_mtime < to_come
    cache.clean(0.0)
    assert files(local_dir) == set()


def test_cleaning_touches_only_what_the_cache_has_made(tmp_path: Path, local_dir: Path, cache: ImageCache) -> None:
    with cache.store(STORE) as images:
        write(images, 1)
    folder = folder_of(local_dir)
    strangers = [local_dir / "notes", local_dir / "f" / "1.image", folder / "notes", folder / "1.image.bak"]
    for stranger in strangers:
        stranger.parent.mkdir(exist_ok=True)
        stranger.write_bytes(b"")
    (tmp_path / "1.image").write_bytes(b"")
    (local_dir / ("0" * 32)).symlink_to(tmp_path)
    unused_since(local_dir, 4000)
    cache.clean()
    assert all(path.exists() for path in strangers)
    assert (tmp_path / "1.image").exists()
    assert (local_dir / ("0" * 32)).is_symlink()
    assert not (folder / f"1_{ID}.image").exists()
    with cache.store(STORE) as images:
        write(images, 2)


def test_leftovers_of_killed_builders_are_removed_and_of_living_ones_not(
    local_dir: Path, cache: ImageCache, builder: subprocess.Popen[str]
) -> None:
    left = files(local_dir)
    assert len(left) == 2
    cache.clean(0)
    assert files(local_dir) == left
    builder.kill()
    builder.wait()
    with cache.store(STORE):
        cache.clean(0)
        assert files(local_dir) == set()


@pytest.mark.thorough
def test_stores_that_open_while_others_clean_have_their_folder(local_dir: Path) -> None:
    code = """
        for i in range(150):
            with store(sys.argv[1], i % 3) as images:
                image = images.write(i, None, image_of(rows(3, str(i))), {}, wait_seconds=60)
                assert image is not None, i
                ImageCache(sys.argv[1], 1 << 30).clean(0)
                assert rows_of(image) == rows(3, str(i))
    """
    for process in [start(code, local_dir) for _ in range(3)]:
        assert said(process) == ("", "")
