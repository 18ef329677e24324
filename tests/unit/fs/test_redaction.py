"""What messages show of a URI."""

from __future__ import annotations

import traceback

import pytest

from hdfsstore.errors import StateStoreError
from hdfsstore.fs.location import resolve
from hdfsstore.fs.redaction import scrubbed, shown


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("s3://bucket/a@b/c", "s3://bucket/a@b/c"),
        ("s3://AKIA:s3cr3t@bucket/p", "s3://***@bucket/p"),
        ("s3://AKIA:s3%2Fcr3t@bucket/p?region=x&endpoint_override=http://h:1", "s3://***@bucket/p?***"),
        ("s3://AKIA:s3/cr@3t@bucket/p", "s3://***@bucket/p"),
        ("s3://AKIA:12/3@bucket/p", "s3://***@bucket/p"),
        ("s3a://AKIA:s3/cr3t", "s3a://***"),
        ("hdfs://namenode:8020/p", "hdfs://namenode:8020/p"),
        ("hdfs://somebody@namenode:8020/p", "hdfs://***@namenode:8020/p"),
        ("hdfs:///p", "hdfs:///p"),
        ("http://[::1]:80/p", "http://[::1]:80/p"),
        ("abfs://container@account.dfs.core.windows.net/p", "abfs://container@account.dfs.core.windows.net/p"),
        ("abfs://:s3cr3t@account.dfs.core.windows.net/p", "abfs://***@account.dfs.core.windows.net/p"),
        ("memory:p", "memory:p"),
        ("/tmp/what?", "/tmp/what?"),
        ("C:\\checkpoint", "C:\\checkpoint"),
    ],
)
def test_shown(uri: str, expected: str) -> None:
    assert shown(uri) == expected


def test_an_error_about_a_uri_is_scrubbed_of_all_that_is_hidden() -> None:
    uri = "s3://AKIA:s3%2Fcr3t@bucket/p?token=t0k3n"
    assert scrubbed(f"cannot parse {uri}", uri) == "cannot parse s3://***@bucket/p?***"
    assert scrubbed("no key AKIA with s3/cr3t (s3%2Fcr3t) and t0k3n", uri) == "no key *** with *** (***) and ***"


@pytest.mark.parametrize(
    "uri", ["s3://AKIA:s3cr3t@/p", "nope://AKIA:s3cr3t@b/p", "s3://AKIA:s3/cr3t@b/p", "s3://AKIA:s3cr3t@b/p?x=s3cr3t"]
)
def test_a_uri_that_cannot_be_opened(uri: str) -> None:
    with pytest.raises(StateStoreError) as caught:
        resolve(uri)
    text = "".join(traceback.format_exception(caught.value)) + repr(caught.value) + repr(caught.value.__context__)
    assert "***" in text
    assert "cr3t" not in text
    assert "AKIA" not in text
