"""Which credentials botocore takes for the settings of a bucket. Nothing here connects to a server."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from hdfsstore.errors import StateStoreError
from hdfsstore.fs.location import StorageLocation, renew, resolve
from hdfsstore.fs.request_metrics import RequestMetrics
from hdfsstore.fs.s3.bucket import Bucket
from hdfsstore.fs.s3.client import keys_of as keys_of_client
from hdfsstore.fs.s3.client import make_client
from hdfsstore.fs.s3.failures import S3Failure
from hdfsstore.fs.s3.s3_files import S3FileManager
from hdfsstore.fs.s3.settings import AssumedRole, S3Settings
from hdfsstore.fs.s3_credentials import credentials
from hdfsstore.fs.secret import Secret

ENDPOINT = "http://127.0.0.1:9"


def key_of(settings: S3Settings) -> str | None:
    found = make_client(settings)._request_signer._credentials
    return None if found is None else str(found.access_key)


def keys_of(bucket: Bucket) -> tuple[str, str]:
    found = bucket.client()._request_signer._credentials.get_frozen_credentials()
    return found.access_key, found.secret_key


def test_only_the_sources_that_are_named_are_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lines = ["[default]", "aws_access_key_id=DEFAULT", "aws_secret_access_key=x"]
    lines += ["[me]", "aws_access_key_id=MINE", "aws_secret_access_key=x"]
    (tmp_path / "credentials").write_text("\n".join(lines))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ENVIRONMENT")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    file = str(tmp_path / "credentials")
    assert key_of(S3Settings(endpoint_url=ENDPOINT)) == "ENVIRONMENT"
    of_files = ("shared-credentials-file", "config-file")
    assert key_of(S3Settings(endpoint_url=ENDPOINT, credential_sources=of_files)) is None
    assert key_of(S3Settings(endpoint_url=ENDPOINT, credential_sources=of_files, credentials_file=file)) == "DEFAULT"
    assert key_of(S3Settings(endpoint_url=ENDPOINT, profile="me", credentials_file=file)) == "MINE"
    both = (*of_files, "env")
    assert key_of(S3Settings(endpoint_url=ENDPOINT, credential_sources=both, credentials_file=file)) == "DEFAULT"


@pytest.mark.parametrize("name", ["AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN"])
@pytest.mark.parametrize("arn", [None, "arn:aws:iam::123456789012:role/role"])
def test_a_key_with_a_line_break_is_an_error_that_does_not_show_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str, arn: str | None
) -> None:
    """As a file leaves it in an environment variable. Nor does botocore's log show it."""
    given = {"AWS_ACCESS_KEY_ID": "a-key", "AWS_SECRET_ACCESS_KEY": "a-secret", "AWS_SESSION_TOKEN": "a-token"}
    for each, value in {**given, name: "s3cr3t\n"}.items():
        monkeypatch.setenv(each, value)
    caplog.set_level(logging.DEBUG)
    role = AssumedRole(arn, endpoint_url=ENDPOINT, region="us-east-1") if arn else None
    files = S3FileManager(S3Settings(endpoint_url=ENDPOINT, assumed_role=role, timeout_s=1), "bucket")
    with pytest.raises(StateStoreError, match="would have a line break in it") as caught:
        files.file_infos(["bucket/key"])
    assert "s3cr3t" not in "".join(traceback.format_exception(caught.value))
    assert "s3cr3t" not in caplog.text


def test_a_token_with_a_line_break_for_the_role_of_a_profile_is_an_error_that_does_not_show_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """botocore asks for that role with a client of its own."""
    lines = ["[mine]", "aws_access_key_id=a-key", "aws_secret_access_key=a-secret", "aws_session_token=a", " s3cr3t"]
    lines += ["[role]", "role_arn=arn:aws:iam::123456789012:role/role", "source_profile=mine", "region=us-east-1"]
    (tmp_path / "credentials").write_text("\n".join(lines))
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", ENDPOINT)
    caplog.set_level(logging.DEBUG)
    settings = S3Settings(
        endpoint_url=ENDPOINT, profile="role", credentials_file=str(tmp_path / "credentials"), timeout_s=1
    )
    with pytest.raises(StateStoreError, match="would have a line break in it") as caught:
        S3FileManager(settings, "bucket").file_infos(["bucket/key"])
    assert "s3cr3t" not in "".join(traceback.format_exception(caught.value))
    assert "s3cr3t" not in caplog.text


