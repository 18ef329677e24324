"""Opens the folder of the cache on the local disk, and in it the folder of one store, which is in use from then on."""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import json
import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, ClassVar

from hdfsstore.errors import StateStoreClosedError
from hdfsstore.state.local.eviction import IN_USE, STORE_JSON
from hdfsstore.state.local.folder import create_file, open_folder, open_root, root_path, stat_in, write_all
from hdfsstore.state.local.locks import FileLock
from hdfsstore.state.store_id import StateStoreId

log = logging.getLogger("hdfsstore.state.local_images")

# Seconds for which a provider waits for another process that deletes the folder.
_CLEANER_SECONDS = 2.0
# A folder that vanishes at once is made again at most this often.
_ATTEMPTS = 10


class CacheRoot:
    """The folder of the whole cache.

    Args:
        local_dir: the folder, for this user only (mode 0700; made if it is missing); None: one of its own.
        max_bytes: of all files in it together; with 0 there is no folder.
    """

    _warned: ClassVar[set[str]] = set()

    def __init__(self, local_dir: str | None, max_bytes: int) -> None:
        self._local_dir = local_dir
        self.max_bytes = max_bytes

    @contextmanager
    def opened(self) -> Iterator[tuple[str, int]]:
        """The folder's path and file descriptor. OSError: the folder cannot be used or trusted."""
        if self.max_bytes == 0:
            raise OSError(errno.EDQUOT, "it may take 0 bytes", self._local_dir)
        path = root_path(self._local_dir)
        with open_root(path) as root:
            yield path, root

    def warn(self, error: OSError) -> None:
        """Logs why an image or delta is not there, as a warning once for each reason in a process.

        It does not if max_bytes is 0.
        """
        if self.max_bytes == 0:
            return
        where = self._local_dir or "the system's folder for temporary files"
        reason = f"{where}: {error.strerror}"
        level = logging.INFO if reason in self._warned else logging.WARNING
        self._warned.add(reason)
        # That of tempfile, which finds no folder at all, names no file.
        if isinstance(error, FileNotFoundError) and error.filename is not None:
            log.log(
                level,
                "%s: somebody has removed this folder, or one of a store in it, while it was in use: %s. Nothing is "
                "lost, and it is made again at the next use. Remove it while no process uses it",
                where,
                error,
            )
            return
        log.log(
            level,
            "%s: no local image is kept there, and stores are loaded from the checkpoint: %s. "
            "Give a local_dir with space, of this user, mode 0700, or that is yet to be made",
            where,
            error,
        )


class StoreFolder:
    """The folder of one store. Threads and forked children may share it.

    Args:
        store_id: with the place of the checkpoint's files as its root.

    Attributes:
        path: for messages.
        store_id: what the files in the folder say of their store.
    """

    def __init__(self, cache: CacheRoot, store_id: StateStoreId) -> None:
        self.cache = cache
        self.store_id: dict[str, Any] = {
            field.name: getattr(store_id, field.name) for field in dataclasses.fields(store_id) if field.compare
        }
        self._name = hashlib.sha256(json.dumps(self.store_id, sort_keys=True).encode()).hexdigest()[:32]
        self.path = self._name
        self._in_use: FileLock | None = None
        self._closed = False

    @contextmanager
    def entered(self) -> Iterator[tuple[int, int]]:
        """The cache's folder and the store's as file descriptors. The store's is in use from then on."""
        if self._closed:
            raise StateStoreClosedError("the store's images were closed", self.path)
        with ExitStack() as stack:
            for last in (*[False] * _ATTEMPTS, True):
                try:
                    path, root = stack.enter_context(self.cache.opened())
                    folder = stack.enter_context(open_folder(root, self._name, make=True))
                    self.path = f"{path}/{self._name}"
                    self._use(folder)
                    break
                except FileNotFoundError:  # deleted since it was opened
                    if last:
                        raise
            yield root, folder

    def _use(self, folder: int) -> None:
        """Takes the folder's lock.

        Raises:
            FileNotFoundError: the folder was deleted since it was opened.
            BlockingIOError: another process still deletes it.
        """
        if self._in_use is not None and self._in_use.is_in(folder):
            return
        lock = FileLock.shared(folder, IN_USE, _CLEANER_SECONDS)
        if lock is None:
            raise BlockingIOError(errno.EWOULDBLOCK, "another process still deletes the store's images")
        lock.touch()
        self._in_use = lock
        if stat_in(folder, STORE_JSON) is None:
            self._describe(folder)

    def _describe(self, folder: int) -> None:
        try:
            file = create_file(folder, STORE_JSON)
        except FileExistsError:  # another process was faster
            return
        try:
            write_all(file, memoryview(json.dumps(self.store_id, indent=1).encode()))
        finally:
            os.close(file)

    def close(self) -> None:
        """Ends the use: the files may then be deleted as those of an ended query."""
        self._closed = True
        lock, self._in_use = self._in_use, None
        if lock is not None:
            lock.close()
