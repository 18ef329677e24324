"""The cache of images on a local disk: written, found, shared by builders and forked children."""

from __future__ import annotations

import gc
import os
import signal
import stat
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from hdfsstore._cext.versioned_map import Image
from hdfsstore.errors import StateStoreClosedError
from hdfsstore.state.local.folder import open_folder, open_root
from hdfsstore.state.local.image_cache import ImageCache, StoreImages
from hdfsstore.state.local.locks import FileLock
from hdfsstore.state.store_id import StateStoreId
from tests.support.images import (
    ID,
    ID2,
    OTHER,
    STORE,
    files,
    find,
    folder_of,
    image_of,
    in_use,
    needs_smaps,
    resident,
    rows,
    rows_of,
    said,
    start,
    write,
)


def in_child(work: Callable[[], bool]) -> bool:
    """What the work says in a forked child."""
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(0 if work() else 1)
        finally:
            os._exit(2)
    return os.waitpid(pid, 0)[1] == 0


# What is written is found


@pytest.mark.parametrize("unique_id", [None, ID])
def test_an_image_is_found_with_what_was_noted(images: StoreImages, unique_id: str | None) -> None:
    noted = {"query": "q", "lineage": [[1, "a"], [2, "b"]], "length": 5}
    written = images.write(7, unique_id, image_of(rows(1000)), noted)
    assert written is not None
    assert rows_of(written) == rows(1000)
    found = images.newest([(7, unique_id)])
    assert found is not None
    image, metadata, version_id = found
    assert rows_of(image) == rows(1000)
    assert metadata == noted
    assert version_id == (7, unique_id)


def test_the_newest_of_the_candidates_is_found(images: StoreImages) -> None:
    for version, unique_id in ((3, ID), (9, ID2), (10, ID), (12, None)):
        write(images, version, unique_id)
    assert images.names() == [(3, ID), (9, ID2), (10, ID), (12, None)]
    found = images.newest([(8, ID), (3, ID), (9, ID), (9, ID2), (11, ID), (12, ID)])
    assert found is not None
    assert found[2] == (9, ID2)
    assert rows_of(found[0]) == rows(100, "9")
    assert images.newest([(10, ID2), (12, ID), (1, None)]) is None
    assert images.newest([]) is None


def test_all_but_those_used_last_are_dropped(local_dir: Path, images: StoreImages) -> None:
    for version in (3, 4, 5):
        images.write(version, ID, image_of(rows(10)), {})
    folder = folder_of(local_dir)
    for age, version in enumerate((3, 4)):  # the older one has been used later
        os.utime(folder / f"{version}_{ID}.image", ns=(10**18 - age, 10**18 - age))
    images.drop_others(5, ID, kept=1)
    assert images.names() == [(3, ID), (5, ID)]


def test_and_one_that_is_named(local_dir: Path, images: StoreImages) -> None:
    for version in (2, 3, 4, 5):
        write(images, version)
    folder = folder_of(local_dir)
    for version in (2, 3, 4):
        os.utime(folder / f"{version}_{ID}.image", ns=(10**18 + version, 10**18 + version))
    images.drop_others(5, ID, kept=2, first=(2, ID))
    assert images.names() == [(2, ID), (4, ID), (5, ID)]
    images.drop_others(5, ID, kept=1, first=(1, ID))
    assert images.names() == [(4, ID), (5, ID)]


def test_stores_do_not_see_each_other(cache: ImageCache, images: StoreImages) -> None:
    write(images, 1)
    named = StateStoreId(STORE.checkpoint_root, STORE.operator_id, STORE.partition_id, "left-keyToNumValues")
    elsewhere = StateStoreId(STORE.checkpoint_root + "2", STORE.operator_id, STORE.partition_id)
    for other in (OTHER, named, elsewhere):
        with cache.store(other) as its:
            assert its.names() == []
            assert find(its, 1) is None