@pytest.mark.parametrize("arn", [None, "arn:aws:iam::123456789012:role/role"])
@pytest.mark.parametrize(
    "proxy",
    [
        "http://user:s3cr3t/1@127.0.0.1:9",
        "http://user:s3cr3t#1@127.0.0.1:9",
        "http://user:1/s3cr3t@127.0.0.1:9",
        "user:s3cr3t/1@127.0.0.1:9",
        "socks5://user:s3cr3t@127.0.0.1:9",
        "HTTP://user:s3cr3t@127.0.0.1:9",
        "http://user:s3cr3t@127.0.0.1:99999",
        "http://user:s3cr3t\u2100@127.0.0.1:9",
    ],
)
def test_a_proxy_whose_url_makes_no_sense_is_an_error_that_does_not_show_its_password(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, proxy: str, arn: str | None
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a-key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-secret")
    monkeypatch.setenv("HTTP_PROXY", proxy)
    monkeypatch.setenv("NO_PROXY", "s3.invalid" if arn else "")
    role = AssumedRole(arn, endpoint_url="http://sts.invalid", region="us-east-1") if arn else None
    with pytest.raises(StateStoreError, match="%2F") as caught:
        S3FileManager(
            S3Settings(endpoint_url="http://s3.invalid", assumed_role=role, timeout_s=1), "bucket"
        ).file_infos(["bucket/key"])
    assert "s3cr3t" not in "".join(traceback.format_exception(caught.value))
    assert "s3cr3t" not in caplog.text


def test_a_proxy_of_the_settings_whose_url_makes_no_sense_is_an_error_too() -> None:
    proxy = Secret("http://user:s3cr3t@127.0.0.1:99999")
    with pytest.raises(StateStoreError, match="at most 65535") as caught:
        make_client(S3Settings(endpoint_url=ENDPOINT, proxy_url=proxy))
    assert "s3cr3t" not in "".join(traceback.format_exception(caught.value))


def test_no_keys_are_asked_of_this_machine_by_a_proxy_whose_url_makes_no_sense(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """botocore asks it before there is a client."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "false")
    monkeypatch.setenv("HTTP_PROXY", "http://user:s3cr3t/1@127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "s3.invalid")
    settings = S3Settings(endpoint_url="http://s3.invalid", credential_sources=("iam-role",))
    with pytest.raises(StateStoreError, match="%2F") as caught:
        make_client(settings)
    assert "s3cr3t" not in "".join(traceback.format_exception(caught.value))
    assert "s3cr3t" not in caplog.text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NO_PROXY", "localhost,127.0.0.1,::1"),
        ("no_proxy", "localhost, .svc, 10.0.0.0/8"),
        ("HTTPS_PROXY", "http://user:a/b@proxy:3128"),
        ("ALL_PROXY", "http://user:a/b@proxy:3128"),
        ("http_proxy", "proxy:3128"),
        ("http_proxy", "//proxy:3128"),
        ("http_proxy", "http://user:p@ss%zz@[::1]:3128/"),
    ],
)
def test_what_is_no_proxy_of_the_endpoint_and_what_is_a_good_one_refuse_nothing(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    make_client(S3Settings(endpoint_url="http://s3.invalid", anonymous=True))


def test_no_error_shows_keys_that_botocore_has_found(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"AWS_ACCESS_KEY_ID": "FOUND-KEY", "AWS_SECRET_ACCESS_KEY": "FOUND-SECRET", "AWS_SESSION_TOKEN": "FOUND-T"}
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    answer = {"Error": {"Code": "AccessDenied", "Message": f"no {' '.join(given.values())} here"}}
    with pytest.raises(S3Failure) as caught, Bucket("b", S3Settings(), RequestMetrics()).failures():
        raise ClientError(answer, "PutObject")
    assert str(caught.value) == "S3 has answered AccessDenied: no *** *** *** here"
    assert "FOUND" not in "".join(traceback.format_exception(caught.value))


def test_a_role_that_was_not_assumed_yet_has_no_keys() -> None:
    keys = {"access_key": Secret("KEY"), "secret_key": Secret("SECRET")}
    assert keys_of_client(make_client(S3Settings(assumed_role=AssumedRole("arn:aws:iam::1:role/r"), **keys))) == []


def test_a_profile_may_name_a_process_that_prints_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    keys = {"Version": 1, "AccessKeyId": "PRINTED", "SecretAccessKey": "x"}
    program.write_text(f"print({json.dumps(json.dumps(keys))})")
    (tmp_path / "profiles").write_text(f"[me]\ncredential_process={sys.executable} {program}\n")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ENVIRONMENT")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    provider = "software.amazon.awssdk.auth.credentials.ProfileCredentialsProvider"
    conf = {
        "fs.s3a.aws.credentials.provider": provider,
        "fs.s3a.auth.profile.name": "me",
        "fs.s3a.auth.profile.file": str(tmp_path / "profiles"),
    }
    found = credentials(conf, {})
    assert key_of(S3Settings(endpoint_url=ENDPOINT, **found)) == "PRINTED"
    program.write_text("raise SystemExit('no keys today')")
    with pytest.raises(StateStoreError, match="no keys today"):
        make_client(S3Settings(endpoint_url=ENDPOINT, **found))


def test_new_keys_reach_all_who_use_a_bucket() -> None:
    def location(key: str, token: str) -> StorageLocation:
        keys = {"access_key": Secret(key), "secret_key": Secret(f"{key}-secret"), "session_token": Secret(token)}
        return StorageLocation("s3://renewed/cp", S3Settings(endpoint_url=ENDPOINT, **keys))

    renew(location("unused", "0"))  # nobody uses it yet
    files, path = resolve(location("first", "1"))
    assert isinstance(files, S3FileManager)
    assert path == "renewed/cp"
    assert keys_of(files._bucket) == ("first", "first-secret")
    client = files._bucket.client()
    renew(location("first", "1"))
    assert files._bucket.client() is client
    renew(location("second", "2"))
    assert keys_of(files._bucket) == ("second", "second-secret")
    assert resolve(location("second", "2"))[0] is files
    assert "second-secret" in files._bucket._secrets
