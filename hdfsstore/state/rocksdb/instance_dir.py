"""Makes the local folder of a provider's RocksDBs, which is deleted with the process.

<local_dir>/rocksdb-<32 hex digits>.lock    locked while its process lives
<local_dir>/rocksdb-<32 hex digits>/<n>/    one RocksDB, or a checkpoint that is being uploaded
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import threading
import uuid
import weakref
from itertools import count
from pathlib import Path

from hdfsstore.errors import StateStoreError
from hdfsstore.state.local.folder import names_in, open_root, root_path
from hdfsstore.state.local.locks import FileLock

log = logging.getLogger("hdfsstore.state.rocksdb.instance_dir")

_NAME = re.compile(r"(rocksdb-[0-9a-f]{32})(?:\.lock)?")


class InstanceDir:
    """A folder that is deleted when nobody refers to it any more. The next process deletes that of a killed one.

    Args:
        local_dir: as StateStoreConf has it.

    Raises:
        StateStoreError: there is no local folder to which only this user can write.
    """

    def __init__(self, local_dir: str | None) -> None:
        name = f"rocksdb-{uuid.uuid4().hex}"
        try:
            root = root_path(local_dir)
            with open_root(root) as folder:
                _clean(folder, root)
                lock = FileLock.alone(folder, f"{name}.lock")
                self._path = Path(root, name)
                os.mkdir(name, 0o700, dir_fd=folder)
        except OSError as error:
            raise StateStoreError(
                f"there is no local folder for RocksDB: {error}",
                error.filename if isinstance(error.filename, str) else local_dir,
                remedy="Give a local_dir in the StateStoreConf to which only this user can write",
            ) from error
        self._numbers = count(1)
        weakref.finalize(self, _remove, self._path, lock, os.getpid())

    def path(self) -> Path:
        """A new path in it."""
        return self._path / str(next(self._numbers))

    def make(self) -> Path:
        """Makes a new folder in it."""
        path = self.path()
        try:
            path.mkdir(0o700)
        except OSError as error:
            raise StateStoreError(f"there is no room for a RocksDB: {error}", str(path)) from error
        return path


class InstanceDirs:
    """The folder of this process, made at its first use. A forked child has another one. Threads share it."""

    def __init__(self, local_dir: str | None) -> None:
        self._local_dir = local_dir
        self.after_fork()

    def after_fork(self) -> None:
        """In a forked child: the folder so far is the parent's."""
        self._folder: InstanceDir | None = None
        self._making = threading.Lock()

    def current(self) -> InstanceDir:
        """The folder."""
        with self._making:
            if self._folder is None:
                self._folder = InstanceDir(self._local_dir)
            return self._folder

    def clean(self) -> None:
        """Deletes the folders of processes that have ended."""
        path = root_path(self._local_dir)
        try:
            with open_root(path) as folder:
                _clean(folder, path)
        except OSError as error:
            log.info("%s is not cleaned: %s", path, error)

    def release(self) -> None:
        """Deletes the folder once no RocksDB is in it."""
        self._folder = None


def _clean(folder: int, root: str) -> None:
    """Deletes the folders of processes that have ended."""
    for name in {match[1] for match in map(_NAME.fullmatch, names_in(folder)) if match}:
        lock = FileLock.alone(folder, f"{name}.lock")
        if lock is not None:
            shutil.rmtree(Path(root, name), ignore_errors=True)
            lock.remove(folder)


def _remove(path: Path, lock: FileLock | None, pid: int) -> None:
    if os.getpid() != pid:  # the folder is a parent's
        return
    shutil.rmtree(path, ignore_errors=True)
    try:
        if lock is not None:
            with open_root(str(path.parent)) as folder:
                lock.remove(folder)
    except OSError as error:
        log.info("%s.lock is left to the next process: %s", path, error)
