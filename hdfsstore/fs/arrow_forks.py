"""Gives a forked child clients of its own for pyarrow's object stores.

A client keeps its connections. Were they the parent's and the child's, each of the two could get the other's answers:
another file's bytes.
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


def _after_fork() -> None:
    global _is_child, _lock, _copies
    _of_parents.append(_copies)  # unused: the end of a client might wait for threads, which are the parent's
    _is_child, _lock, _copies = True, threading.Lock(), {}


os.register_at_fork(after_in_child=_after_fork)
