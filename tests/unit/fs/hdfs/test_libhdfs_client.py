"""What the client of libhdfs refuses before it asks libhdfs, which unit tests do without, and how long files live."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import pyarrow as pa
import pytest

from hdfsstore.errors import StateStoreError
from hdfsstore.fs import arrow_forks
from hdfsstore.fs.hdfs import libhdfs_client
from hdfsstore.fs.hdfs.client import HdfsError
from hdfsstore.fs.hdfs.java_files import error_of
from hdfsstore.fs.hdfs.libhdfs_client import LibhdfsClient, LibhdfsWritableFile
from hdfsstore.fs.hdfs.settings import HdfsSettings
from tests.support.waiting import wait_until

CALLS: dict[str, Callable[[LibhdfsClient, str], object]] = {
    "list": lambda client, path: client.list_folder(path),
    "info": lambda client, path: client.info(path),
    "open": lambda client, path: client.open(path),
    "create": lambda client, path: client.create(path, one_replica=False),
    "rename from": lambda client, path: client.rename(path, "/a", overwrite=True),
    "rename to": lambda client, path: client.rename("/a", path, overwrite=True),
    "delete": lambda client, path: client.delete(path),
}


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("\U0001f986", r"'\U0001f986'"),
        ("\U00010000b", r"'\U00010000'"),
        ("a\0b", r"'\x00'"),
        ("\udcff", r"'\udcff'"),
    ],
)
@pytest.mark.parametrize("call", CALLS)
def test_a_name_that_libhdfs_takes_for_another_is_refused(call: str, name: str, shown: str) -> None:
    client = LibhdfsClient.__new__(LibhdfsClient)  # it has no JVM, so a call that goes on fails otherwise
    with pytest.raises(StateStoreError, match="hdfs-native") as caught:
        CALLS[call](client, f"/folder/{name}/file")
    assert shown in str(caught.value)


class Stream(pa.BufferOutputStream):
    """Tells how often it was closed, which fails if the test says so."""

    closings = 0
    fails = False

    def close(self) -> None:
        self.closings += 1
        if self.fails:
            raise OSError("lost")
        super().close()


def given_up(stream: Stream) -> weakref.ref[Stream]:
    LibhdfsWritableFile(stream, "/file")
    gc.collect()
    return weakref.ref(stream)


@pytest.mark.parametrize("fails", [False, True])
def test_a_file_may_be_closed_more_than_once_and_is_dropped_then(fails: bool) -> None:
    stream = Stream()
    stream.fails = fails
    file = LibhdfsWritableFile(stream, "/file")
    for _ in range(3):
        with pytest.raises(HdfsError, match="lost") if fails else nullcontext():
            file.close()
    assert stream.closings == 3
    there = weakref.ref(stream)
    del file, stream
    gc.collect()
    assert there() is None


def test_a_file_that_is_given_up_is_closed_and_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libhdfs_client, "_pid_of_jvm", os.getpid())
    there = given_up(Stream())
    wait_until(lambda: gc.collect() >= 0 and there() is None)


def test_a_file_that_a_child_gives_up_lives_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libhdfs_client, "_pid_of_jvm", os.getppid())
    there = given_up(Stream())
    gc.collect()
    stream = there()
    assert stream is not None
    assert stream.closings == 0
    libhdfs_client._close(stream)


def test_what_was_not_made_ends_without_a_word() -> None:
    LibhdfsWritableFile.__new__(LibhdfsWritableFile).__del__()


def test_other_threads_may_open_files_while_a_process_is_forked() -> None:
    script = """
import os, sys, threading
import pyarrow as pa
from hdfsstore.fs.hdfs.libhdfs_client import LibhdfsReadableFile

sys.setswitchinterval(1e-5)
forked = threading.Event()

def open_files():
    files = []
    while not forked.is_set():
        files.append(LibhdfsReadableFile(pa.BufferReader(b"content"), "/file"))
        if len(files) == 500:
            files.clear()

threads = [threading.Thread(target=open_files) for _ in range(2)]
for thread in threads:
    thread.start()
for _ in range(50):
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
forked.set()
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_forked_child_keeps_the_files_of_its_parent() -> None:
    """In a process of its own, whose children collect garbage as soon as they can."""
    script = """
import gc, os, weakref
os.register_at_fork(after_in_child=gc.collect)
import pyarrow as pa
from hdfsstore.fs.hdfs.libhdfs_client import LibhdfsReadableFile

gc.disable()
file = LibhdfsReadableFile(pa.BufferReader(b"content"), "/file")
stream = weakref.ref(file._file)
file.garbage = file
del file
child = os.fork()
if not child:
    gc.collect()
    os._exit(0 if stream() else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
gc.collect()
print(stream())
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.stderr) == ("0\nNone\n", "")


def test_a_forked_child_keeps_a_file_that_was_opened_while_its_parent_waited_to_fork() -> None:
    """By another thread. A hook takes its place here: those that were there first are called last."""
    script = """
import gc, os, weakref
streams = []
os.register_at_fork(before=lambda: open_file())
import pyarrow as pa
from hdfsstore.fs.hdfs.libhdfs_client import LibhdfsReadableFile

def open_file():
    file = LibhdfsReadableFile(pa.BufferReader(b"content"), "/file")
    streams.append(weakref.ref(file._file))
    file.garbage = file

