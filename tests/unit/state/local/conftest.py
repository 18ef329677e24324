"""A cache of local images, and a process that is writing one."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hdfsstore.state.local.image_cache import ImageCache, StoreImages
from tests.support.images import GIB, ID, STORE, line, start


@pytest.fixture
def local_dir(tmp_path: Path) -> Path:
    return tmp_path / "images"


@pytest.fixture
def cache(local_dir: Path) -> ImageCache:
    return ImageCache(str(local_dir), GIB)


@pytest.fixture
def images(cache: ImageCache) -> Iterator[StoreImages]:
    with cache.store(STORE) as store:
        yield store


@pytest.fixture
def builder(local_dir: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that is in the middle of writing the image of version 1, and stays there."""
    code = """
        def write_all(file, data):
            os.write(file, data[:10])
            print("writing", flush=True)
            time.sleep(1000)

        image_file.write_all = write_all
        store(sys.argv[1]).write(1, sys.argv[2], image_of(rows(100, "1")), {"query": "q"})
    """
    with start(code, local_dir, ID) as process:
        assert line(process) == "writing\n"
        yield process
        process.kill()