def test_the_same_image_again_is_not_written_again(local_dir: Path, images: StoreImages) -> None:
    write(images, 1)
    [file] = local_dir.glob("*/*.image")
    before = file.stat().st_ino
    write(images, 1)
    assert file.stat().st_ino == before


def test_an_image_with_other_metadata_replaces_it_by_rename(local_dir: Path, images: StoreImages) -> None:
    old = write(images, 1, None)
    [file] = local_dir.glob("*/*.image")
    before = file.stat().st_ino
    new = images.write(1, None, image_of(rows(5, "other")), {"query": "another"})
    assert new is not None
    assert rows_of(new) == rows(5, "other")
    assert file.stat().st_ino != before
    assert rows_of(old) == rows(100, "1")  # who has mapped the old file keeps it


def test_a_dropped_image_is_gone_and_stays_mapped(images: StoreImages) -> None:
    image = write(images, 1)
    images.drop(1, ID)
    images.drop(2, ID)
    assert images.names() == []
    assert rows_of(image) == rows(100, "1")


@pytest.mark.parametrize("unique_id", ["../../x", "a/b", "", "a.b", "a\0b", "x" * 4000 + "/"])
def test_an_id_cannot_lead_out_of_the_folder(images: StoreImages, unique_id: str) -> None:
    with pytest.raises(ValueError, match="unique id"):
        images.write(1, unique_id, image_of({}), {})
    assert images.names() == []


def test_after_close_nothing_is_done(images: StoreImages) -> None:
    images.close()
    images.close()
    with pytest.raises(StateStoreClosedError):
        images.names()


# How it is written


def test_folders_are_the_owners_only_and_images_sealed(local_dir: Path, images: StoreImages) -> None:
    before = os.umask(0)
    try:
        write(images, 1)
    finally:
        os.umask(before)
    assert stat.S_IMODE(local_dir.stat().st_mode) == 0o700
    assert stat.S_IMODE(folder_of(local_dir).stat().st_mode) == 0o700
    [file] = local_dir.glob("*/*.image")
    assert stat.S_IMODE(file.stat().st_mode) == 0o400
    assert files(local_dir) == {f"1_{ID}.image"}


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="only Linux lists a process's mappings")
def test_an_image_is_mapped_shared_and_for_reading_only(local_dir: Path, images: StoreImages) -> None:
    image = write(images, 1)
    maps = [line.split() for line in Path("/proc/self/maps").read_text().splitlines() if str(local_dir) in line]
    assert [line[1] for line in maps] == ["r--s"]
    assert rows_of(image) == rows(100, "1")


@needs_smaps
def test_dropped_pages_come_again_when_they_are_read(local_dir: Path, images: StoreImages) -> None:
    image = write(images, 1, count=100_000)
    assert rows_of(image) == rows(100_000, "1")
    for _ in range(2):
        assert sum(resident(local_dir).values()) > 2_000
        image.drop_resident_pages()
        assert list(resident(local_dir).values()) == [0]
        assert rows_of(image) == rows(100_000, "1")


def test_an_image_in_memory_has_no_pages_to_drop() -> None:
    image = image_of(rows(100_000))
    image.drop_resident_pages()
    assert rows_of(image) == rows(100_000)


# One builder an image


def test_a_builder_that_is_killed_leaves_no_image(
    local_dir: Path, images: StoreImages, builder: subprocess.Popen[str]
) -> None:
    builder.kill()
    builder.wait()
    assert len(files(local_dir)) == 2  # its lock file and its temporary file
    assert find(images, 1) is None
    assert images.names() == []
    write(images, 1)  # the next builder of the image removes what the last one left
    assert files(local_dir) == {f"1_{ID}.image"}


def test_the_loser_goes_on_without(images: StoreImages, builder: subprocess.Popen[str]) -> None:
    assert builder.poll() is None
    assert images.write(1, ID, image_of(rows(100, "1")), {"query": "q"}) is None
    assert images.write(1, ID, image_of(rows(100, "1")), {"query": "q"}, wait_seconds=0.05) is None
    assert find(images, 1) is None
    write(images, 2)  # another image has a lock of its own


