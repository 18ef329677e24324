"""Locks on files, which the system takes back from a process that ends in whatever way."""

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
    """flock on a file: shared by several holders, or held by one alone.

    A forked child has the parent's descriptors. A shared lock is then held until both have let go of it, as both use
    what it stands for. An exclusive one stands for work that the child does not go on with: the child lets go at once.
    """

    _exclusive: ClassVar[set[FileLock]] = set()

    def __init__(self, name: str, fd: int) -> None:
        self._fd = fd
        self.name = name
        info = os.fstat(fd)
        self._identity = (info.st_dev, info.st_ino)

    @classmethod
    def shared(cls, folder: int, name: str, wait_seconds: float) -> FileLock | None:
        """A lock together with other holders; None where one alone keeps it for so long."""
        return cls._take(folder, name, shared=True, wait_seconds=wait_seconds)

    @classmethod
    def alone(cls, folder: int, name: str, wait_seconds: float = 0.0) -> FileLock | None:
        """The lock for this holder only; None where somebody else keeps it for so long."""
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
            lock.close()  # its last holder has removed the file since it was opened: nobody else would see this lock

    def is_in(self, folder: int) -> bool:
        """Whether the file that is locked is the one that has the name in that folder."""
        info = stat_in(folder, self.name)
        return info is not None and (info.st_dev, info.st_ino) == self._identity

    def touched(self) -> float:
        """The file's time: when it was last taken, let go of, or seen in use, in seconds since 1970."""
        return os.fstat(self._fd).st_mtime

    def touch(self) -> None:
        """Sets the file's time to now."""
        os.utime(self._fd)

    def close(self) -> None:
        """Lets go of the lock."""
        fd, self._fd = self._fd, -1
        self._exclusive.discard(self)
        if fd >= 0:
            os.close(fd)

    def remove(self, folder: int) -> None:
        """Unlinks the file, which nobody else may hold, and lets go of the lock."""
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
