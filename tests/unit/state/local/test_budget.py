"""Room for local images: none, on a disk, in memory, and in a process that may not map them."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hdfsstore.state.local import budget as module
from hdfsstore.state.local.budget import budget, is_in_memory
from hdfsstore.state.local.folder import open_root
from hdfsstore.state.local.image_cache import ImageCache
from tests.support.images import STORE, files, image_of, rows, rows_of, start

pytestmark = pytest.mark.skipif(
    not os.environ.get("CI") and sys.platform != "linux", reason="memory filesystems and RLIMIT_AS are those of Linux"
)
SHARED_MEMORY = Path("/dev/shm")


@pytest.fixture
def in_memory() -> Iterator[Path]:
    if not os.environ.get("CI") and not os.access(SHARED_MEMORY, os.W_OK):
        pytest.skip("there is no /dev/shm that can be written to")
    with tempfile.TemporaryDirectory(dir=SHARED_MEMORY) as folder:
        yield Path(folder, "images")


def test_a_folder_in_memory_is_told_from_one_on_a_disk(in_memory: Path) -> None:
    assert is_in_memory(str(in_memory.parent))
    assert not is_in_memory("/proc")


def test_in_memory_images_take_half_of_the_filesystem_at_most(
    in_memory: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "_warned", set())
    with open_root(str(in_memory)) as root, caplog.at_level(logging.WARNING):
        room = os.fstatvfs(root)
        half = room.f_blocks * room.f_frsize // 2
        assert [budget(root, most) for most in (1 << 60, 1_000)] == [half, 1_000]
    (said,) = caplog.messages
    assert f"they take up to {half} bytes of memory" in said


def test_an_image_larger_than_its_share_of_memory_is_not_written(
    in_memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = image_of(rows(1_000))
    with ImageCache(str(in_memory), 1 << 30).store(STORE) as images:
        assert images.write(1, None, image, {}) is not None
        monkeypatch.setattr("hdfsstore.state.local.image_cache.budget", lambda _root, _most: 1_000)
        assert images.write(2, None, image, {}) is None


def test_without_room_there_is_no_folder_and_no_word(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cache = ImageCache(str(tmp_path / "images"), 0)
    with caplog.at_level(logging.INFO), cache.store(STORE) as images:
        assert images.write(1, None, image_of(rows(10)), {}) is None
        assert images.names() == []
        cache.clean()
    assert caplog.messages == []
    assert not (tmp_path / "images").exists()


LIMITED = """
    import resource
    from hdfsstore.errors import AddressSpaceError
    logging.basicConfig(format="%(message)s")
    with store(sys.argv[1]) as images:
        image = image_of(rows(200_000))
        parts = sum(part.size for part in image.parts(b""))
        taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken + parts // 2, resource.RLIM_INFINITY))
        if sys.argv[2] == "write":
            print(images.write(5, "id", image, {}))
        else:
            try:
                print(images.newest([(5, "id")]))
            except AddressSpaceError as error:
                print(error)
"""


def test_an_image_that_cannot_be_mapped_is_an_error_that_names_the_conf(tmp_path: Path) -> None:
    with ImageCache(str(tmp_path), 1 << 30).store(STORE) as images:
        assert images.write(5, "id", image_of(rows(200_000)), {}) is not None
    with start(LIMITED, tmp_path, "read") as process:
        out, err = process.communicate()
    assert process.returncode == 0, err
    assert "bytes of this image of the state cannot be mapped" in out
    assert "spark.executor.pyspark.memory" in out


def test_an_image_that_is_made_and_cannot_be_mapped_stays_in_memory(tmp_path: Path) -> None:
    with start(LIMITED, tmp_path, "write") as process:
        out, err = process.communicate()
    assert (process.returncode, out) == (0, "None\n"), err
    assert "spark.executor.pyspark.memory" in err
    assert "the image stays in the memory of this process alone" in err
    assert files(tmp_path) == {"5_id.image"}
    with ImageCache(str(tmp_path), 1 << 30).store(STORE) as images:
        found = images.newest([(5, "id")])
        assert found is not None
        assert rows_of(found[0]) == rows(200_000)


BEHIND = """
    import resource
    from pathlib import Path
    from tests.support.partition import EMPTY, Partition, contents
    from tests.unit.state.hdfs.executors import commit
    logging.basicConfig(format="%(message)s")
    executors = Partition(Path(sys.argv[1]))
    last = {b"key": b"last"}
    with executors.open(min_deltas_for_snapshot=1) as writer:
        first = commit(writer, EMPTY, {b"%d" % i: bytes(100) for i in range(200_000)})
        worker = executors.open()
        if sys.argv[2] == "cached":
            worker.get_store(*first).close()
        second = commit(writer, first, last)
        writer.do_maintenance()
    [image] = executors.images()
    taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + image.stat().st_size // 2, resource.RLIM_INFINITY))
    third = commit(worker, second, {})
    with worker.get_store(*third) as store:
        print(store.metrics["numTotalStateRows"], store.get(b"key"), store.get(b"199999") == bytes(100))
"""


def test_a_cached_version_is_used_where_the_next_one_s_image_cannot_be_mapped(tmp_path: Path) -> None:
    with start(BEHIND, tmp_path, "cached") as process:
        out, err = process.communicate()
    assert out == "200001 b'last' True\n", err
    assert "cannot be mapped" in err
    assert "version 2 is built on version 1, which is in memory" in err


def test_where_none_is_cached_it_is_an_error(tmp_path: Path) -> None:
    with start(BEHIND, tmp_path, "nothing") as process:
        out, err = process.communicate()
    assert out == ""
    assert "AddressSpaceError" in err.splitlines()[-1]
