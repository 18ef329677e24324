"""What the client of libhdfs refuses before it asks libhdfs, which unit tests do without, and how long files live."""

from __future__ import annotations

import gc
import os
import weakref
from collections.abc import Callable
from contextlib import nullcontext

import pyarrow as pa
import pytest

from hdfsstore.errors import StateStoreError
from hdfsstore.fs.hdfs import libhdfs_client
from hdfsstore.fs.hdfs.client import HdfsError
from hdfsstore.fs.hdfs.libhdfs_client import LibhdfsClient, LibhdfsReadableFile, LibhdfsWritableFile
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


def test_a_forked_child_keeps_the_files_of_its_parent() -> None:
    file = LibhdfsReadableFile(pa.BufferReader(b"content"), "/file")
    there = weakref.ref(file._file)
    libhdfs_client._keep_files_of_parent()
    del file
    gc.collect()
    stream = there()
    assert stream is not None
    libhdfs_client._close(stream)


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


def test_libhdfs_is_asked_nothing_in_a_process_without_a_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libhdfs_client, "_pid_of_jvm", None)
    monkeypatch.setattr(libhdfs_client, "_works", None)
    asked = []

    def fails(*_: object, **__: object) -> None:
        asked.append(1)
        raise OSError("HDFS connection failed")

    monkeypatch.setattr(libhdfs_client, "HadoopFileSystem", fails)
    monkeypatch.setattr(libhdfs_client, "last_exception", lambda: None)
    monkeypatch.setattr(libhdfs_client, "is_ready", lambda: False)
    for _ in range(2):
        with pytest.raises(StateStoreError, match="hadoop classpath"):
            LibhdfsClient(HdfsSettings.of("host:1", {}))
    assert asked == [1]
