"""S3 through an HTTP proxy that asks for a user and a password. Nothing but the proxy knows where the server is."""

from __future__ import annotations

import base64
import logging
import time
import traceback
import uuid
from collections.abc import Iterator

import pytest

from hdfsstore.errors import FileSystemTimeoutError, StateStoreError
from hdfsstore.fs.location import resolve
from hdfsstore.fs.reading import read_file
from hdfsstore.fs.s3.s3_files import S3FileManager
from tests.integration.s3_managers import ROLE_ARN, bare_client
from tests.services.certificates import DOMAIN
from tests.services.http_proxy import HttpProxy
from tests.services.minio import Minio
from tests.services.places import BUCKET

USER, PASSWORD = "proxy user", "its p@ss:w/rd%"
SMALL, LARGE = b"state;" * 100, b"state;" * 1_000_000  # one PUT, and parts


@pytest.fixture
def http_proxy(minio: Minio) -> Iterator[HttpProxy]:
    with HttpProxy(minio.port, USER, PASSWORD) as running:
        yield running


@pytest.fixture
def options(minio: Minio, http_proxy: HttpProxy) -> dict[str, str]:
    return {
        **minio.storage_options(),
        "fs.s3a.endpoint": f"http://{DOMAIN}",
        **http_proxy.storage_options(),
        "timeout": "20",
    }


@pytest.mark.parametrize("path_style", [True, False])
def test_every_request_goes_through_the_proxy(
    options: dict[str, str], http_proxy: HttpProxy, caplog: pytest.LogCaptureFixture, path_style: bool
) -> None:
    caplog.set_level(logging.DEBUG)
    options["fs.s3a.path.style.access"] = str(path_style)
    folder = uuid.uuid4()
    files, path = resolve(f"s3a://{BUCKET}/{folder}", options)
    assert isinstance(files, S3FileManager)
    before = sum(files.requests.snapshot().requests.values())
    files.create(f"{path}/a", [SMALL])
    files.replace(f"{path}/b", [LARGE])
    assert read_file(files, f"{path}/a") == SMALL
    assert read_file(files, f"{path}/b") == LARGE
    assert [info.base_name for info in files.list_folder(path)] == ["a", "b"]
    files.delete([f"{path}/a", f"{path}/b"])
    assert files.list_folder(path) == []
    place = f"http://{DOMAIN}/{BUCKET}" if path_style else f"http://{BUCKET}.{DOMAIN}/"
    assert [url for _, url in http_proxy.passed if not url.startswith(place)] == []
    assert {method for method, _ in http_proxy.passed} == {"GET", "HEAD", "POST", "PUT"}
    assert len(http_proxy.passed) == sum(files.requests.snapshot().requests.values()) - before
    said = caplog.text + repr(files)
    assert "Making request" in said  # botocore's own log is in it
    assert PASSWORD not in said
    assert base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode() not in said


def test_tls_goes_through_the_proxy(secure_minio: Minio, options: dict[str, str]) -> None:
    bucket = f"proxy-{uuid.uuid4()}"
    bare_client(secure_minio).create_bucket(Bucket=bucket)
    with HttpProxy(secure_minio.port, USER, PASSWORD) as proxy:
        secure = {"aws_ca_bundle": str(secure_minio.ca_file), "fs.s3a.proxy.port": str(proxy.port)}
        files, path = resolve(f"s3a://{bucket}/a", {**options, **secure, "fs.s3a.endpoint": f"https://{DOMAIN}"})
        files.create(f"{path}/a", [LARGE])
        assert read_file(files, f"{path}/a") == LARGE
    assert set(proxy.passed) == {("CONNECT", f"{DOMAIN}:443")}


def test_a_role_is_assumed_through_the_proxy_too(options: dict[str, str], http_proxy: HttpProxy) -> None:
    role = {
        "fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.auth.AssumedRoleCredentialProvider",
        "fs.s3a.assumed.role.arn": ROLE_ARN,
        "fs.s3a.assumed.role.sts.endpoint": f"http://{DOMAIN}",
        "fs.s3a.assumed.role.sts.endpoint.region": "us-east-1",
    }
    files, path = resolve(f"s3a://{BUCKET}/{uuid.uuid4()}", {**options, **role})
    files.create(f"{path}/a", [SMALL])
    assert http_proxy.passed[0] == ("POST", f"http://{DOMAIN}/")
    assert http_proxy.passed[-1][0] == "PUT"


@pytest.mark.parametrize("wrong", [{"password": "wrong-p@ss"}, {"username": "nobody"}])
def test_a_proxy_that_refuses_the_login_is_an_error_at_once(
    options: dict[str, str], http_proxy: HttpProxy, wrong: dict[str, str]
) -> None:
    options |= {f"fs.s3a.proxy.{name}": value for name, value in wrong.items()}
    files, path = resolve(f"s3a://{BUCKET}/{uuid.uuid4()}", options)
    began = time.monotonic()
    with pytest.raises(StateStoreError, match=r"407.*fs\.s3a\.proxy\.username") as caught:
        files.create(f"{path}/a", [SMALL])
    assert not isinstance(caught.value, FileSystemTimeoutError)
    assert time.monotonic() - began < 60
    assert http_proxy.refused == 1
    assert http_proxy.passed == []
    said = "".join(traceback.format_exception(caught.value))
    assert not [each for each in (PASSWORD, "wrong-p@ss") if each in said]
