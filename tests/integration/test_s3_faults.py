"""The FileManager of S3 while its server, or the way there, fails: success after retries, or a typed error in time."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from hdfsstore.errors import FileSystemTimeoutError, StateStoreError
from hdfsstore.fs.s3.open import open_bucket
from hdfsstore.fs.s3.s3_files import S3FileManager
from hdfsstore.fs.secret import Secret
from tests.integration.giving_up import check_that_it_ends
from tests.integration.s3_managers import BUCKET, is_replaced, manager, read, settings, until
from tests.services import minio as service
from tests.services.fault_proxy import Fault, FaultProxy
from tests.services.fixtures import running
from tests.services.minio import Minio
from tests.support.crowd import crowd

MB = 1 << 20
SMALL = b"small" * 1000
LARGE = b"large" * (12 * MB // 5)
SLACK_S = 30  # far below the usual timeout


@pytest.fixture
def files(proxy: FaultProxy) -> S3FileManager:
    return manager(proxy.port, request_timeout_s=1)


def uploads(files: S3FileManager, path: str) -> list[str]:
    client = files._bucket.client()
    key = path.partition("/")[2]
    return [each["UploadId"] for each in client.list_multipart_uploads(Bucket=BUCKET, Prefix=key).get("Uploads", ())]


PASSING = [
    Fault("answer", times=3),
    Fault("answer", status=500, code="InternalError"),
    Fault("answer", status=409, code="OperationAborted"),
    Fault("answer", status=429, code="TooManyRequests"),
    Fault("answer", status=400, code="RequestTimeout"),
    Fault("reset", times=2),
    Fault("lose", times=2),
    Fault("hang"),
]


@pytest.mark.parametrize("fault", PASSING, ids=lambda fault: f"{fault.kind}-{fault.code}")
def test_what_passes_is_met_by_retries(files: S3FileManager, proxy: FaultProxy, folder: str, fault: Fault) -> None:
    def with_fault(method: str = "", part: str = "") -> None:
        proxy.plan(replace(fault, method=method, part=part))

    with_fault("PUT")
    files.create(f"{folder}/created", [SMALL])
    with_fault("PUT")
    files.replace(f"{folder}/replaced", [SMALL])
    for method, part in (("POST", "uploads"), ("PUT", "uploadId"), ("POST", "uploadId")):
        with_fault(method, part)
        files.create(f"{folder}/large{method}{part}", [LARGE])
        with_fault(method, part)
        files.replace(f"{folder}/replaced", [LARGE])
    with_fault("GET")
    assert read(files, f"{folder}/created") == SMALL
    with_fault("GET")
    assert read(files, f"{folder}/replaced") == LARGE
    with_fault("GET", "list-type")
    assert len(files.list_folder(folder)) == 5
    with_fault("GET", "max-keys=1")
    assert files.file_infos([f"{folder}/replaced"])[0].size == len(LARGE)
    with_fault("POST", "delete")
    files.delete([f"{folder}/created", f"{folder}/largePOSTuploads"])
    assert len(files.list_folder(folder)) == 3
    assert files.requests.snapshot().retries >= 12


@pytest.mark.parametrize("keep", [0, 1000, MB - 1])
def test_an_answer_that_is_cut_is_read_on(files: S3FileManager, proxy: FaultProxy, folder: str, keep: int) -> None:
    content = os.urandom(20 * MB)
    files.replace(f"{folder}/a", [content])
    proxy.plan(Fault("cut", "GET", times=3, keep=keep))
    assert read(files, f"{folder}/a") == content
    proxy.plan(Fault("cut", "GET", "list-type", keep=keep // 10))
    assert len(files.list_folder(folder)) == 1
    proxy.plan(*(Fault("cut", "POST", part, keep=keep // 10) for part in ("uploads", "uploadId", "delete")))
    files.create(f"{folder}/b", [LARGE])
    files.delete([f"{folder}/a", f"{folder}/b"])
    assert files.list_folder(folder) == []


@pytest.mark.parametrize("keep", [0, 10, 17, *range(20, 700, 120)])
def test_an_answer_that_is_cut_in_its_headers_is_none(
    files: S3FileManager, proxy: FaultProxy, folder: str, keep: int
) -> None:
    def cut(method: str, part: str = "") -> Fault:
        return proxy.plan(Fault("cut head", method, part, times=2, keep=keep))[0]

    of_put = cut("PUT")
    files.create(f"{folder}/a", [SMALL])
    assert of_put.met == 2
    for method in ("PUT", "HEAD"):
        cut(method)
        with pytest.raises(FileExistsError):
            files.create(f"{folder}/a", [b"another's"])
    cut("GET", "list-type")
    assert [info.size for info in files.list_folder(folder)] == [len(SMALL)]
    cut("GET", "max-keys=1")
    assert files.file_infos([f"{folder}/a"])[0].size == len(SMALL)
    cut("GET")
    assert read(files, f"{folder}/a") == SMALL
    cut("POST", "delete")
    files.delete([f"{folder}/a"])
    assert files.list_folder(folder) == []


@pytest.mark.parametrize("known", [None, 20 * MB])
def test_a_stream_that_is_cut_is_read_on(
    files: S3FileManager, proxy: FaultProxy, folder: str, known: int | None
) -> None:
    content = os.urandom(20 * MB)
    files.write_unique(f"{folder}/a", [content])
    proxy.plan(*(Fault("cut", "GET", keep=keep) for keep in (1000, MB - 1, 3 * MB, 5 * MB + 1)))
    with crowd():
        assert read(files, f"{folder}/a", known) == content
    proxy.plan(Fault("cut", "GET", keep=3 * MB), Fault("answer", "GET", times=3), Fault("reset", "GET"))
    with crowd():
        assert read(files, f"{folder}/a", known) == content


def test_a_process_that_has_given_up_on_a_frozen_server_ends(own_minio: Minio, folder: str) -> None:
    check_that_it_ends(own_minio.process, f"s3://{folder}", own_minio.storage_options())


def test_a_server_that_freezes_in_a_stream_is_a_typed_error_in_time(own_minio: Minio, folder: str) -> None:
    files = manager(own_minio.port, timeout_s=4)
    files.write_unique(f"{folder}/a", [bytes(60 * MB)])
    with crowd():
        file = files.open_file(f"{folder}/a", 60 * MB)
        file.readinto(bytearray(2 * MB))
        own_minio.process.freeze()
        try:
            began = time.monotonic()
            with pytest.raises(FileSystemTimeoutError) as caught:
                file.readinto(bytearray(58 * MB))
            assert time.monotonic() - began < 4 + SLACK_S
            assert caught.value.path == f"s3://{folder}/a"
        finally:
            own_minio.process.thaw()
        file.rewind()
        assert file.readinto(bytearray(60 * MB)) == 60 * MB
        file.close()


def test_an_object_that_changes_behind_a_cut_answer_is_not_mixed(
    files: S3FileManager, minio: Minio, proxy: FaultProxy, folder: str
) -> None:
    files.replace(f"{folder}/a", [b"1" * 1000])
    other = manager(minio.port)
    proxy.plan(
        Fault("cut", "GET", keep=500),
        Fault("delay", "GET", before=lambda: other.replace(f"{folder}/a", [b"2" * 1000])),
    )
    with pytest.raises(StateStoreError, match="replaced while it was read"):
        read(files, f"{folder}/a")
    assert read(files, f"{folder}/a") == b"2" * 1000


def test_a_lost_answer_is_told_from_a_lost_race(
    files: S3FileManager, minio: Minio, proxy: FaultProxy, folder: str
) -> None:
    for size in (1000, 6 * MB):
        part = "uploadId" if size > MB else ""
        method = "POST" if size > MB else "PUT"
        proxy.plan(Fault("lose", method, part))
        files.create(f"{folder}/ours{size}", [b"1" * size])
        assert read(files, f"{folder}/ours{size}") == b"1" * size
        other = manager(minio.port)
        path = f"{folder}/theirs{size}"
        create = partial(other.create, path, [b"2"])
        proxy.plan(Fault("reset", method, part), Fault("delay", method, part, before=create))
        with pytest.raises(FileExistsError):
            files.create(path, [b"1" * size])
        assert read(files, path) == b"2"
        assert uploads(files, path) == []


def test_a_conflict_of_conditional_writers_is_tried_again(files: S3FileManager, proxy: FaultProxy, folder: str) -> None:
    proxy.plan(Fault("answer", "PUT", times=2, status=409, code="ConditionalRequestConflict"))
    files.create(f"{folder}/a", [SMALL])
    assert read(files, f"{folder}/a") == SMALL


def test_an_upload_that_the_server_gave_up_is_a_lost_race_or_a_typed_error(
    files: S3FileManager, minio: Minio, proxy: FaultProxy, folder: str
) -> None:
    gone = Fault("answer", "POST", "uploadId", status=404, code="NoSuchUpload")
    proxy.plan(gone)
    with pytest.raises(StateStoreError, match="NoSuchUpload"):
        files.create(f"{folder}/a", [LARGE])
    manager(minio.port).create(f"{folder}/b", [SMALL])
    proxy.plan(replace(gone))
    with pytest.raises(FileExistsError):
        files.create(f"{folder}/b", [LARGE])
    assert uploads(files, f"{folder}/a") == uploads(files, f"{folder}/b") == []


@pytest.mark.parametrize("code", ["AccessDenied", "XMinioStorageFull"])
def test_an_upload_that_fails_is_aborted_and_leaves_the_old_file(
    files: S3FileManager, proxy: FaultProxy, folder: str, code: str
) -> None:
    files.replace(f"{folder}/a", [SMALL])
    status = 403 if code == "AccessDenied" else 507
    for method in ("PUT", "POST"):
        proxy.plan(Fault("answer", method, "uploadId", status=status, code=code))
        with pytest.raises(StateStoreError, match=f"{status} {code}: as planned \\(request PLANNED\\)") as caught:
            files.replace(f"{folder}/a", [LARGE])
        assert caught.value.path == f"s3://{folder}/a"
        assert caught.value.remedy
        until(lambda: uploads(files, f"{folder}/a") == [])
    assert read(files, f"{folder}/a") == SMALL


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_upload_is_aborted(files: S3FileManager, proxy: FaultProxy, folder: str) -> None:
    main = threading.main_thread().ident
    assert main is not None
    begun = threading.Event()
    go_on = threading.Event()

    def interrupt() -> None:
        begun.wait()
        signal.pthread_kill(main, signal.SIGINT)
        go_on.wait()

    proxy.plan(Fault("delay", "PUT", "uploadId", times=2, before=lambda: (begun.set(), go_on.wait())))
    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        files.create(f"{folder}/a", [LARGE])
    go_on.set()  # the parts that were on the way arrive after the abort
    until(lambda: uploads(files, f"{folder}/a") == [])
    assert files.list_folder(folder) == []


@pytest.fixture
def own_minio(tmp_path: Path) -> Iterator[Minio]:
    """A server that a test may freeze, or fill."""
    with running(lambda: Minio(tmp_path)) as server:
        server.create_bucket(BUCKET)
        yield server


CALLS: list[tuple[str, Callable[[S3FileManager, str], object]]] = [
    ("create", lambda files, path: files.create(f"{path}-new", [SMALL])),
    ("replace", lambda files, path: files.replace(path, [SMALL])),
    ("create large", lambda files, path: files.create(f"{path}-large", [LARGE])),
    ("open", lambda files, path: files.open_file(path)),
    ("list", lambda files, path: files.list_folder(path)),
    ("info", lambda files, path: files.file_infos([path, f"{path}2"])),
    ("delete", lambda files, path: files.delete([path, f"{path}2"])),
]


def test_a_frozen_server_is_a_typed_error_in_time_and_nothing_lands_later_over_a_newer_file(
    own_minio: Minio, folder: str
) -> None:
    files = manager(own_minio.port, timeout_s=4)
    files.replace(f"{folder}/a", [b"old"])
    own_minio.process.freeze()
    try:
        for name, call in CALLS:
            began = time.monotonic()
            with pytest.raises(FileSystemTimeoutError) as caught:
                call(files, f"{folder}/a")
            assert time.monotonic() - began < 4 + SLACK_S, name
            assert str(caught.value).startswith(f"s3://{folder}"), name
    finally:
        own_minio.process.thaw()
    # The server has what was given up: it replaces and deletes now.
    until(lambda: is_replaced(files, f"{folder}/a"))
    assert read(files, f"{folder}/a") == b"newer"
    until(lambda: is_replaced(files, f"{folder}/a2"))
    assert [info.base_name for info in files.list_folder(folder) if len(info.base_name) < 3] == ["a", "a2"]


@pytest.mark.parametrize(("name", "call"), CALLS)
def test_an_answer_that_trickles_in_is_a_typed_error_in_time(
    minio: Minio, proxy: FaultProxy, folder: str, name: str, call: Callable[[S3FileManager, str], object]
) -> None:
    files = manager(proxy.port, timeout_s=2)
    proxy.plan(Fault("trickle", times=99))
    began = time.monotonic()
    with pytest.raises(FileSystemTimeoutError):
        call(files, f"{folder}/a")
    assert time.monotonic() - began < 2 + SLACK_S, name
    assert [info.base_name for info in manager(minio.port).list_folder(folder)] in ([], ["a"], ["a-new"])


def test_a_server_that_is_gone_for_a_while_is_waited_for(minio: Minio, folder: str) -> None:
    files = manager(minio.port)
    files.replace(f"{folder}/a", [SMALL])
    minio.stop()
    back = threading.Timer(1, minio.start)
    back.start()
    try:
        assert read(files, f"{folder}/a") == SMALL
        files.create(f"{folder}/b", [SMALL])
    finally:
        back.join()


def test_a_host_without_an_address_is_an_error_at_once() -> None:
    files = open_bucket(settings(1, endpoint_url="http://no-such-host.invalid"), BUCKET)
    began = time.monotonic()
    with pytest.raises(StateStoreError):
        files.list_folder(f"{BUCKET}/a")
    assert time.monotonic() - began < 60


@pytest.mark.parametrize(
    ("change", "said", "remedy"),
    [
        ({"secret_key": Secret("wrong-secret-key")}, "403 SignatureDoesNotMatch", "secret key that belongs"),
        ({"access_key": Secret("wrong-access-key")}, "403 InvalidAccessKeyId", "access key that this server knows"),
        ({"session_token": Secret("wrong-token")}, "InvalidTokenId|InvalidToken|403", ""),
        ({"anonymous": True}, "AccessDenied", "s3:"),
        ({"access_key": None, "secret_key": None, "profile": "hdfsstore-no-such"}, "profile", "profile"),
    ],
)
def test_wrong_credentials_are_named_and_never_shown(
    minio: Minio, caplog: pytest.LogCaptureFixture, folder: str, change: dict[str, object], said: str, remedy: str
) -> None:
    caplog.set_level(logging.INFO)
    chosen = settings(minio.port, **change)
    for _, call in CALLS:
        with pytest.raises(StateStoreError, match=said) as caught:
            call(open_bucket(chosen, BUCKET), f"{folder}/a")
        assert remedy in str(caught.value)
        assert not isinstance(caught.value, FileSystemTimeoutError)
        text = "".join(traceback.format_exception(caught.value)) + caplog.text
        hidden = set(chosen.secrets()) - {service.USER}  # which is the package's name, too
        assert not [secret for secret in hidden if secret in text]


def test_expired_credentials_are_named(files: S3FileManager, proxy: FaultProxy, folder: str) -> None:
    proxy.plan(Fault("answer", times=99, status=400, code="ExpiredToken"))
    for _, call in CALLS:
        with pytest.raises(StateStoreError, match=r"400 ExpiredToken: as planned.*Get new credentials"):
            call(files, f"{folder}/a")


def test_the_password_of_a_proxy_is_not_shown(folder: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    chosen = settings(1, proxy_url=Secret(f"http://user:the-password@127.0.0.1:{port}"), timeout_s=1)
    with pytest.raises(FileSystemTimeoutError, match=rf"by the proxy 127\.0\.0\.1:{port}\.") as caught:
        open_bucket(chosen, BUCKET).list_folder(folder)
    assert "the-password" not in "".join(traceback.format_exception(caught.value))


def test_a_missing_bucket_is_named(minio: Minio) -> None:
    files = open_bucket(settings(minio.port), "no-such-bucket")
    calls: list[Callable[[], object]] = [
        lambda: files.open_file("no-such-bucket/a"),
        lambda: files.list_folder("no-such-bucket/a"),
        lambda: files.create("no-such-bucket/a", [SMALL]),
        lambda: files.delete(["no-such-bucket/a"]),
        lambda: files.delete(["no-such-bucket/a", "no-such-bucket/b"]),
    ]
    for call in calls:
        with pytest.raises(StateStoreError, match=r"NoSuchBucket.*Create the bucket"):
            call()