def test_a_waiting_loser_takes_over_from_a_killed_builder(
    local_dir: Path, images: StoreImages, builder: subprocess.Popen[str]
) -> None:
    killer = threading.Timer(0.2, builder.kill)
    killer.start()
    image = images.write(1, ID, image_of(rows(100, "1")), {"query": "q"}, wait_seconds=60)
    killer.join()
    assert image is not None
    assert rows_of(image) == rows(100, "1")
    assert files(local_dir) == {f"1_{ID}.image"}


@pytest.mark.thorough
def test_of_many_builders_one_writes_and_the_others_map_its_file(local_dir: Path, images: StoreImages) -> None:
    code = """
        with store(sys.argv[1]) as images:
            sys.stdin.readline()
            image = images.write(1, sys.argv[2], image_of(rows(20000)), {}, wait_seconds=60)
            assert rows_of(image) == rows(20000)
            print({line.split()[4] for line in open("/proc/self/maps") if sys.argv[1] in line})
    """
    processes = [start(code, local_dir, ID) for _ in range(4)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    assert len({said(process) for process in processes}) == 1  # the inode of the file that each has mapped
    assert files(local_dir) == {f"1_{ID}.image"}
    found = find(images, 1)
    assert found is not None
    assert rows_of(found) == rows(20000)


def test_threads_of_one_process_build_one_image(local_dir: Path, images: StoreImages) -> None:
    built: list[Image | None] = []
    barrier = threading.Barrier(4)

    def build() -> None:
        barrier.wait()
        built.append(images.write(1, ID, image_of(rows(5000)), {}, wait_seconds=60))

    threads = [threading.Thread(target=build) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [rows_of(image) for image in built if image is not None] == [rows(5000)] * 4
    assert files(local_dir) == {f"1_{ID}.image"}


# Forked children


def test_a_forked_child_reads_the_mapped_image_and_uses_the_cache(local_dir: Path, images: StoreImages) -> None:
    image = write(images, 1)

    def work() -> bool:
        read = rows_of(image) == rows(100, "1")
        write(images, 2)
        images.close()
        return read

    assert in_child(work)
    assert in_use(local_dir)  # the child's closing is not ours
    assert images.names() == [(1, ID), (2, ID)]
    images.close()
    assert not in_use(local_dir)


def test_a_forked_child_does_not_keep_a_builders_lock(local_dir: Path, images: StoreImages) -> None:
    write(images, 1)
    with open_root(str(local_dir)) as root, open_folder(root, folder_of(local_dir).name) as folder:
        lock = FileLock.alone(folder, "2.image.lock")
        assert lock is not None
        ours, childs = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.write(childs, b"x")
            signal.pause()
        try:
            os.read(ours, 1)
            assert FileLock.alone(folder, "2.image.lock") is None
            lock.close()  # though the child lives on
            again = FileLock.alone(folder, "2.image.lock")
            assert again is not None
            again.remove(folder)
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(ours)
            os.close(childs)


def test_a_child_keeps_the_store_in_use_after_its_parent_closed_it(local_dir: Path, images: StoreImages) -> None:
    ours, childs = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(childs, b"x")
        signal.pause()
    try:
        os.read(ours, 1)
        images.close()
        assert in_use(local_dir)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(ours)
        os.close(childs)
    assert not in_use(local_dir)


def test_no_file_stays_open(images: StoreImages) -> None:
    write(images, 1)
    gc.collect()  # else files of other tests could be closed meanwhile
    before = len(list(Path("/dev/fd").iterdir()))
    for version in range(2, 30):
        write(images, version)
        find(images, version)
        images.names()
    assert len(list(Path("/dev/fd").iterdir())) == before
