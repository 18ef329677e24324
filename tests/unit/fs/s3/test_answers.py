"""Answers that come from a handler of botocore in the server's place, and what stays behind after them."""

from __future__ import annotations

import gc
import io
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse

from hdfsstore.errors import StateStoreError
from hdfsstore.fs.s3.bucket import Bucket
from hdfsstore.fs.s3.failures import S3Failure
from hdfsstore.fs.s3.open import open_bucket
from hdfsstore.fs.s3.s3_files import S3FileManager
from hdfsstore.fs.s3.settings import S3Settings
from hdfsstore.fs.secret import Secret

CONTENT = bytes(range(256)) * 20
SETTINGS = S3Settings(endpoint_url="http://127.0.0.1:1", access_key=Secret("key"), secret_key=Secret("secret"))


@pytest.fixture
def no_garbage_is_collected() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def answered(headers: dict[str, str]) -> S3FileManager:
    files = open_bucket(SETTINGS, "bucket")

    def answer(request: Any, **_: object) -> AWSResponse:
        return AWSResponse(request.url, 200, {"ETag": '"1"', **headers}, io.BytesIO(CONTENT))

    files._bucket.client().meta.events.register("before-send.s3", answer)
    return files


@pytest.mark.parametrize("size", [None, len(CONTENT)])
def test_a_handler_may_answer_as_libraries_for_tests_do(size: int | None) -> None:
    file = answered({"Content-Length": str(len(CONTENT))}).open_file("bucket/a", size)
    content = bytearray(len(CONTENT) + 1)
    assert file.readinto(content) == len(CONTENT)
    assert content[:-1] == CONTENT


def test_an_answer_without_a_length_is_refused() -> None:
    with pytest.raises(StateStoreError, match="no length"):
        answered({}).open_file("bucket/a")


@pytest.mark.usefixtures("no_garbage_is_collected")
def test_a_failure_that_is_over_holds_no_buffers() -> None:
    held = []

    def fail() -> None:
        buffer = memoryview(bytearray(10))
        held.append(weakref.ref(buffer))
        raise ConnectionResetError

    for _ in range(2):
        with pytest.raises(S3Failure) as caught, open_bucket(SETTINGS, "bucket")._bucket.failures():
            fail()
        del caught
    assert [each() for each in held] == [None, None]


@pytest.mark.usefixtures("no_garbage_is_collected")
def test_a_bucket_that_nobody_uses_is_gone() -> None:
    bucket = Bucket("bucket", SETTINGS, open_bucket(SETTINGS, "bucket").requests)
    gone = weakref.ref(bucket)
    del bucket
    assert gone() is None
