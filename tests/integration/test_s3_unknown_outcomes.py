"""Writes and deletions on S3 that hung or were given up, and what may be done where they may still take effect."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial

import pytest

from hdfsstore.errors import FileSystemTimeoutError
from tests.integration.s3_managers import is_deleted, is_replaced, manager, read, until
from tests.services.fault_proxy import Fault, FaultProxy
from tests.services.minio import Minio

MB = 1 << 20
SMALL = b"small" * 1000
LARGE = b"large" * (12 * MB // 5)


def test_nothing_is_written_under_a_name_whose_outcome_is_unknown(minio: Minio, proxy: FaultProxy, folder: str) -> None:
    files = manager(proxy.port, timeout_s=4)
    path = f"{folder}/a"
    proxy.plan(Fault("hang", "PUT", times=99))
    with pytest.raises(FileSystemTimeoutError):
        files.replace(path, [b"1"])
    proxy.plan()
    with pytest.raises(FileSystemTimeoutError, match="may still take effect") as caught:
        files.replace(path, [b"2"])
    assert caught.value.tries == 0
    files.replace(f"{folder}/b", [b"other names are free"])
    proxy.plan(Fault("hang", "PUT", "uploadId", times=99))
    with pytest.raises(FileSystemTimeoutError):
        files.replace(f"{folder}/b", [LARGE])
    proxy.plan()
    files.replace(f"{folder}/b", [b"parts alone have no effect"])
    until(lambda: is_replaced(files, path))
    # A try that takes a quarter of the timeout hangs: with 8 s none does on a machine that is busy.
    patient = manager(proxy.port, timeout_s=8)
    path = f"{folder}/c"
    proxy.plan(Fault("lose", "PUT", times=99))
    with pytest.raises(FileSystemTimeoutError):
        patient.replace(path, [b"landed"])
    proxy.plan()
    assert read(manager(minio.port), path) == b"landed"
    patient.replace(path, [b"at once: the other one is seen there"])


@pytest.mark.parametrize("content", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("old", [None, b"old"])
@pytest.mark.parametrize("gives_up", [False, True])
def test_a_try_that_hung_does_not_land_over_what_anybody_has_written_since(
    minio: Minio, proxy: FaultProxy, folder: str, content: bytes, old: bytes | None, *, gives_up: bool
) -> None:
    path, go_on, other = f"{folder}/a", threading.Event(), manager(minio.port)
    files = manager(proxy.port, timeout_s=4 if gives_up else 120, request_timeout_s=1)
    if old is not None:
        other.replace(path, [old])
    method, part = ("POST", "uploadId") if content is LARGE else ("PUT", "")
    # The first PUT over an old file is refused, and has it looked at.
    refused = [Fault("delay", method, part, before=bool)] if old and content is SMALL else []
    hung = Fault("delay", method, part, times=99 if gives_up else 1, before=go_on.wait)
    proxy.plan(*refused, hung)
    if gives_up:
        with pytest.raises(FileSystemTimeoutError):
            files.replace(path, [content])
    else:
        files.replace(path, [content])
        assert read(other, path) == content
        files.replace(path, [b"newer"])
    other.replace(path, [b"newest"])
    go_on.set()
    until(lambda: len(hung.statuses) == hung.met)
    assert set(hung.statuses) <= {404, 412}
    assert read(other, path) == b"newest"


def test_a_file_is_replaced_beside_others_who_write_or_delete_it(minio: Minio, proxy: FaultProxy, folder: str) -> None:
    files, other = manager(proxy.port, request_timeout_s=1), manager(minio.port)
    changes: list[Callable[[str], object]] = [
        lambda path: other.replace(path, [b"others"]),
        lambda path: other.delete([path]),
    ]
    for content in (SMALL, LARGE):
        method, part = ("POST", "uploadId") if content is LARGE else ("PUT", "")
        for number, change in enumerate(changes):
            path = f"{folder}/{len(content)}-{number}"
            other.replace(path, [b"old"])
            # It changes before the look, and between the look and the request that counts on it.
            begun = [] if part else [Fault("delay", method, part, before=bool)]
            proxy.plan(
                Fault("delay", "HEAD", before=partial(change, path)),
                *begun,
                Fault("delay", method, part, before=partial(other.replace, path, [b"others again"])),
                Fault("delay", method, part, before=partial(other.delete, [path])),
            )
            files.replace(path, [content])
            assert read(other, path) == content


def test_a_server_that_knows_no_conditions_replaces_without(proxy: FaultProxy, folder: str) -> None:
    files = manager(proxy.port, request_timeout_s=1)
    for content, method, part in ((SMALL, "PUT", ""), (LARGE, "POST", "uploadId")):
        proxy.plan(Fault("answer", method, part, status=501, code="NotImplemented"))
        files.replace(f"{folder}/a", [content])
        assert read(files, f"{folder}/a") == content


def test_a_file_is_not_deleted_while_a_try_that_hung_may_bring_it_back(
    minio: Minio, proxy: FaultProxy, folder: str
) -> None:
    files, path, go_on = manager(proxy.port, timeout_s=8, request_timeout_s=1), f"{folder}/a", threading.Event()
    hung = proxy.plan(Fault("delay", "PUT", before=go_on.wait))[0]
    files.replace(path, [b"1"])
    with pytest.raises(FileSystemTimeoutError, match="may still take effect"):
        files.delete([path])
    files.replace(path, [b"2"])
    go_on.set()
    until(lambda: is_deleted(files, path))
    assert hung.statuses == [412]
    assert manager(minio.port).list_folder(folder) == []


def test_nothing_is_written_where_a_deletion_that_hung_may_still_come(
    minio: Minio, proxy: FaultProxy, folder: str
) -> None:
    files, path, go_on = manager(proxy.port, timeout_s=8, request_timeout_s=1), f"{folder}/a", threading.Event()
    files.replace(path, [b"old"])
    hung = proxy.plan(Fault("delay", "DELETE", before=go_on.wait))[0]
    files.delete([path])
    with pytest.raises(FileSystemTimeoutError, match="may still take effect"):
        files.replace(path, [b"newer"])
    go_on.set()
    until(lambda: is_replaced(files, path))
    assert hung.statuses == [204]
    assert read(manager(minio.port), path) == b"newer"


def test_one_try_that_is_seen_tells_nothing_of_another(minio: Minio, proxy: FaultProxy, folder: str) -> None:
    files, path = manager(proxy.port, timeout_s=4, request_timeout_s=1), f"{folder}/a"
    go_on = [threading.Event() for _ in range(9)]
    waits = iter(go_on)
    proxy.plan(Fault("delay", "PUT", times=9, before=lambda: next(waits).wait()))
    with pytest.raises(FileSystemTimeoutError):
        files.replace(path, [b"old"])
    proxy.plan()
    go_on[0].set()
    plain = manager(minio.port)
    until(lambda: bool(plain.list_folder(folder)))
    with pytest.raises(FileSystemTimeoutError, match="may still take effect"):
        files.replace(path, [b"newer"])
    for each in go_on:
        each.set()
    until(lambda: is_replaced(files, path))
    assert read(plain, path) == b"newer"


def test_a_file_is_not_deleted_while_a_write_may_bring_it_back(minio: Minio, proxy: FaultProxy, folder: str) -> None:
    files, path, go_on = manager(proxy.port, timeout_s=4), f"{folder}/a", threading.Event()
    files.replace(path, [b"old"])
    proxy.plan(Fault("delay", "PUT", times=99, before=go_on.wait))
    with pytest.raises(FileSystemTimeoutError):
        files.replace(path, [b"comes late"])
    proxy.plan()
    for paths in ([path], [f"{path}2", path]):
        with pytest.raises(FileSystemTimeoutError, match="may still take effect"):
            files.delete(paths)
    go_on.set()

    until(lambda: is_deleted(files, path))
    time.sleep(0.5)
    assert manager(minio.port).list_folder(folder) == []
