"""libhdfs: Hadoop's own client, in a JVM inside the process, through pyarrow's HadoopFileSystem.

What pyarrow and libhdfs do on their own accord, and what is done about it here:

    move deletes the target when a rename fails,          java_files.py
    for whatever reason; get_file_info says NotFound
    for any error, and times are in seconds
    delete of a missing file is an error                  the file is looked for
    the size of an open file is that of the file that     the end of the open one is looked at: after a longer
    has its name now                                      or a shorter one has come, it is opened again
    of the blocks of an open file, the first ten are      all are known when it is opened
    known; others are those of the file that has its
    name now
    a name with a character above U+FFFF becomes          it is refused
    another name, one with a zero ends there
    "Unknown error 255" for whatever Java says            libhdfs is asked for what it was (libhdfs_library.py)
    where it has no classes of Hadoop, it fails once,     it is not called again
    and then crashes
    each file has three replicas                          none are named, so that dfs.replication counts
    times in lists are in seconds                         as it is
    a forked child hangs                                  it gets a typed error
    what is dropped is closed, which may wait for a       no client is ever dropped, a file that is given up is
    server, with the interpreter's lock, and hangs in a   closed on a thread, and a forked child drops no file of
    forked child                                          its parent
    stack traces of Java on stderr                        as it is: libhdfs writes them
"""

from __future__ import annotations

import _thread
import ctypes
import os
import re
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow.fs import FileInfo, FileSelector, HadoopFileSystem

from hdfsstore.errors import StateStoreError
from hdfsstore.fs.arrow_forks import jvm_is_of_parent
from hdfsstore.fs.hdfs.client import HdfsError
from hdfsstore.fs.hdfs.java_files import JavaFiles, error_of, is_ready
from hdfsstore.fs.hdfs.libhdfs_library import last_exception
from hdfsstore.fs.hdfs.settings import HdfsSettings

if TYPE_CHECKING:
    from typing_extensions import Buffer

_NO_NAME = re.compile("[\0\ud800-\udfff\U00010000-\U0010ffff]")

_NOT_CONNECTED = "HDFS connection failed"
_TIMES_REPLACED = 10
_ALL_BLOCKS = {"dfs.client.read.prefetch.size": str(1 << 60)}

# The process that has started the JVM. There is one JVM in a process, and it does not survive a fork.
_pid_of_jvm: int | None = None
# Whether libhdfs has made a client in this process, or could not; None: it was not asked yet.
_works: bool | None = None
_starting = threading.Lock()  # until that is known
_files: weakref.WeakValueDictionary[int, LibhdfsReadableFile] = weakref.WeakValueDictionary()  # by their ids
_held: list[list[Any]] = []  # those of each fork that is under way
# By its id, what lives on when nothing else refers to it, and when the interpreter ends: that never drops this dict.
_kept: dict[int, Any] = {}
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_kept))


class LibhdfsClient:
    """An HdfsClient. It is used in the process that has made it."""

    def __init__(self, settings: HdfsSettings) -> None:
        global _pid_of_jvm, _works
        if jvm_is_of_parent() or _pid_of_jvm not in (None, os.getpid()):
            raise StateStoreError(
                "this process was forked from one that has used libhdfs, whose JVM does not survive that",
                settings.url,
                remedy="Use hdfs-native (`client` of the storage options), or HDFS in the child alone",
            )
        _pid_of_jvm = os.getpid()
        conf = {**dict(settings.conf), **_ALL_BLOCKS}
        with nullcontext() if _works else _starting:
            if _works is False:
                raise _not_started(settings.url)
            try:
                with _connecting(), _errors(settings.url):
                    self._fs = HadoopFileSystem(settings.url, 0, user=settings.user, replication=0, extra_conf=conf)
            except HdfsError:
                if _works or is_ready():
                    raise
                _works = False
                raise _not_started(settings.url) from None
            _works = True
        _keep(self._fs)
        with _connecting():
            self._java = JavaFiles(settings.url, conf, settings.user)

    def list_folder(self, folder: str) -> list[FileInfo]:
        with _errors(folder):
            infos: list[FileInfo] = self._fs.get_file_info(FileSelector(folder))
        return infos

    def info(self, path: str) -> FileInfo:
        _check_name(path)
        return self._java.info(path)

    def open(self, path: str) -> LibhdfsReadableFile:
        for _ in range(_TIMES_REPLACED):
            with _errors(path):
                file = LibhdfsReadableFile(self._fs.open_input_file(path), path)
            if file.has_its_size():
                return file
        raise HdfsError("libhdfs", "the file is replaced each time it is opened", may_pass=True)

    def create(self, path: str, *, one_replica: bool) -> LibhdfsWritableFile:  # noqa: ARG002 - Hadoop does it itself
        with _errors(path):
            return LibhdfsWritableFile(self._fs.open_output_stream(path, compression=None), path)

    def rename(self, source: str, target: str, *, overwrite: bool) -> None:
        for path in (source, target):
            _check_name(path)
        self._java.rename(source, target, overwrite=overwrite)

    def delete(self, path: str) -> None:
        try:
            with _errors(path):
                self._fs.delete_file(path)
        except (FileNotFoundError, HdfsError):
            try:
                self.info(path)
            except FileNotFoundError:
                return
            raise


