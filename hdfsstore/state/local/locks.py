"""Locks files. The system releases the locks of a process that ends in any way."""

from __future__ import annotations

import os
import sys
import time
from typing import ClassVar

from hdfsstore.state.local.folder import lock_file, remove_file, stat_in

if sys.platform != "win32":
    import fcntl

_POLL_SECONDS = 0.01


class FileLock:
    """flock on a file, shared or exclusive.

    A forked child has the parent's descriptors. Both use what a shared lock protects: it is held until both have
    released it. A child does not go on with the work under an exclusive lock, and so releases it at once.
    """

    _exclusive: ClassVar[set[FileLock]] = set()

    def __init__(self, name: str, fd: int) -> None:
        self._fd = fd
        self.name = name
        info = os.fstat(fd)
        self._identity = (info.st_dev, info.st_ino)

    @classmethod
    def shared(cls, folder: int, name: str, wait_seconds: float) -> FileLock | None:
        """A shared lock; None if another holder has an exclusive one for so long."""
        return cls._take(folder, name, shared=True, wait_seconds=wait_seconds)

    @classmethod
    def alone(cls, folder: int, name: str, wait_seconds: float = 0.0) -> FileLock | None:
        """An exclusive lock; None if another holder has the lock for so long."""
        lock = cls._take(folder, name, shared=False, wait_seconds=wait_seconds)
        if lock is not None:
            cls._exclusive.add(lock)
        return lock

    @classmethod
    def _take(cls, folder: int, name: str, *, shared: bool, wait_seconds: float) -> FileLock | None:
        deadline = time.monotonic() + wait_seconds
        while True:
            lock = cls(name, lock_file(folder, name))
            try:
                fcntl.flock(lock._fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            except BlockingIOError:
                lock.close()
                if time.monotonic() >= deadline:
                    return None
                time.sleep(_POLL_SECONDS)
                continue
            if lock.is_in(folder):
                return lock
            lock.close()  # its last holder has removed the file meanwhile, so that nobody else would see this lock

    def is_in(self, folder: int) -> bool:
        """Whether the locked file still has its name in that folder."""
        info = stat_in(folder, self.name)
        return info is not None and (info.st_dev, info.st_ino) == self._identity

    def touched(self) -> float:
        """The file's time in seconds since 1970: when the lock was last taken, or seen in use."""
        return os.fstat(self._fd).st_mtime

    def touch(self) -> None:
        """Sets the file's time to now."""
        os.utime(self._fd)

    def close(self) -> None:
        """Releases the lock."""
        fd, self._fd = self._fd, -1
        self._exclusive.discard(self)
        if fd >= 0:
            os.close(fd)

    def remove(self, folder: int) -> None:
        """Unlinks the file and releases the lock, which nobody else may hold."""
        try:
            remove_file(folder, self.name)
        finally:
            self.close()

    def __del__(self) -> None:
        self.close()

    @classmethod
    def _forget(cls) -> None:
        for lock in list(cls._exclusive):
            lock.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=FileLock._forget)
