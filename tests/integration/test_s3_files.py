"""The FileManager of S3 on a real MinIO: what it promises, and what it asks for that."""

from __future__ import annotations

import json
import logging
import os
import random
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import pytest
from pyarrow.fs import FileType

from hdfsstore.errors import FileChangedError, StateStoreError
from hdfsstore.fs.location import resolve
from hdfsstore.fs.s3 import writing
from hdfsstore.fs.s3.leftovers import abort_leftovers
from hdfsstore.fs.s3.s3_files import S3FileManager
from tests.integration.s3_managers import BUCKET, bare_client, manager, read
from tests.services.fault_proxy import Fault, FaultProxy
from tests.services.minio import Minio
from tests.support.crowd import crowd

MB = 1 << 20


@pytest.fixture
def files(proxy: FaultProxy) -> S3FileManager:
    return manager(proxy.port)


def kinds(proxy: FaultProxy) -> list[str]:
    """The requests since the last call, as `PUT`, `GET ?uploads`, ..."""
    return [
        method + (f" ?{target.partition('?')[2].split('=')[0]}" if "?" in target else "")
        for method, target in proxy.take()
    ]


def uploads(files: S3FileManager, path: str) -> list[str]:
    """The unfinished uploads of a file. MinIO lists them by the whole key only."""
    client = files._bucket.client()
    key = path.partition("/")[2]
    return [each["UploadId"] for each in client.list_multipart_uploads(Bucket=BUCKET, Prefix=key).get("Uploads", ())]


