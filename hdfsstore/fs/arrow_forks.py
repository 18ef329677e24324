"""Gives a forked child clients of its own for pyarrow's object stores, and knows which filesystems are its parent's.

A client keeps its connections. Were they the parent's and the child's, each of the two could get the other's answers:
another file's bytes. Clients of HDFS have threads, which do not survive a fork: in a child they hang.
"""

from __future__ import annotations

import os
import pickle
import threading
import weakref

from pyarrow.fs import FileSystem

_WITH_CONNECTIONS = {"abfs", "gcs", "s3"}

_is_child = False
_lock = threading.Lock()
_copies: dict[int, FileSystem] = {}  # by the id of a filesystem, as long as that lives: it has no hash
_pids: dict[int, int] = {}  # by the same ids
_of_parents: list[dict[int, FileSystem]] = []


def own(fs: FileSystem) -> FileSystem:
    """A filesystem that this process shares with no other: itself, or in a forked child its copy."""
    if not _is_child or fs.type_name not in _WITH_CONNECTIONS:
        return fs
    with _lock:
        copy = _copies.get(id(fs))
        if copy is None:
            copy = _copies[id(fs)] = pickle.loads(pickle.dumps(fs))
            weakref.finalize(fs, _copies.pop, id(fs), None)
        return copy


def pid_of(fs: FileSystem) -> int:
    """The process that has first asked this for the filesystem: this one, or one that it was forked from."""
    with _lock:
        if id(fs) not in _pids:
            _pids[id(fs)] = os.getpid()
            weakref.finalize(fs, _pids.pop, id(fs), None)
        return _pids[id(fs)]


def _after_fork() -> None:
    global _is_child, _lock, _copies
    _of_parents.append(_copies)  # unused: the end of a client might wait for threads, which are the parent's
    _is_child, _lock, _copies = True, threading.Lock(), {}


os.register_at_fork(after_in_child=_after_fork)
