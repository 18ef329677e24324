"""Limits the bytes of local images. A folder in memory gets less than one on a disk."""

from __future__ import annotations

import logging
import os
from pathlib import Path

log = logging.getLogger("hdfsstore.state.local_budget")

_MEMORY = ("tmpfs", "ramfs")
# Images may take one part in so many of a memory filesystem, which is for others, too.
_SHARE = 2
_warned: set[int] = set()


def budget(folder: int, max_bytes: int) -> int:
    """The bytes that images in an open folder may take: `max_bytes`; in memory at most half of the filesystem's size.

    If the folder is in memory, a process logs one warning.
    """
    device = os.fstat(folder).st_dev
    if not _is_memory(device):
        return max_bytes
    room = os.fstatvfs(folder)
    # A ramfs has no limit of its own.
    size = room.f_blocks * room.f_frsize or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    most = min(max_bytes, size // _SHARE)
    if device not in _warned:
        _warned.add(device)
        log.warning(
            "local images lie on a memory filesystem: they take up to %d bytes of memory, which are not given back "
            "under pressure. Give a local_dir on a disk, or less room: hdfsstore.localDir, hdfsstore.localDirMaxBytes",
            most,
        )
    return most


def is_in_memory(path: str) -> bool:
    """Whether files in a folder take memory and not disk space."""
    return _is_memory(Path(path).stat().st_dev)


def _is_memory(device: int) -> bool:
    """Whether a device is a memory filesystem, by /proc/self/mountinfo: ids, device, ..., "-", type, ..."""
    number = f"{os.major(device)}:{os.minor(device)}"
    try:
        mounts = Path("/proc/self/mountinfo").read_text("utf-8", "replace").splitlines()
    except OSError:  # not Linux
        return False
    for mount in mounts:
        fields, _, rest = mount.partition(" - ")
        if fields.split(" ")[2] == number:
            return rest.split(" ")[0] in _MEMORY
    return False