@pytest.mark.parametrize("size", [0, 1, 200_000, 5 * MB])
@pytest.mark.parametrize("method", ["create", "replace", "write_unique"])
def test_a_file_of_5_mb_is_one_put_and_one_get(
    files: S3FileManager, proxy: FaultProxy, folder: str, size: int, method: str
) -> None:
    content = random.Random(size).randbytes(size)
    getattr(files, method)(f"{folder}/a", [content[: size // 3], memoryview(content)[size // 3 :]])
    assert kinds(proxy) == ["PUT"]
    assert read(files, f"{folder}/a", size) == content
    assert kinds(proxy) == ["GET"]


@pytest.mark.parametrize("size", [5 * MB + 1, 10 * MB, 31 * MB + 7])
@pytest.mark.parametrize("method", ["create", "replace", "write_unique"])
def test_a_larger_file_goes_and_comes_in_parts(
    files: S3FileManager, proxy: FaultProxy, folder: str, size: int, method: str
) -> None:
    content = random.Random(size).randbytes(size)
    getattr(files, method)(f"{folder}/a", [content])
    parts = -(-size // (5 * MB))
    look = ["HEAD"] if method == "replace" else []
    assert kinds(proxy) == ["POST ?uploads", *["PUT ?uploadId"] * parts, *look, "POST ?uploadId"]
    for known in (None, size):
        assert read(files, f"{folder}/a", known) == content
    [info] = files.file_infos([f"{folder}/a"])
    assert info.size == size


def test_one_of_many_files_that_are_read_together_comes_by_one_answer(
    files: S3FileManager, proxy: FaultProxy, folder: str
) -> None:
    size = 31 * MB + 7
    content = random.Random(size).randbytes(size)
    files.write_unique(f"{folder}/a", [content])
    proxy.take()
    with crowd():
        assert read(files, f"{folder}/a", size) == content
        assert kinds(proxy) == ["GET"]
        assert read(files, f"{folder}/a") == content
        assert kinds(proxy) == ["GET", "GET"]
        assert read(files, f"{folder}/a", 20 * MB) == content  # it has grown since it was listed
        assert read(files, f"{folder}/a", size + MB) == content
    assert files.requests.snapshot().bytes_read >= 4 * size


@pytest.mark.parametrize("path_style", [False, True])
@pytest.mark.parametrize("secure", [False, True])
def test_a_bucket_may_have_dots_in_its_name(request: pytest.FixtureRequest, path_style: bool, secure: bool) -> None:
    server: Minio = request.getfixturevalue("secure_minio" if secure else "minio")
    bucket = f"my.data.{uuid.uuid4()}"
    bare_client(server).create_bucket(Bucket=bucket)
    options = {**server.storage_options(), "fs.s3a.path.style.access": str(path_style)}
    if server.ca_file is not None:
        options["aws_ca_bundle"] = str(server.ca_file)
    files, path = resolve(f"s3a://{bucket}/a +%20ü/b", options)
    files.create(f"{path}/1", [b"content"])
    assert [info.path for info in files.list_folder(path)] == [f"{bucket}/a +%20ü/b/1"]
    with closing(files.open_file(f"{path}/1")) as file:
        assert bytes(file.read_at(0, 7)) == b"content"
    files.delete([f"{path}/1", f"{path}/2"])
    assert files.list_folder(path) == []


@pytest.mark.parametrize("size", [1, 6 * MB])
def test_one_who_comes_later_does_not_create(files: S3FileManager, folder: str, size: int) -> None:
    files.create(f"{folder}/a", [b"1" * size])
    with pytest.raises(FileExistsError):
        files.create(f"{folder}/a", [b"2" * size])
    assert read(files, f"{folder}/a") == b"1" * size
    assert uploads(files, f"{folder}/a") == []
    files.replace(f"{folder}/a", [b"3" * size])
    assert read(files, f"{folder}/a") == b"3" * size


def test_a_name_that_is_free_again_before_it_is_looked_at_is_not_taken_for_one_that_is_there(
    files: S3FileManager, minio: Minio, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner cleans up between our request, which is refused, and our look at who has it. Who keeps a copy before it
    deletes a file must not believe that there is one."""
    path = f"{folder}/a"
    files.create(path, [b"1"])
    holder_of = writing.holder_of

    def too_late(bucket: Any, key: str) -> Any:
        manager(minio.port).delete([path])
        return holder_of(bucket, key)

    monkeypatch.setattr(writing, "holder_of", too_late)
    with pytest.raises((OSError, StateStoreError), match=r"412|PreconditionFailed|pre-condition") as caught:
        files.create(path, [b"2"])
    assert not isinstance(caught.value, FileExistsError)
    assert files.list_folder(folder) == []


@pytest.mark.parametrize("size", [1000, 12 * MB])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_content_that_fails_publishes_nothing(
    files: S3FileManager, folder: str, size: int, error: type[BaseException]
) -> None:
    def content() -> Iterator[bytes]:
        yield b"n" * size
        raise error

    with pytest.raises(error):
        files.create(f"{folder}/new", content())
    files.replace(f"{folder}/old", [b"old"])
    with pytest.raises(error):
        files.replace(f"{folder}/old", content())
    assert [info.base_name for info in files.list_folder(folder)] == ["old"]
    assert read(files, f"{folder}/old") == b"old"
    assert uploads(files, f"{folder}/new") == uploads(files, f"{folder}/old") == []


def test_a_stream_never_mixes_two_versions(files: S3FileManager, proxy: FaultProxy, folder: str) -> None:
    files.replace(f"{folder}/a", [b"1" * (40 * MB)])
    with crowd():
        proxy.plan(Fault("cut", "GET", keep=2 * MB))
        file = files.open_file(f"{folder}/a", 40 * MB)
        files.replace(f"{folder}/a", [b"2" * (40 * MB)])
        with pytest.raises(FileChangedError):
            file.readinto(bytearray(40 * MB))
        file.close()
        assert read(files, f"{folder}/a", 40 * MB) == b"2" * (40 * MB)


def test_a_reader_never_mixes_two_versions(files: S3FileManager, folder: str) -> None:
    files.replace(f"{folder}/a", [b"1" * (40 * MB)])
    file = files.open_file(f"{folder}/a")
    first = bytearray(1000)
    file.readinto(first)
    files.replace(f"{folder}/a", [b"2" * (40 * MB)])
    content = bytearray(64 * MB)
    with pytest.raises(FileChangedError) as caught:
        file.readinto(content)
    assert caught.value.path == f"s3://{folder}/a"
    file.close()
    assert read(files, f"{folder}/a") == b"2" * (40 * MB)
    file = files.open_file(f"{folder}/a")
    files.delete([f"{folder}/a"])
    with pytest.raises(FileChangedError):
        file.readinto(content)


def test_readers_beside_an_overwriting_writer_meet_whole_versions(minio: Minio, folder: str) -> None:
    files = manager(minio.port)
    files.replace(f"{folder}/a", [bytes([0]) * (9 * MB)])
    done = threading.Event()

    def write() -> None:
        for number in range(1, 20):
            files.replace(f"{folder}/a", [bytes([number % 256]) * ((8 + number % 3) * MB)])
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    met: set[bytes] = set()
    while not done.is_set():
        try:
            content = read(files, f"{folder}/a")
        except FileChangedError:
            continue
        assert len(set(content)) == 1
        met.add(content[:1])
    writer.join()
    assert met


def test_a_missing_file_is_not_found(files: S3FileManager, proxy: FaultProxy, folder: str) -> None:
    with pytest.raises(FileNotFoundError):
        files.open_file(f"{folder}/a")
    assert kinds(proxy) == ["GET"]
    assert files.list_folder(folder) == []
    assert [info.type for info in files.file_infos([f"{folder}/a", folder, BUCKET])] == [
        FileType.NotFound,
        FileType.NotFound,
        FileType.Directory,
    ]


def test_folders_are_what_names_have_in_common(files: S3FileManager, proxy: FaultProxy, folder: str) -> None:
    client = files._bucket.client()
    key = folder.partition("/")[2]
    for name in ("b/1", "b/c/2", "a", "z", "marked/", "b/", "", "old_$folder$", "beside", "é ü+%/1"):
        client.put_object(Bucket=BUCKET, Key=f"{key}/{name}", Body=b"" if name.endswith(("/", "$")) else b"12")
    proxy.take()
    found = files.list_folder(folder)
    assert [(info.base_name, info.type == FileType.Directory) for info in found] == [
        ("a", False),
        ("b", True),
        ("beside", False),
        ("marked", True),
        ("old", True),
        ("z", False),
        ("é ü+%", True),
    ]
    assert found[0].path == f"{folder}/a"
    assert found[0].size == 2
    assert [info.base_name for info in files.list_folder(f"{folder}/b")] == ["1", "c"]
    assert files.list_folder(f"{folder}/marked") == []
    assert len(proxy.take()) == 3
    infos = files.file_infos([f"{folder}/{name}" for name in ("a", "b", "marked", "be")])
    assert len(proxy.take()) == 5  # `beside` begins with `be`
    assert [info.type for info in infos] == [FileType.File, FileType.Directory, FileType.Directory, FileType.NotFound]
    assert infos[0].mtime_ns == found[0].mtime_ns


def test_a_folder_of_many_pages_is_listed_and_deleted(files: S3FileManager, proxy: FaultProxy, folder: str) -> None:
    names = [f"{number:05}" for number in range(2_345)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: files.write_unique(f"{folder}/{name}", [name.encode()]), names))
    proxy.take()
    assert [info.base_name for info in files.list_folder(folder)] == names
    assert len(proxy.take()) == 3
    files.delete([f"{folder}/{name}" for name in [*names, "missing"]])
    assert kinds(proxy) == ["POST ?delete"] * 3
    assert files.list_folder(folder) == []


def test_of_a_million_names_one_page_is_held(files: S3FileManager, proxy: FaultProxy, folder: str) -> None:
    class Names:
        """As many names as are asked for, made one by one."""

        made = 0

        def __iter__(self) -> Iterator[str]:
            for number in range(10**6):
                self.made += 1
                yield f"{folder}/{number}"

    names = Names()
    proxy.plan(Fault("answer", "POST", "delete", times=1, status=403, code="AccessDenied"))
    with pytest.raises(StateStoreError, match="AccessDenied"):
        files.delete(names)  # type: ignore[arg-type]
    assert names.made == 1000


def allow_everybody(files: S3FileManager, **actions: str) -> None:
    """Sets the policy of the bucket: actions, each with the objects that it is for."""
    statements = [
        {"Effect": "Allow", "Principal": "*", "Action": f"s3:{action}", "Resource": f"arn:aws:s3:::{objects}"}
        for action, objects in actions.items()
    ]
    policy = {"Version": "2012-10-17", "Statement": statements}
    files._bucket.client().put_bucket_policy(Bucket=BUCKET, Policy=json.dumps(policy))


def test_what_cannot_be_deleted_is_counted_and_the_rest_is_gone(
    minio: Minio, files: S3FileManager, folder: str
) -> None:
    names = ["may1", "not1", "may2", "not2", "may3"]
    for name in names:
        files.write_unique(f"{folder}/{name}", [b"1"])
    allow_everybody(files, DeleteObject=f"{folder}/may*")
    with pytest.raises(StateStoreError, match=r"and 1 more, could not be deleted.*AccessDenied.*s3:Delete") as caught:
        manager(minio.port, anonymous=True).delete([f"{folder}/{name}" for name in names])
    assert caught.value.path == f"s3://{folder}/not1"
    assert [info.base_name for info in files.list_folder(folder)] == ["not1", "not2"]


def test_a_missing_object_that_may_not_be_listed_is_told_so(
    files: S3FileManager, proxy: FaultProxy, folder: str
) -> None:
    """AWS answers so. MinIO says that it is missing."""
    proxy.plan(Fault("answer", times=99, status=403, code="AccessDenied"))
    with pytest.raises(StateStoreError, match=r"403 AccessDenied.*missing, too, unless the right s3:ListBucket"):
        files.open_file(f"{folder}/missing")
    proxy.plan(Fault("answer", "HEAD", times=99, status=403, code="AccessDenied"))
    with pytest.raises(StateStoreError, match=r"403.*missing, too, unless the right s3:ListBucket"):
        files.replace(f"{folder}/missing", [bytes(6 * MB)])


@pytest.mark.parametrize(
    ("status", "code"), [(501, "NotImplemented"), (405, "MethodNotAllowed"), (400, "MissingContentMD5")]
)
def test_a_server_without_pages_of_deletes_is_asked_for_each(
    files: S3FileManager, proxy: FaultProxy, folder: str, status: int, code: str
) -> None:
    paths = [f"{folder}/{number}" for number in range(5)]
    for path in paths[:3]:
        files.write_unique(path, [b"1"])
    proxy.take()
    proxy.plan(Fault("answer", "POST", "delete", times=99, status=status, code=code))
    files.delete(paths)
    assert kinds(proxy) == ["POST ?delete", *["DELETE"] * 5]
    assert files.list_folder(folder) == []


def test_leftovers_are_aborted_after_their_grace_by_the_servers_clock(
    files: S3FileManager, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = files._bucket.client()
    key = folder.partition("/")[2]
    client.create_multipart_upload(Bucket=BUCKET, Key=f"{key}/5.delta")
    bucket = files._bucket
    # MinIO lists the uploads of a key only, so the key stands for the folder.
    assert abort_leftovers(bucket, f"{key}/5.delta", 3600 * 10**9) == 0
    assert len(uploads(files, f"{folder}/5.delta")) == 1
    bucket._clock = (bucket.now_ns() + 3700 * 10**9, time.monotonic_ns())  # an hour later, as the server would say
    monkeypatch.setattr(bucket, "_read_clock", lambda _: None)
    assert abort_leftovers(bucket, f"{key}/5.delta", 3600 * 10**9) == 1
    assert uploads(files, f"{folder}/5.delta") == []


def test_leftovers_that_may_not_be_listed_are_no_error(
    files: S3FileManager, proxy: FaultProxy, folder: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "hdfsstore.fs.s3")
    proxy.plan(Fault("answer", "GET", "uploads", status=403, code="AccessDenied"))
    assert files.abort_unfinished(folder, 0) == 0
    assert "lifecycle rule" in caplog.text
    [(_, target)] = proxy.take()
    assert f"prefix={folder.partition('/')[2]}%2F" in target


def test_the_clock_is_the_servers(files: S3FileManager, folder: str) -> None:
    now = datetime.now(UTC).timestamp() * 1e9
    assert abs(files.now_ns(folder) - now) < 60e9
    files.replace(f"{folder}/a", [b"1"])
    [info] = files.file_infos([f"{folder}/a"])
    assert abs(files.now_ns(folder) - info.mtime_ns) < 60e9


def test_a_forked_child_reads_and_writes(files: S3FileManager, proxy: FaultProxy, folder: str) -> None:
    content = os.urandom(20 * MB)
    files.replace(f"{folder}/a", [content])
    assert read(files, f"{folder}/a") == content
    connections = proxy.connections
    child = os.fork()
    if not child:
        code = 1
        try:
            assert read(files, f"{folder}/a") == content
            files.create(f"{folder}/child", [content])
            files.replace(f"{folder}/child", [b"child"])
            assert [info.base_name for info in files.list_folder(folder)] == ["a", "child"]
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert proxy.connections > connections
    assert read(files, f"{folder}/child") == b"child"
    files.delete([f"{folder}/a", f"{folder}/child"])


def test_requests_are_counted(files: S3FileManager, proxy: FaultProxy, folder: str) -> None:
    files.write_unique(f"{folder}/a", [b"1" * 1000])
    proxy.plan(Fault("answer", "GET", times=2))
    read(files, f"{folder}/a")
    counts = files.requests.snapshot()
    assert dict(counts.requests) == {"PUT": 1, "GET": 3}
    assert (counts.retries, counts.bytes_written, counts.bytes_read) == (2, 1000, 1000)
    assert counts.ms > 0


def test_a_path_of_another_bucket_is_refused(files: S3FileManager) -> None:
    calls: list[Any] = [files.list_folder, files.open_file, lambda path: files.delete([path])]
    for call in calls:
        with pytest.raises(StateStoreError, match="no path of the bucket"):
            call("other/a")
