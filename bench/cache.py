"""Where the benchmarks keep what they made once, and work on."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def cache_folder() -> Path:
    """HDFSSTORE_CACHE, else ~/.cache/hdfsstore."""
    folder = Path(os.environ.get("HDFSSTORE_CACHE") or Path.home() / ".cache" / "hdfsstore")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def work_folder() -> Iterator[Path]:
    """An empty folder on the disk of the cache, removed at the end."""
    with tempfile.TemporaryDirectory(prefix="run-", dir=cache_folder(), ignore_cleanup_errors=True) as name:
        yield Path(name)
