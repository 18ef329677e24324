"""Storage options have names that users know. Others are refused, and no error shows a value."""

from __future__ import annotations

import pytest

from hdfsstore.errors import StateStoreError, UnsupportedSettingError
from hdfsstore.fs.secret import Secret
from hdfsstore.fs.storage_options import NAMES, Options, has_secrets, parse_options


def test_each_option_goes_where_it_counts() -> None:
    made = parse_options(
        {
            "AWS_ACCESS_KEY_ID": Secret("AKIA"),
            "aws_secret_access_key": "s3cr3t",
            "Aws_Session_Token": " t ",
            "aws_region": "eu-west-1",
            "aws_endpoint_url": "http://minio:9000",
            "aws_profile": "me",
            "aws_ca_bundle": "/ca.pem",
            "timeout": "30s",
            "client": "hdfs-native",
            "user": "me",
            "fs.defaultFS": "hdfs://nn:8020",
            "fs.s3a.path.style.access": True,
            "fs.s3a.bucket.data.endpoint": "http://own",
            "fs.s3a.bucket.my.data.fs.s3a.secret.key": "own",
            "dfs.replication": 2,
            "dfs.namenode.http-address.ns.a": "one:9870",
        }
    )
    assert made == Options(
        {
            "fs.s3a.access.key": "AKIA",
            "fs.s3a.secret.key": "s3cr3t",
            "fs.s3a.session.token": "t",
            "fs.s3a.endpoint.region": "eu-west-1",
            "fs.s3a.endpoint": "http://minio:9000",
            "fs.s3a.auth.profile.name": "me",
            "fs.defaultFS": "hdfs://nn:8020",
            "fs.s3a.path.style.access": "true",
            "fs.s3a.bucket.data.endpoint": "http://own",
            "fs.s3a.bucket.my.data.fs.s3a.secret.key": "own",
            "dfs.replication": "2",
            "dfs.namenode.http-address.ns.a": "one:9870",
        },
        timeout_s=30.0,
        client="hdfs-native",
        user="me",
        ca_bundle="/ca.pem",
    )
    assert "s3cr3t" not in repr(made)
    assert parse_options(None) == parse_options({}) == Options()


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("aws_secret_access_kye", ""),
        ("AWS_SECRET_ACCESS_KYE", "'AWS_SECRET_ACCESS_KEY' is the nearest"),
        ("timeouts", "'timeout' is the nearest"),
        ("fs.s3a.pathstyle", ""),
        ("fs.s3a.bucket.data.pathstyle", ""),
        ("secret_key", ""),
        ("dfs.datanode.data.dir", ""),
    ],
)
def test_other_names_are_refused(name: str, near: str) -> None:
    with pytest.raises(UnsupportedSettingError, match=f"there is no storage option '{name}'") as raised:
        parse_options({name: "hidden"})
    assert near in str(raised.value)
    assert "hidden" not in str(raised.value)
    assert all(known in str(raised.value) for known in NAMES)


@pytest.mark.parametrize(
    ("name", "value"),
    [("timeout", "soon"), ("timeout", 0), ("timeout", "inf"), ("client", "webhdfs"), ("user", None), ("user", b"x")],
)
def test_senseless_values_are_errors(name: str, value: object) -> None:
    with pytest.raises(StateStoreError, match=f"the value of {name} makes no sense"):
        parse_options({name: value})  # type: ignore[dict-item]


def test_secrets_are_known_by_their_names() -> None:
    assert has_secrets({"aws_session_token": ""})
    assert has_secrets({"fs.s3a.bucket.data.encryption.key": ""})
    assert not has_secrets({"aws_region": "", "fs.s3a.endpoint": "", "timeout": ""})
