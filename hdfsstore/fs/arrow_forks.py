"""Gives a forked child clients of its own for pyarrow's object stores, and knows which filesystems are its parent's.

A client keeps its connections. Were they the parent's and the child's, each of the two could get the other's answers:
another file's bytes. Clients of HDFS have threads, which do not survive a fork: in a child they hang. Those in Java
hang there even if they are new: there is one JVM in a process, and it is the parent's.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import threading
import weakref

from pyarrow.fs import FileSystem

_WITH_CONNECTIONS = {"abfs", "gcs", "s3"}

_is_child = False
_has_jvm = False  # when this process was last forked
_jvm_is_of_parent = False
_lock = threading.Lock()
_copies: dict[int, FileSystem] = {}  # by the id of a filesystem, as long as that lives: it has no hash
_pids: dict[int, int] = {}  # by the id of a client
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


def pid_of(client: object) -> int:
    """The process that has first asked this for the client: this one, or one that it was forked from."""
    with _lock:
        if id(client) not in _pids:
            _pids[id(client)] = os.getpid()
            weakref.finalize(client, _pids.pop, id(client), None)
        return _pids[id(client)]


def jvm_is_of_parent() -> bool:
    """Whether this process was forked from one in which libhdfs, or anything else, had started a JVM."""
    return _jvm_is_of_parent


def _find_jvm() -> None:
    global _has_jvm
    number = ctypes.c_int()
    try:
        ctypes.CDLL("libjvm.so", mode=os.RTLD_NOLOAD).JNI_GetCreatedJavaVMs(None, 0, ctypes.byref(number))
    except OSError:  # it is not loaded
        number.value = 0
    _has_jvm = number.value > 0


def _after_fork() -> None:
    global _is_child, _lock, _copies, _jvm_is_of_parent
    _of_parents.append(_copies)  # unused: the end of a client might wait for threads, which are the parent's
    _is_child, _lock, _copies, _jvm_is_of_parent = True, threading.Lock(), {}, _has_jvm


os.register_at_fork(before=_find_jvm, after_in_child=_after_fork)
