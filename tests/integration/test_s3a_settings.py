"""Settings of s3a that a session of Spark has: a query of that session honours each of them, and so does a reader."""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from botocore.exceptions import ClientError
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from hdfsstore.spark.driver import plan
from tests.integration.s3_managers import ROLE_ARN, allow_anybody, bare_client
from tests.integration.session_query import STATE, run_batch, session_with, state_of
from tests.services.certificates import DOMAIN
from tests.services.http_proxy import HttpProxy
from tests.services.minio import KMS_KEY, Minio

TINY = 1000
_PROVIDER = "aws.credentials.provider"
WRONG_KEYS = {"fs.s3a.access.key": "nobody", "fs.s3a.secret.key": "wrong-secret"}


@pytest.fixture
def bucket() -> str:
    """Each test has its own: Hadoop keeps one client of a bucket for all sessions."""
    return f"settings-{uuid.uuid4()}"


def check(spark: SparkSession, bucket: str, settings: dict[str, str], folder: Path) -> None:
    """The query writes state in a session with these settings of the bucket, and reads it back.

    All other buckets have wrong keys there.
    """
    soon = {f"fs.s3a.{name}": "1" for name in ("attempts.maximum", "retry.limit")}  # a wrong setting fails soon
    own = {f"fs.s3a.bucket.{bucket}.{name.removeprefix('fs.s3a.')}": value for name, value in settings.items()}
    session = session_with(spark, {**WRONG_KEYS, **soon, **own})
    checkpoint = f"s3a://{bucket}/query"
    run_batch(session, checkpoint, folder)
    assert state_of(session, checkpoint) == STATE


def our_objects(minio: Minio, bucket: str) -> list[str]:
    """The keys of what hdfsstore has written; some are of the state."""
    found = bare_client(minio).list_objects_v2(Bucket=bucket, Prefix="query/hdfsstore/")["Contents"]
    keys = [each["Key"] for each in found]
    assert [key for key in keys if "/state/" in key]
    return keys


@pytest.fixture
def trusted(secure_minio: Minio, bucket: str, monkeypatch: pytest.MonkeyPatch) -> Minio:
    """A server with TLS that has the bucket. Spark's JVM and workers trust it, and here the driver does."""
    bare_client(secure_minio).create_bucket(Bucket=bucket)
    monkeypatch.setenv("AWS_CA_BUNDLE", str(secure_minio.ca_file))
    return secure_minio


def test_a_ca_of_ones_own_and_a_key_of_kms(spark: SparkSession, trusted: Minio, bucket: str, tmp_path: Path) -> None:
    more = {"encryption.algorithm": "SSE-KMS", "encryption.key": KMS_KEY}
    check(spark, bucket, {**trusted.storage_options(), **more}, tmp_path)
    client = bare_client(trusted)
    for key in our_objects(trusted, bucket):
        head = client.head_object(Bucket=bucket, Key=key)
        assert (head.get("ServerSideEncryption"), head.get("SSEKMSKeyId")) == ("aws:kms", f"arn:aws:kms:{KMS_KEY}"), key


def test_a_key_of_the_customer(spark: SparkSession, trusted: Minio, bucket: str, tmp_path: Path) -> None:
    secret = bytes(range(32))
    more = {"encryption.algorithm": "SSE-C", "encryption.key": base64.b64encode(secret).decode()}
    check(spark, bucket, {**trusted.storage_options(), **more}, tmp_path)
    client = bare_client(trusted)
    for key in our_objects(trusted, bucket):
        with pytest.raises(ClientError):
            client.head_object(Bucket=bucket, Key=key)
        said = client.head_object(Bucket=bucket, Key=key, SSECustomerAlgorithm="AES256", SSECustomerKey=secret)
        assert base64.b64decode(said["SSECustomerKeyMD5"]) == hashlib.md5(secret).digest()


@pytest.fixture
def proxied(trusted: Minio) -> Iterator[tuple[HttpProxy, dict[str, str]]]:
    """A proxy, which alone knows where the server is, and settings."""
    with HttpProxy(trusted.port, "user", "the-password") as proxy:
        yield proxy, {**trusted.storage_options(), **proxy.storage_options(), "fs.s3a.endpoint": f"https://{DOMAIN}"}


def test_a_proxy_and_the_bucket_in_the_name_of_the_host(
    spark: SparkSession, proxied: tuple[HttpProxy, dict[str, str]], bucket: str, tmp_path: Path
) -> None:
    proxy, settings = proxied
    check(spark, bucket, {**settings, "fs.s3a.path.style.access": "false"}, tmp_path)
    assert set(proxy.passed) == {("CONNECT", f"{bucket}.{DOMAIN}:443")}


@pytest.fixture
def role(proxied: tuple[HttpProxy, dict[str, str]]) -> dict[str, str]:
    """s3a asks for roles at the port 443 alone, which only the proxy can stand for."""
    return {
        **proxied[1],
        _PROVIDER: "org.apache.hadoop.fs.s3a.auth.AssumedRoleCredentialProvider",
        "assumed.role.arn": ROLE_ARN,
        "assumed.role.sts.endpoint": DOMAIN,
        "assumed.role.sts.endpoint.region": "us-east-1",
    }


def test_an_assumed_role_and_the_bucket_in_the_path(
    spark: SparkSession, role: dict[str, str], proxied: tuple[HttpProxy, dict[str, str]], bucket: str, tmp_path: Path
) -> None:
    check(spark, bucket, role, tmp_path)
    assert set(proxied[0].passed) == {("CONNECT", f"{DOMAIN}:443")}


def test_tasks_have_the_rights_of_the_role_alone(
    spark: SparkSession, role: dict[str, str], bucket: str, tmp_path: Path
) -> None:
    statements = [
        {"Effect": "Allow", "Action": ["s3:*"], "Resource": ["arn:aws:s3:::*"]},
        {"Effect": "Deny", "Action": ["s3:PutObject"], "Resource": [f"arn:aws:s3:::{bucket}/query/*.delta"]},
    ]
    role["assumed.role.policy"] = json.dumps({"Version": "2012-10-17", "Statement": statements})
    with pytest.raises(StreamingQueryException, match=r"\.delta: .*AccessDenied.*s3:PutObject"):
        check(spark, bucket, role, tmp_path)


def test_keys_are_sent_in_no_command_that_spark_would_write_to_a_disk(
    spark: SparkSession, minio: Minio, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    minio.create_bucket(bucket)
    monkeypatch.setattr(plan, "limit_of", lambda _: TINY)
    with pytest.raises(StreamingQueryException, match=f"SizeLimitError.* Spark writes a command of more than {TINY} "):
        run_batch(spark, f"s3a://{bucket}/query", tmp_path)


def test_anonymous_access_without_a_limit_of_commands(
    spark: SparkSession, minio: Minio, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "limit_of", lambda _: TINY)
    minio.create_bucket(bucket)
    allow_anybody(minio, bucket)
    check(spark, bucket, {_PROVIDER: "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"}, tmp_path)
