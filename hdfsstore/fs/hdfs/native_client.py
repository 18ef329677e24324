"""hdfs-native: a client of HDFS in Rust, which needs neither a JVM nor Hadoop.

What it does on its own accord, and what is done about it here:

    its threads do not survive a fork, and a client       one client per process; none is ever dropped
    that is dropped in a child waits for them for ever
    for 3 s after a read a connection to a DataNode is    the first client of a forked child is made when they
    kept, which a forked child would share                have passed
    a read past the end of a file panics                  HdfsFileManager asks for ranges inside the file
    a file that is given up is closed when it is          its finalizer is told that it is closed
    collected, after an error with 15 s of retries
    a DataNode of a new block that does not answer is     see `one_replica` in client.py
    an error, as if it were not one of several
    settings that it does not look at                     native_conf.py
"""

from __future__ import annotations

import ctypes
import io
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version

from pyarrow.fs import FileInfo, FileType

from hdfsstore.errors import StateStoreError
from hdfsstore.fs.hdfs.client import NO_DATANODE, HdfsError
from hdfsstore.fs.hdfs.native_conf import act_as, check, client_conf, file_options
from hdfsstore.fs.hdfs.settings import HdfsSettings

try:
    import hdfs_native
except ImportError as error:
    raise StateStoreError(
        f"HDFS needs the package hdfs-native, which cannot be imported: {error}",
        remedy="Install it: pip install 'hdfsstore[hdfs]'",
    ) from error

# How hdfs-native shows an error of its own: Kind("message") or Kind("class", "message"), escaped as in Rust.
_SHOWN = re.compile(r'(?P<kind>\w+)(?:\((?:"(?P<class>[\w.$]+)", )?"?(?P<message>.*?)"?\)?)?', re.DOTALL)
_MAY_PASS = {
    "BlocksNotFound",
    "ChecksumError",
    "DataTransferError",
    "NotReplicatedYetException",
    "ObserverRetryOnActiveException",
    "RetriableException",
    "SafeModeException",
    "StandbyException",
}
_KEPT_S = 3.5
# The last read of this process, or of the one that it was forked from: its pid and time.
_last_read = (os.getpid(), -_KEPT_S)


class NativeClient:
    """An HdfsClient. It is used in the process that has made it."""

    def __init__(self, settings: HdfsSettings) -> None:
        _wait_for_connections_of_parent()
        check(settings)
        act_as(settings)
        conf = dict(settings.conf)
        self._replication, block_size, permission = file_options(conf)
        self._options = hdfs_native.WriteOptions(block_size, self._replication, permission, False, True)
        self._one_replica = hdfs_native.WriteOptions(block_size, 1, permission, False, True)
        # /dev/null: what HADOOP_CONF_DIR says is in the settings already, if it counts.
        with _errors(settings.url):
            self._client = hdfs_native.Client(settings.url, client_conf(conf), os.devnull)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._client))

    def list_folder(self, folder: str) -> list[FileInfo]:
        with _errors(folder):
            infos = [_info(status) for status in self._client.list_status(folder)]
        if len(infos) == 1 and infos[0].path == folder:
            raise HdfsError("NotADirectory", "this is a file, and not a folder", may_pass=False)
        return infos

    def info(self, path: str) -> FileInfo:
        with _errors(path):
            return _info(self._client.get_file_info(path))

    def open(self, path: str) -> NativeReadableFile:
        with _errors(path):
            file = NativeReadableFile(self._client.read(path), path)
            # hdfs-native leaves out a last block that no DataNode has reported yet. With
            # dfs.namenode.file.close.num-committed-allowed a file may be closed before.
            if file.size != self._client.get_file_info(path).length:
                raise HdfsError("IncompleteFile", "its last block is not reported yet, or is written", may_pass=True)
            return file

    def create(self, path: str, *, one_replica: bool) -> NativeWritableFile:
        with _errors(path):
            if not one_replica:
                return NativeWritableFile(self._client.create(path, self._options), path)
            if self._replication is None:
                self._replication = self._default_replication(path)
            file = self._client.create(path, self._one_replica)
            return NativeWritableFile(file, path, partial(self._client.set_replication, path, self._replication))

    def _default_replication(self, path: str) -> int:
        """What the NameNode gives to a file, as a file tells that has the path for the moment."""
        io.IOBase.close(self._client.create(path, self._options))
        replication = self._client.get_file_info(path).replication
        self._client.delete(path)
        return replication or 1

    def rename(self, source: str, target: str, *, overwrite: bool) -> None:
        with _errors(target):
            self._client.rename(source, target, overwrite)

    def delete(self, path: str) -> None:
        with _errors(path):
            self._client.delete(path)


class NativeReadableFile:
    """A ReadableFile."""

    def __init__(self, file: hdfs_native.FileReader, path: str) -> None:
        self._file = file
        self._path = path
        self.size = len(file)

    def read_range(self, offset: int, size: int) -> bytearray:
        global _last_read
        content, at = bytearray(size), 0
        try:
            with _errors(self._path):
                for packet in self._file.read_range_stream(offset, size):  # its read_range copies each byte once more
                    content[at : at + len(packet)] = packet
                    at += len(packet)
            return content
        finally:
            _last_read = os.getpid(), time.monotonic()


class NativeWritableFile:
    """A WritableFile."""

    def __init__(self, file: hdfs_native.FileWriter, path: str, at_end: Callable[[], object] = bool) -> None:
        self._file = file
        self._path = path
        self._at_end = at_end
        io.IOBase.close(file)  # nothing is closed by this but the finalizer's eyes, which else calls file.close()

    def write(self, content: bytes) -> None:
        with _errors(self._path):
            self._file.write(content)

    def close(self) -> None:
        with _errors(self._path):
            self._file.close()
            self._at_end()


def native_name() -> str:
    """The client and its release, for people."""
    return f"hdfs-native {version('hdfs-native')}"


def _info(status: hdfs_native.FileStatus) -> FileInfo:
    if status.isdir:
        return FileInfo(status.path, type=FileType.Directory, mtime_ns=status.modification_time * 1_000_000)
    return FileInfo(status.path, type=FileType.File, size=status.length, mtime_ns=status.modification_time * 1_000_000)


def _wait_for_connections_of_parent() -> None:
    pid, at = _last_read
    if pid != os.getpid():
        time.sleep(max(0.0, at + _KEPT_S - time.monotonic()))


@contextmanager
def _errors(path: str) -> Iterator[None]:
    """Gives errors their kinds, without the stack traces of Java that hdfs-native puts into them."""
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: there is no such file in HDFS") from None
    except FileExistsError:
        raise FileExistsError(f"{path}: there is such a file in HDFS already") from None
    except OSError as error:
        raise HdfsError("connection", _first_line(str(error)), may_pass=True) from None
    except NotImplementedError as error:
        raise HdfsError("UnsupportedFeature", _first_line(str(error)), may_pass=False) from None
    except RuntimeError as error:
        raise shown(str(error)) from None


def shown(text: str) -> HdfsError:
    match = _SHOWN.fullmatch(text)
    if match is None:
        return HdfsError("hdfs-native", _first_line(text), may_pass=False)
    kind = (match["class"] or match["kind"]).rpartition(".")[2]
    message = _first_line((match["message"] or "").replace("\\n", "\n").replace('\\"', '"'))
    return HdfsError(kind, message, may_pass=kind in _MAY_PASS or NO_DATANODE in message)


def _first_line(text: str) -> str:
    """Without the stack trace of Java, or the lists of DataNodes in all their details."""
    return text.partition("\n")[0].partition(": [")[0].strip()
