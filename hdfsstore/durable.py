"""What makes files of a local filesystem outlive a power cut: each is synced, and so is the folder that has its name.

    a new file        the file, before it takes its name; then its folder
    a new folder      the folder above it

A rename or link without the first can survive as an empty file, or as one of the right length full of zeros.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

# Filesystems that cannot sync a folder: what is in it is as safe as they make it.
_CANNOT = {errno.EINVAL, errno.ENOTSUP, errno.EBADF}


def sync_folder(path: Path) -> None:
    """Puts the names in a folder on the disk, unless it may not be listed or its filesystem knows no such thing.

    Raises:
        OSError: the disk fails.
    """
    if os.name != "posix":  # Windows opens no folders, and NTFS logs its names
        return
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:  # the right to write there is enough for a file
        return
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno not in _CANNOT:
            raise
    finally:
        os.close(folder)


def make_folder(path: Path) -> None:
    """Makes a folder and those above it that are missing, and puts their names on the disk.

    Raises:
        OSError: one of them cannot be made.
    """
    missing = [path]
    while not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    for folder in reversed(missing):
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)