class LibhdfsReadableFile:
    """A ReadableFile."""

    def __init__(self, file: pa.NativeFile, path: str) -> None:
        self._file = file
        self._path = path
        _files[id(self)] = self
        self.size: int = file.size()

    def has_its_size(self) -> bool:
        """Whether it ends there: another one may have got its name between the two requests."""
        last = max(self.size - 1, 0)
        with _errors(self._path):
            return len(self._file.read_at(2, last)) == self.size - last

    def read_range(self, offset: int, size: int) -> Buffer:
        with _errors(self._path):
            content: Buffer = self._file.read_at(size, offset)
        return content


class LibhdfsWritableFile:
    """A WritableFile."""

    _is_open = False

    def __init__(self, file: Any, path: str) -> None:
        self._file = file
        self._path = path
        _keep(file)
        self._is_open = True

    def write(self, content: bytes) -> None:
        with _errors(self._path):
            self._file.write(content)

    def close(self) -> None:
        self._is_open = False
        with _errors(self._path):
            _close(self._file)

    def __del__(self) -> None:
        # Not by hdfsstore.fs.threads: its lock may be held where the garbage is collected.
        if self._is_open and _pid_of_jvm == os.getpid():
            with suppress(RuntimeError):  # the interpreter is about to end
                _thread.start_new_thread(_close_given_up, (self._file,))


def _close(file: Any) -> None:
    """Closes a file that was kept. It may be dropped then, whatever came of it."""
    try:
        file.close()
    finally:
        _kept.pop(id(file), None)


def _close_given_up(file: Any) -> None:
    with suppress(OSError, pa.ArrowException):
        _close(file)


def _keep(of_arrow: Any) -> None:
    _kept[id(of_arrow)] = of_arrow


def _hold_files() -> None:
    """Before a fork: else the child may collect garbage before it can keep them."""
    files = [reference() for reference in _files.valuerefs()]  # other threads open files meanwhile
    _held.append([file._file for file in files if file is not None])


def _release_files() -> None:
    del _held[:1]  # the oldest: another thread that forks needs the files of its own time. None: imported meanwhile


def _keep_files_of_parent() -> None:
    _hold_files()  # other threads may have opened some since
    while _held:
        for file in _held.pop():
            _keep(file)


os.register_at_fork(before=_hold_files, after_in_parent=_release_files, after_in_child=_keep_files_of_parent)


def _not_started(url: str) -> StateStoreError:
    return StateStoreError(
        "libhdfs has started no JVM with Hadoop's classes, as it has said on stderr",
        url,
        remedy="Set CLASSPATH to what `hadoop classpath --glob` says, or to nothing, and start the process again; "
        "or use hdfs-native (`client` of the storage options)",
    )


@contextmanager
def _errors(path: str) -> Iterator[None]:
    _check_name(path)
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: there is no such file in HDFS") from None
    except PermissionError as error:
        raise HdfsError("AccessControlException", str(error), may_pass=False) from None
    except (OSError, pa.ArrowException) as error:
        # Any other error without a number is pyarrow's own: what Java said last was of an earlier call.
        is_of_java = getattr(error, "errno", None) or str(error) == _NOT_CONNECTED
        said = last_exception() if is_of_java else None
        if said is not None:
            raise error_of(said) from None
        raise HdfsError("libhdfs", str(error).partition("\n")[0], may_pass=False) from None


@contextmanager
def _connecting() -> Iterator[None]:
    """No file in HDFS is missing where Java misses one of this machine, such as that of a token."""
    try:
        yield
    except FileNotFoundError as error:
        raise HdfsError("FileNotFoundException", str(error), may_pass=False) from error


def _check_name(path: str) -> None:
    found = _NO_NAME.search(path)
    if found is not None:
        raise StateStoreError(
            f"libhdfs would take this name for another one: it has the character {found[0]!a}",
            path,
            remedy="Use hdfs-native (`client` of the storage options), or a name without characters above U+FFFF",
        )
