"""Deletes files from the cache: the least recently used ones above its budget, those of ended queries, leftovers.

Any image or delta may be deleted at any time. A mapped file that is unlinked keeps its disk space until the last
process unmaps it. A missing image is built anew, and a missing delta is read from the checkpoint. Only names that the
cache gives are deleted.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

from hdfsstore.state.local.folder import names_in, open_folder, remove_file, stat_in
from hdfsstore.state.local.locks import FileLock

log = logging.getLogger("hdfsstore.state.local_eviction")

IN_USE = "in-use.lock"
STORE_JSON = "store.json"
IMAGE = re.compile(r"(\d+)(?:_([0-9A-Za-z-]+))?\.image")
DELTA = re.compile(r"(\d+)_([0-9A-Za-z-]+)\.delta")

_CLEANING = "cleaning.lock"
_STORE_FOLDER = re.compile(r"[0-9a-f]{32}")
_LEFTOVER = re.compile(rf"({IMAGE.pattern})\.(?:lock|[0-9a-f]{{32}}\.tmp)")
# A cleaning follows the last one after this part of the time that a folder may be unused. More often finds little.
_CLEANINGS = 60
# Seconds for which a look at the folders is trusted, and number of processes that share the room it has found.
_ROOM_SECONDS = 10.0
_ROOM_SHARERS = 8


@dataclass(frozen=True, slots=True)
class _Entry:
    in_use: bool
    used_ns: int
    folder: str
    name: str
    size: int


@dataclass(slots=True)
class _Room:
    seen: float  # on time.monotonic
    left: int


# The room that this process has found below a folder, by device, inode and budget.
_rooms: dict[tuple[int, int, int], _Room] = {}


def make_room(root: int, size: int, max_bytes: int) -> None:
    """Deletes files if another one, of `size` bytes, would exceed the budget.

    A look through the folders of hundreds of stores takes longer than the write of a small image. Its result is
    therefore used for some seconds, and for a part of the room only, as other processes write, too.
    """
    info = os.fstat(root)
    key = info.st_dev, info.st_ino, max_bytes
    room, now = _rooms.get(key), time.monotonic()
    if room is None or now - room.seen > _ROOM_SECONDS or size > room.left:
        taken = evict(root, max_bytes - size)
        _rooms[key] = _Room(now, (max_bytes - size - taken) // _ROOM_SHARERS)
    else:
        room.left -= size


def evict(root: int, max_bytes: int) -> int:
    """Deletes images and deltas until all files take at most `max_bytes`. Returns the bytes that are left.

    Those of folders that nobody uses go first, then the least recently used ones.
    """
    entries = [entry for name in _store_folders(root) for entry in _entries(root, name)]
    taken = sum(entry.size for entry in entries)
    for entry in sorted(filter(_may_go, entries), key=lambda e: (e.in_use, e.used_ns)):
        if taken <= max_bytes:
            break
        with _entered(root, entry.folder) as folder:
            if folder is not None and remove_file(folder, entry.name):
                taken -= entry.size
    return taken


def _may_go(entry: _Entry) -> bool:
    return bool(IMAGE.fullmatch(entry.name) or DELTA.fullmatch(entry.name))


def clean(root: int, unused_seconds: float, max_bytes: int) -> None:
    """Deletes folders that nobody has used for so long, leftovers of killed builders, and files above `max_bytes`.

    One process does it at a time, and again after a 60th of that time at the earliest. Other calls return at once.
    """
    last = stat_in(root, _CLEANING)
    # A time in the future was set before the clock was set back.
    if last is not None and 0 <= time.time() - last.st_mtime < unused_seconds / _CLEANINGS:
        return
    lock = FileLock.alone(root, _CLEANING)
    if lock is None:
        return
    try:
        lock.touch()
        for name in _store_folders(root):
            _clean_folder(root, name, unused_seconds)
        evict(root, max_bytes)
    finally:
        lock.close()


def remove_leftovers(folder: int, image: str, names: list[str]) -> None:
    """Deletes the temporary files of an image's earlier builders. The caller holds its builder's lock."""
    for name in names:
        match = _LEFTOVER.fullmatch(name)
        if match and match[1] == image and not name.endswith(".lock"):
            remove_file(folder, name)


def _clean_folder(root: int, name: str, unused_seconds: float) -> None:
    with _entered(root, name) as folder:
        if folder is None:
            return
        names = names_in(folder)
        for image in {match[1] for match in map(_LEFTOVER.fullmatch, names) if match}:
            builder = FileLock.alone(folder, f"{image}.lock")
            if builder is not None:
                remove_leftovers(folder, image, names)
                builder.remove(folder)
        lock = FileLock.alone(folder, IN_USE)
        if lock is None:
            # The folder is in use: note the time, so that its images are kept for that long after its process ends.
            os.utime(IN_USE, dir_fd=folder, follow_symlinks=False)
            return
        try:
            unused = time.time() - lock.touched()
            if unused < 0:  # the clock was set back
                lock.touch()
            elif unused >= unused_seconds:
                _delete_folder(root, name, folder, lock)
        finally:
            lock.close()


def _delete_folder(root: int, name: str, folder: int, lock: FileLock) -> None:
    for own in names_in(folder):
        if IMAGE.fullmatch(own) or DELTA.fullmatch(own) or own == STORE_JSON:
            remove_file(folder, own)
    lock.remove(folder)
    try:
        os.rmdir(name, dir_fd=root)
    except OSError as error:
        # Another process has opened the folder meanwhile and made a new lock, or the folder has files of others.
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
            raise


def _store_folders(root: int) -> list[str]:
    return [name for name in names_in(root) if _STORE_FOLDER.fullmatch(name)]


def _entries(root: int, name: str) -> Iterator[_Entry]:
    # The process that cleans may delete the folder at any moment: then it takes no bytes.
    with suppress(FileNotFoundError), _entered(root, name) as folder:
        if folder is None:
            return
        lock = FileLock.alone(folder, IN_USE)
        in_use = lock is None
        if lock is not None:
            lock.close()
        for own in names_in(folder):
            info = stat_in(folder, own)
            if info is not None and stat.S_ISREG(info.st_mode):
                yield _Entry(in_use, info.st_mtime_ns, name, own, info.st_size)


@contextmanager
def _entered(root: int, name: str) -> Iterator[int | None]:
    """Opens the folder of a store; None if it was just deleted, or if the cache has not made it."""
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(open_folder(root, name))
        except OSError as error:
            log.info("%s in the cache of images is passed over: %s", name, error)
            folder = None
        yield folder
