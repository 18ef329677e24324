"""Makes files of a local filesystem survive a power cut, by syncs of each file and of the folder with its name.

    a new file        the file, before it takes its name; then its folder
    a new folder      the folder above it

Without the sync of the file, its name can survive with an empty file, or one of the right length full of zeros.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

# Errors of filesystems that cannot sync a folder. Its names are then as safe as the filesystem makes them.
_CANNOT = {errno.EINVAL, errno.ENOTSUP, errno.EBADF}


def sync_folder(path: Path) -> None:
    """Syncs the names in a folder to the disk, unless the folder may not be listed or its filesystem cannot do so.

    Raises:
        OSError: the disk failed.
    """
    if os.name != "posix":  # Windows opens no folders, and NTFS logs its names
        return
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except PermissionError:  # to write a file, no right to list the folder is needed
        return
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno not in _CANNOT:
            raise
    finally:
        os.close(folder)


def make_folder(path: Path) -> None:
    """Makes a folder and the missing ones above it, and syncs their names to the disk.

    Raises:
        OSError: one of them cannot be made.
    """
    missing = [path]
    while not missing[-1].parent.exists():
        missing.append(missing[-1].parent)
    for folder in reversed(missing):
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)
