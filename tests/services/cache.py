"""Where downloads and builds are kept: HDFSSTORE_CACHE, else ~/.cache/hdfsstore."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path


def whole_folder(name: str, fill: Callable[[Path], None]) -> Path:
    """A folder of the cache; `fill` makes its contents if it is not there yet. It appears whole, or not at all."""
    root = Path(os.environ.get("HDFSSTORE_CACHE", Path.home() / ".cache" / "hdfsstore"))
    folder = root / name
    if folder.is_dir():
        return folder
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="unfinished-", dir=root) as scratch:
        made = Path(scratch) / name
        made.mkdir()
        fill(made)
        try:
            made.rename(folder)
        except OSError:
            if not folder.is_dir():  # or another run was quicker
                raise
    return folder
