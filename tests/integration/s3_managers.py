"""Nothing: what the tests of S3's FileManager share."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable
from typing import Any

from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.session import Session

from hdfsstore.errors import FileSystemTimeoutError
from hdfsstore.fs.s3.open import open_bucket
from hdfsstore.fs.s3.s3_files import S3FileManager
from hdfsstore.fs.s3.settings import S3Settings
from hdfsstore.fs.secret import Secret
from tests.services import minio as service
from tests.services.minio import Minio

BUCKET = "checkpoints"
ROLE_ARN = "arn:aws:iam::123456789012:role/of-the-tests"


def settings(port: int, **others: Any) -> S3Settings:
    chosen: dict[str, Any] = {
        "endpoint_url": f"http://127.0.0.1:{port}",
        "region": "us-east-1",
        "path_style": True,
        "access_key": Secret(service.USER),
        "secret_key": Secret(service.PASSWORD),
    }
    return S3Settings(**{**chosen, **others})


def manager(port: int, **others: Any) -> S3FileManager:
    return open_bucket(settings(port, **others), BUCKET)


def read(files: S3FileManager, path: str, size: int | None = None) -> bytes:
    file = files.open_file(path, size)
    content = bytearray()
    block = bytearray(300_000)
    while n := file.readinto(block):
        content += block[:n]
    file.close()
    return bytes(content)


def bare_client(minio: Minio, service_name: str = "s3") -> Any:
    """A client that nothing of hdfsstore has made."""
    return Session().create_client(
        service_name,
        region_name="us-east-1",
        endpoint_url=minio.endpoint(),
        verify=str(minio.ca_file) if minio.ca_file else None,
        aws_access_key_id=service.USER,
        aws_secret_access_key=service.PASSWORD,
    )


def policy(*actions: str, **limited: str) -> str:
    """What somebody may do: actions everywhere, and others on the objects with a name such as `bucket/folder/*`."""
    resources = {**dict.fromkeys(actions, "*"), **limited}
    allowed = [
        {"Effect": "Allow", "Action": [action], "Resource": [f"arn:aws:s3:::{resource}"]}
        for action, resource in resources.items()
    ]
    return json.dumps({"Version": "2012-10-17", "Statement": allowed})


def allow_anybody(minio: Minio, bucket: str) -> None:
    """Everybody may read, write, list and delete the objects of a bucket, without keys too."""
    allowed = {
        "Effect": "Allow",
        "Principal": {"AWS": ["*"]},
        "Action": ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:ListBucket"],
        "Resource": [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"],
    }
    document = json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
    bare_client(minio).put_bucket_policy(Bucket=bucket, Policy=document)


def temporary_keys(minio: Minio, policy: str) -> dict[str, str]:
    """Storage options with keys of STS that may do so much, for 15 minutes."""
    given = bare_client(minio, "sts").assume_role(
        RoleArn=ROLE_ARN, RoleSessionName="tests", DurationSeconds=900, Policy=policy
    )["Credentials"]
    return {
        "aws_access_key_id": given["AccessKeyId"],
        "aws_secret_access_key": given["SecretAccessKey"],
        "aws_session_token": given["SessionToken"],
    }


def revoke_temporary_keys(minio: Minio) -> None:
    """Ends all keys of STS that the server has given."""
    request = AWSRequest("POST", f"{minio.endpoint()}/minio/admin/v3/revoke-tokens/builtin?fullRevoke=true", data=b"")
    S3SigV4Auth(Credentials(service.USER, service.PASSWORD), "s3", "us-east-1").add_auth(request)
    signed = urllib.request.Request(request.url, b"", dict(request.headers))
    with urllib.request.urlopen(signed, timeout=10) as answer:
        assert answer.status == 204


def is_replaced(files: S3FileManager, path: str) -> bool:
    """Writes a newer file there. False: an earlier write or deletion may still take effect."""
    try:
        files.replace(path, [b"newer"])
    except FileSystemTimeoutError as error:
        if error.tries:
            raise
        return False
    return True


def is_deleted(files: S3FileManager, path: str) -> bool:
    """Deletes the file. False: an earlier write or deletion may still take effect."""
    try:
        files.delete([path])
    except FileSystemTimeoutError as error:
        if error.tries:
            raise
        return False
    return True


def until(true: Callable[[], bool]) -> None:
    """Waits until it is true, for half a minute at most."""
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)