gc.disable()
child = os.fork()
if not child:
    gc.collect()
    os._exit(0 if streams[0]() else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.stderr) == ("0\n", "")


def test_of_two_forks_at_a_time_the_one_that_ends_first_leaves_the_other_one_its_files() -> None:
    files = [libhdfs_client.LibhdfsReadableFile(pa.BufferReader(b"content"), "/file")]
    libhdfs_client._hold_files()  # of the fork that ends first
    files.append(libhdfs_client.LibhdfsReadableFile(pa.BufferReader(b"content"), "/file"))
    libhdfs_client._hold_files()
    libhdfs_client._release_files()
    there = [weakref.ref(file._file) for file in files]
    files.clear()
    gc.collect()
    assert None not in [stream() for stream in there]
    libhdfs_client._release_files()
    assert [stream() for stream in there] == [None, None]
    libhdfs_client._release_files()  # of a fork that began before this module was there


SAID = "java.io.IOException: it is so"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(255, "Unknown error 255"), "IOException: it is so"),
        (OSError("HDFS connection failed"), "IOException: it is so"),
        (OSError("'/a' is a file"), "libhdfs: '/a' is a file"),
        (pa.ArrowInvalid("no trailing slash"), "libhdfs: no trailing slash"),
    ],
    ids=["a number", "no connection", "none", "no OSError"],
)
def test_java_is_asked_only_where_an_error_is_its_own(
    monkeypatch: pytest.MonkeyPatch, error: Exception, told: str
) -> None:
    monkeypatch.setattr(libhdfs_client, "last_exception", lambda: SAID)
    with pytest.raises(HdfsError, match=f"^{told}$"), libhdfs_client._errors("/a"):
        raise error


def test_a_child_of_a_process_with_a_jvm_of_something_else_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a pair (pyarrow.fs.HadoopFileSystem, path), for instance."""
    monkeypatch.setattr(libhdfs_client, "_pid_of_jvm", None)
    monkeypatch.setattr(arrow_forks, "_jvm_is_of_parent", True)
    monkeypatch.setattr(libhdfs_client, "HadoopFileSystem", pytest.fail)
    with pytest.raises(StateStoreError, match="forked from one that has used libhdfs"):
        LibhdfsClient(HdfsSettings.of("nn:8020", {}))


@pytest.mark.parametrize("authority", ["cluster", "nn:8020", "[::1]:8020", "nn:99999", "nn:port"])
def test_java_alone_makes_sense_of_an_authority(monkeypatch: pytest.MonkeyPatch, authority: str) -> None:
    """pyarrow takes port 99999 for 34463."""
    monkeypatch.setattr(libhdfs_client, "_pid_of_jvm", None)
    monkeypatch.setattr(libhdfs_client, "_works", None)
    asked = []

    def fails(host: str, port: int, **_: object) -> None:
        asked.append((host, port))
        raise OSError("HDFS connection failed")

    monkeypatch.setattr(libhdfs_client, "HadoopFileSystem", fails)
    monkeypatch.setattr(libhdfs_client, "last_exception", lambda: SAID)
    monkeypatch.setattr(libhdfs_client, "is_ready", lambda: True)
    with pytest.raises(HdfsError, match="it is so"):
        LibhdfsClient(HdfsSettings.of(authority, {}))
    assert asked == [(f"hdfs://{authority}", 0)]


@pytest.mark.parametrize("fails_at", ["HadoopFileSystem", "JavaFiles"])
def test_a_file_that_is_missing_on_this_machine_is_no_missing_file_of_hdfs(
    monkeypatch: pytest.MonkeyPatch, fails_at: str
) -> None:
    """Else a folder would be empty."""
    monkeypatch.setattr(libhdfs_client, "_pid_of_jvm", None)
    monkeypatch.setattr(libhdfs_client, "_works", True)
    said = "java.io.FileNotFoundException: Source file /tmp/token from HADOOP_TOKEN_FILE_LOCATION not found"

    def fails(*_: object, **__: object) -> None:
        raise OSError("HDFS connection failed") if fails_at == "HadoopFileSystem" else error_of(said)

    monkeypatch.setattr(libhdfs_client, "HadoopFileSystem", lambda *_, **__: None)
    monkeypatch.setattr(libhdfs_client, fails_at, fails)
    monkeypatch.setattr(libhdfs_client, "last_exception", lambda: said)
    with pytest.raises(HdfsError, match=r"FileNotFoundException: .*HADOOP_TOKEN_FILE_LOCATION not found"):
        LibhdfsClient(HdfsSettings.of("nn:8020", {}))


def test_libhdfs_is_asked_nothing_in_a_process_without_a_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libhdfs_client, "_pid_of_jvm", None)
    monkeypatch.setattr(libhdfs_client, "_works", None)
    asked = []

    def fails(*_: object, **__: object) -> None:
        asked.append(1)
        time.sleep(0.1)  # the others come meanwhile
        raise OSError("HDFS connection failed")

    monkeypatch.setattr(libhdfs_client, "HadoopFileSystem", fails)
    monkeypatch.setattr(libhdfs_client, "last_exception", lambda: None)
    monkeypatch.setattr(libhdfs_client, "is_ready", lambda: False)

    def is_told(_: int) -> None:
        with pytest.raises(StateStoreError, match="hadoop classpath"):
            LibhdfsClient(HdfsSettings.of("host:1", {}))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(is_told, range(8)))
    assert asked == [1]
